"""The rules that every agent is given, and the reminders that send a reply back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core import json

from .book import LanguageChoice, PromptBook, language_of, read_overrides
from .template import LANGUAGES, Language, Prompts, shipped

__all__ = [
    "LANGUAGES",
    "Language",
    "LanguageChoice",
    "PromptBook",
    "Prompts",
    "criteria",
    "empty_reply",
    "language_of",
    "missing_tools",
    "read_overrides",
    "shipped",
    "system_prompt",
    "tools_changed",
    "wrong_output",
]

_VARIABLE_CHARS = 500


def system_prompt(
    *,
    role: str,
    instructions: str,
    variables: Mapping[str, object],
    output_schema: Mapping[str, object] | None = None,
    prompts: Prompts | None = None,
) -> str:
    """The system message of an agent.

    Args:
        role: Who it is, in a few words.
        instructions: What it is to do.
        variables: What the task was started with; a long value is shown by its beginning.
        output_schema: JSON Schema that the final answer has to fit.
        prompts: The texts; the shipped English ones if None.
    """
    said = prompts or shipped("en")
    name = role.strip()
    parts = [said.text("role", role=name) if name else "", instructions.strip(), said.rules]
    if variables:
        lines = [f"- {name} = {_shown(value, said)}" for name, value in variables.items()]
        parts.append("\n".join([said.text("variables"), *lines]))
    if output_schema is not None:
        parts.append(said.text("structured_output", schema=json.dumps(output_schema)))
    return "\n\n".join(part for part in parts if part)


def _shown(value: object, prompts: Prompts) -> str:
    text = json.dumps(value)
    if len(text) <= _VARIABLE_CHARS:
        return text
    beginning = text[:_VARIABLE_CHARS]
    return prompts.text("cut_value", beginning=beginning, characters=f"{len(text):,}")


def criteria(wanted: Sequence[str], prompts: Prompts | None = None) -> str:
    """What must hold at the end of a task, as the model reads it."""
    said = prompts or shipped("en")
    return "\n".join([said.text("criteria"), *(f"- {each}" for each in wanted)])


def empty_reply(prompts: Prompts | None = None) -> str:
    """Sent when a reply holds neither an answer nor a call."""
    return (prompts or shipped("en")).text("empty_reply")


def missing_tools(names: Sequence[str], prompts: Prompts | None = None) -> str:
    """Sent when a model ends before its required tools have succeeded."""
    return (prompts or shipped("en")).text("missing_tools", tools=", ".join(names))


def tools_changed(
    gone: Mapping[str, str], back: Sequence[str], prompts: Prompts | None = None
) -> str:
    """Told once where tools stop working, or work again.

    Args:
        gone: Names, and why; "" where that is not known.
        back: Names of those that were gone before.
        prompts: The texts; the shipped English ones if None.
    """
    said = prompts or shipped("en")
    lines = [
        said.text("tool_gone_why", tool=name, why=why) if why else said.text("tool_gone", tool=name)
        for name, why in gone.items()
    ]
    lines += [said.text("tool_back", tool=name) for name in back]
    note = [said.text("tools_changed"), *lines]
    if gone:
        note.append(said.text("tools_missing"))
    return "\n".join(note)


def wrong_output(problem: str, prompts: Prompts | None = None) -> str:
    """Sent when a final answer does not fit the output schema."""
    return (prompts or shipped("en")).text("wrong_output", problem=problem)
