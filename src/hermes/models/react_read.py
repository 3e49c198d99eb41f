"""What a model wrote, read as the JSON object of the ReAct dialect.

The object may stand in a fence, in prose or after reasoning; fields may have the names that models
like to give them; a closing brace may be missing. Arguments are handed on as they were written:
whoever knows the tool reads them. Where it is not certain what was meant, nothing is guessed, and
the text of the problem is for the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from hermes.core import json

from .react_scan import Members, decoded, members

CALL_FORM = '{"thought": "…", "action": {"type": "tool_call", "tool_name": "…", "tool_args": {…}}}'
FINISH_FORM = '{"thought": "…", "action": {"type": "finish"}, "final_answer": "…"}'

# Compared without case and without what is no letter.
THOUGHT = frozenset({"thought", "thoughts", "reasoning", "think"})
ACTION = frozenset({"action", "actions"})
ANSWER = frozenset({"finalanswer", "answer", "final", "finalresponse", "response", "output"})
_NAME = frozenset({"toolname", "tool", "name", "function", "functionname", "actionname"})
_ARGS = frozenset(
    {"toolargs", "args", "arguments", "toolarguments", "parameters", "params", "input"}
    | {"toolinput", "actioninput"}
)
_TYPE = frozenset({"type", "kind"})
_CALLS = frozenset({"toolcall", "tool", "call", "functioncall", "tooluse", "function"})
_FINISHES = frozenset({"finish", "finished", "final", "finalanswer", "answer", "done", "end"})
_WRITTEN = re.compile(r"[\"'](?:action|tool_name|tool_args|final_answer|thought)[\"']\s*:")
# An answer in prose may well be `42` or `true`; with a schema `null` is for the schema to judge.
_NOTHING = re.compile(r"\s*(?:```\w*\s*)?(?:null|\"\"|\[\s*\]|\{\s*\})\s*(?:```\s*)?")
_REASONING_END = "</think>"
_INVENTED = re.compile(r"\s*(?:```\s*)?(?:observation|result|tool result)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,\[\]]*(?:```(?:json)?[\s,]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A wish to call a tool, with its arguments as they were written."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a text comes to: calls, an answer, or a problem.

    Attributes:
        answer: None where the text asks for calls or is a problem.
        is_cut: The text ended before the object did.
    """

    thought: str = ""
    calls: tuple[Call, ...] = ()
    answer: str | None = None
    problem: str = ""
    is_cut: bool = False


def read_reply(
    text: str, tools: Collection[str], *, has_schema: bool = False, is_cut: bool = False
) -> Reading:
    """Read a reply; never raises.

    Args:
        text: The reply, without the reasoning that the server kept apart.
        tools: Names that may be called.
        has_schema: The final answer is to be JSON itself, which may come without the object.
        is_cut: The reply ended at the output limit.
    """
    found = _objects(text, tools, has_schema=has_schema)
    if not found:
        if not has_schema and _NOTHING.fullmatch(text):
            return _problem("it says nothing")
        if not _WRITTEN.search(text):
            return Reading(answer=text)
        return _problem("it holds no JSON object in the form that is wanted")
    first, end, is_whole = found[0][1], found[0][2], found[0][3]
    if not is_whole and is_cut:
        return _cut(first)
    if first.problem or first.answer is not None:
        return first
    for start, more, more_end, _ in found[1:]:
        gap = text[end:start]
        if _INVENTED.match(gap) or more.answer is not None:
            break  # written before the result was there
        if not _BETWEEN.fullmatch(gap) or more.problem:
            if more.calls == first.calls:
                continue
            return _problem("it holds several JSON objects, and it is not clear which one counts")
        fresh = tuple(call for call in more.calls if call not in first.calls)
        first = Reading(thought=first.thought or more.thought, calls=first.calls + fresh)
        end = more_end
    return first


def is_finish(action: str) -> bool:
    """Whether the raw value of `action` says that this is the end."""
    inner = members(action, 0) if action.startswith("{") else None
    if inner is None:
        return _plain(decoded(action)) in _FINISHES
    return _plain(decoded(inner.first(_TYPE) or "")) in _FINISHES


def _objects(
    text: str, tools: Collection[str], *, has_schema: bool
) -> list[tuple[int, Reading, int, bool]]:
    """The objects of the dialect, with where they start and end and whether they are whole."""
    found: list[tuple[int, Reading, int, bool]] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        read = members(text, start)
        if read is None:
            at = start + 1
            continue
        at = read.end
        reading = _interpret(read, tools, has_schema=has_schema)
        if reading is not None:
            found.append((start, reading, read.end, read.is_whole))
    # A draft in reasoning whose beginning the server kept.
    ends = text.rfind(_REASONING_END)
    after = [item for item in found if item[0] > ends]
    return after if 0 <= ends and after else found


