"""The work of `hermes prompts`."""

from __future__ import annotations

import difflib
from pathlib import Path

from hermes.agents import Launch
from hermes.config import load_settings
from hermes.loop.prompts import LANGUAGES, Language, Prompts, shipped, system_prompt

from . import exits, output


def show(agent: Path | None, goal: str, language: Language | None, *, json: bool) -> None:
    """Print the system prompt of an agent.

    Args:
        agent: Its file; an agent without words of its own if None.
        goal: What it is asked, which may choose the language.
        language: Whatever is set.
        json: One JSON value with all that is known of it.
    """
    book = load_settings().settings.prompt_book
    launch = Launch.of(agent=agent, tools=(), playbook=None, model=None, max_steps=None)
    definition = launch.definition()
    said = (
        book.of(language)
        if language
        else book.choose(definition.role, definition.instructions, goal)
    )
    text = system_prompt(
        role=definition.role,
        instructions=definition.instructions,
        variables={},
        output_schema=definition.output_schema,
        prompts=said,
    )
    if json:
        output.print_json(
            {
                "language": said.language,
                "version": said.version,
                "overridden": list(said.overridden),
                "text": text,
                "parts": dict(said.parts),
            }
        )
    else:
        output.print_text(text)
        exits.tell(_about(said, book.source))


def _about(said: Prompts, source: str) -> str:
    line = f"system prompt {said.language}, version {said.version}"
    if not said.overridden:
        return line
    return f"{line}, with {', '.join(said.overridden)} from {source}"


def diff(language: Language | None, *, json: bool) -> exits.Exit:
    """Print what a user's texts change, part by part.

    Args:
        language: Only this one.
        json: One JSON value: a list of changed parts.

    Returns:
        1 if anything is changed, as of `diff`.
    """
    book = load_settings().settings.prompt_book
    texts = [book.of(each) for each in LANGUAGES if language in (None, each)]
    changed = [
        (said, name)
        for said in texts
        for name in said.overridden
        if said.parts[name] != shipped(said.language).parts[name]
    ]
    if json:
        output.print_json([_object(said, name) for said, name in changed])
    elif changed:
        lines = [line for said, name in changed for line in _lines(said, name, book.source)]
        output.print_text("\n".join(lines))
    else:
        exits.tell(f"{book.source} changes nothing" if book.source else "HERMES_PROMPTS is not set")
    return exits.Exit.FAILED if changed else exits.Exit.SUCCEEDED


def _object(said: Prompts, name: str) -> dict[str, object]:
    return {
        "language": said.language,
        "version": said.version,
        "part": name,
        "shipped": shipped(said.language).parts[name],
        "yours": said.parts[name],
    }


def _lines(said: Prompts, name: str, source: str) -> list[str]:
    return list(
        difflib.unified_diff(
            shipped(said.language).parts[name].splitlines(),
            said.parts[name].splitlines(),
            f"{said.language}/{name} (version {said.version})",
            f"{said.language}/{name} ({source})",
            lineterm="",
        )
    )
