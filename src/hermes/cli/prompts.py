"""`hermes prompts`: its commands and their options; the work is in `promptbox`, on use."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, leave

app = typer.Typer(
    help="What Hermes itself says to models: show it, and what you changed in it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Wanted(StrEnum):
    """A language of the texts."""

    EN = "en"
    ZH = "zh"


InLanguage = Annotated[
    Wanted | None,
    typer.Option("--language", help="In this language, whatever is set."),
]


@app.command()
def show(
    agent: Annotated[
        Path | None, typer.Argument(metavar="[AGENT]", help="Agent file (TOML or YAML).")
    ] = None,
    goal: Annotated[
        str, typer.Option("--goal", metavar="TEXT", help="A goal, where it chooses the language.")
    ] = "",
    language: InLanguage = None,
    json: AsJson = False,
) -> None:
    """Print the system prompt that an agent gets, as it is sent; its version goes to stderr."""
    from . import promptbox

    promptbox.show(agent, goal, language.value if language else None, json=json)


@app.command()
def diff(language: InLanguage = None, json: AsJson = False) -> None:
    """Show what HERMES_PROMPTS changes against the shipped texts; exit 1 if it changes any."""
    from . import promptbox

    leave(promptbox.diff(language.value if language else None, json=json))
