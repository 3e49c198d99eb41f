"""`hermes models`: its commands and their options; the work is imported on use."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson, leave

app = typer.Typer(
    help="What models can do: list what is known of them, test the one that is set.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

ModelArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Model name; MODEL_NAME otherwise.")
]


@app.callback()
def models(context: typer.Context, json: AsJson = False) -> None:
    """List what is known of models; or test one."""
    context.obj = json
    if context.invoked_subcommand is None:
        from . import modelbox

        modelbox.list_(None, json=json)


@app.command("list")
def list_(context: typer.Context, name: ModelArgument = None, json: AsJson = False) -> None:
    """Show what is known of the model that is set, where each value comes from, and all others."""
    from . import modelbox

    modelbox.list_(name, json=json or context.obj is True)


@app.command()
def test(context: typer.Context, name: ModelArgument = None, json: AsJson = False) -> None:
    """Ask the model in all the ways a run does; exit 1 if something its profile claims fails."""
    from . import modelbox

    leave(modelbox.test(name, json=json or context.obj is True))
