"""Arguments of a tool call: from what a model wrote to values that fit, or to an error for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from hermes.core.effects import Effect
from hermes.tools.schema import Schema, outline

from .exact import Repair, may_round
from .fits import Enough, TooComplex
from .fitting import Fitter
from .quick import looks_of
from .reading import Unreadable, read_document
from .text_calls import ParseError, ToolCall, unusable, written_calls

BAD_ARGUMENTS = "bad_arguments"
OUTPUT_LIMIT = "output_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments that fit their schema.

    Attributes:
        values: Plain JSON; holds no key that was not written, save one that a repair tells of.
        repairs: Everything that differs from what was written, in order.
    """

    values: dict[str, object]
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentError:
    """Why nothing can be run.

    Attributes:
        code: `bad_arguments` or `output_limit`.
        message: For the model: which field, what was seen, what is allowed.
    """

    code: str
    message: str


def read_arguments(
    schema: Schema,
    raw: object,
    *,
    effect: Effect = "unsafe",
    finish_reason: str | None = None,
) -> Arguments | ArgumentError:
    """Read the arguments of a tool call; never guesses and never evaluates anything.

    `reading` says which texts are read, `fitting` which values are converted. An object schema
    that lists `properties` is closed unless it says otherwise itself: an argument that the tool
    does not know is an error, not noise.

    Args:
        schema: JSON Schema of the arguments; references within it are followed, no others.
        raw: The text as the model wrote it; None if absent; some servers send an object.
        effect: The tool's effect class; what drops, renames or guesses something is repaired for
            `read` only.
        finish_reason: Of the model's reply. After `length` nothing is read: a text that looks
            complete may lack its last arguments.
    """
    if finish_reason == "length":
        return cut_off()
    try:
        document = read_document(raw, effect=effect)
    except Unreadable as exc:
        return _error(f"the arguments could not be read: {exc}; expected: {outline(schema)}")
    if looks_of(schema).of(schema)(document.values) and not may_round(document.text):
        return Arguments(values=document.values, repairs=document.repairs)
    fitter = Fitter(schema, effect=effect, spell=document.spell, size=len(document.text))
    try:
        values = fitter.fit(schema, document.values, closed="properties" in schema)
        if not fitter.problems and may_round(document.text):
            fitter.refuse_rounded(values)
    except Enough:
        values = None
    except (TooComplex, RecursionError):
        first = f"; one repair of many is {fitter.repairs[0]}" if fitter.repairs else ""
        return _error(
            f"the arguments are too large or too deep to be compared with the schema{first}"
        )
    if fitter.problems:
        return _error("; ".join(fitter.problems))
    return Arguments(
        values=cast("dict[str, object]", values), repairs=(*document.repairs, *fitter.repairs)
    )


def find_tool_calls(text: str, tools: Mapping[str, Schema]) -> list[ToolCall] | ParseError:
    """Read a reply that is nothing but tool calls, as some models write them; never raises.

    `text_calls` says which forms are known and when a text is a call and no answer.

    Args:
        text: The reply; calls in its reasoning are none.
        tools: Name to JSON Schema of the arguments.

    Returns:
        The calls in order, with only those repairs that lose nothing; an empty list for an answer;
        an error where a call was surely begun and cannot be used.
    """
    found = written_calls(text, tools)
    if isinstance(found, ParseError):
        return found
    calls: list[ToolCall] = []
    for call in found:
        read = read_arguments(tools[call.name], call.raw)
        if isinstance(read, ArgumentError):
            return unusable(f"`{call.name}`: {read.message}")
        calls.append(ToolCall(name=call.name, arguments=read.values))
    return calls


def cut_off() -> ArgumentError:
    """The error of every call in a reply that ended at the output limit."""
    return ArgumentError(
        code=OUTPUT_LIMIT,
        message="the reply reached the output limit, so none of its calls was run; send less at "
        "once, for instance one call with shorter arguments",
    )


def _error(message: str) -> ArgumentError:
    return ArgumentError(code=BAD_ARGUMENTS, message=message)