def _interpret(read: Members, tools: Collection[str], *, has_schema: bool) -> Reading | None:
    thought = decoded(read.first(THOUGHT) or "")
    action = read.first(ACTION)
    answer = read.first(ANSWER)
    if read.problem:
        if action is None and not thought and read.first(frozenset({"finalanswer"})) is None:
            return None
        return _problem(f"it is not valid JSON: {read.problem}")
    if action is not None and action != "null":
        return _of_action(read, action, answer, thought, tools)
    name = read.first(_NAME)
    if name is not None and decoded(name) in tools:
        return Reading(thought=thought, calls=(_call(read, decoded(name)),))
    if answer is not None and not _is_other(read, has_schema=has_schema):
        return _finish(answer, thought)
    if thought and len(read.items) == 1:
        return _problem("`action` is missing")
    return None


def _is_other(read: Members, *, has_schema: bool) -> bool:
    """Whether an object without `action` is the answer's own JSON, or a part of some prose."""
    keys = {key for key, _, _ in read.items}
    if "finalanswer" in keys:
        return False
    return has_schema or not keys <= (THOUGHT | ANSWER | ACTION)


def _of_action(
    read: Members, action: str, answer: str | None, thought: str, tools: Collection[str]
) -> Reading:
    if action.startswith("["):
        return _of_list(action, thought, tools)
    inner = members(action, 0) if action.startswith("{") else None
    if inner is None:
        word = decoded(action)
        kind, place = _plain(word), read
    else:
        if inner.problem:
            return _problem(f"`action` is not valid JSON: {inner.problem}")
        word = decoded(inner.first(_TYPE) or "")
        kind, place = _plain(word), inner
        answer = answer if answer is not None else inner.first(ANSWER - {"output"})
    name = decoded(place.first(_NAME) or read.first(_NAME) or "")
    if word in tools and not (kind in _CALLS and name):
        return Reading(thought=thought, calls=(_call(place, word, read),))
    if kind in _FINISHES or (not kind and not name and answer is not None):
        return _finish(answer, thought)
    if name and (not kind or kind in _CALLS):
        return Reading(thought=thought, calls=(_call(place, name, read),))
    if kind in _CALLS:
        return _problem("`tool_name` is missing")
    if inner is None and word and place.first(_ARGS) is not None:
        return Reading(thought=thought, calls=(_call(place, word),))  # an unknown tool is told
    return _problem(f"`action.type` is {word!r:.60}, not `tool_call` or `finish`")


def _of_list(action: str, thought: str, tools: Collection[str]) -> Reading:
    """Several actions in one object."""
    calls: list[Call] = []
    at = 0
    while (start := action.find("{", at)) >= 0:
        item = members(action, start)
        if item is None or item.problem:
            return _problem("`action` is a list that cannot be read")
        at = item.end
        part = _of_action(item, action[start:at], None, "", tools)
        if not part.calls:
            return part if part.problem else _problem("`action` lists a finish among others")
        calls += part.calls
    if not calls:
        return _problem("`action` is an empty list")
    return Reading(thought=thought, calls=tuple(calls))


def _call(place: Members, name: str, outer: Members | None = None) -> Call:
    raw = place.first(_ARGS)
    if raw is None and outer is not None:
        raw = outer.first(_ARGS)
    if raw is None or raw == "null":
        return Call(name=name, arguments="{}")
    return Call(name=name, arguments=decoded(raw) if raw[:1] in "\"'" else raw)


def _finish(answer: str | None, thought: str) -> Reading:
    if answer is None or answer == "null":
        return _problem("`final_answer` is missing")
    return Reading(thought=thought, answer=decoded(answer))


def _cut(first: Reading) -> Reading:
    """Of an object that ended at the output limit only a begun answer is of use."""
    if first.answer:
        return Reading(thought=first.thought, answer=first.answer, is_cut=True)
    return _problem("it was cut off at the output limit; write less at once, a shorter thought")


def _problem(why: str) -> Reading:
    return Reading(
        problem=f"Your reply could not be read: {why}. Send exactly one JSON object and nothing "
        f"else, either {CALL_FORM} or {FINISH_FORM}."
    )


def _plain(word: str) -> str:
    return plain_key(word)


def plain_key(word: str) -> str:
    """A field's name without what models change about it."""
    return re.sub(r"[^a-z]", "", word.lower())


def as_call_object(thought: str, name: str, arguments: str) -> str:
    """A past call as the model would have written it."""
    try:
        known: object = json.loads(arguments or "{}")
    except json.CodecError:
        known = arguments
    action = {"type": "tool_call", "tool_name": name, "tool_args": known}
    return json.dumps({"thought": thought, "action": action})


def as_finish_object(thought: str, answer: str) -> str:
    """A past answer as the model would have written it."""
    return json.dumps({"thought": thought, "action": {"type": "finish"}, "final_answer": answer})
