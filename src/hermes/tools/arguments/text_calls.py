"""Tool calls that a model wrote as text, because its server did not make calls of them.

Dialects, each also in several calls and in a fence:

- JSON: an object or array of `{"name", "arguments"}` (or `parameters`, `args`, `input`), `{"tool",
  "args"}`, `{"tool_name", "tool_args"}`, `{"function": {…}}`, `{"tool_calls": […]}`, ReAct's
  `{"thought", "action": {…}}`, and `{"name": {…}}` for a known tool
- `<tool_call>…</tool_call>` around JSON, around GLM's `<arg_key>`, around a Python call
- `<function=name><parameter=key>value</parameter></function>`, `<function=name>{…}</function>`,
  `<invoke name="…">` of Anthropic, MiniMax and DeepSeek
- the tokens of Llama, Mistral, DeepSeek, Kimi and gpt-oss; ReAct's `Action:` and `Action Input:`
- Python calls with literals, `f(a=1)` and `[f("x"), g()]`

When a text is a call:

1. Reasoning is never looked at: closed, unclosed, or with its beginning kept by the server.
2. Without marks (JSON, Python) the text must hold nothing but calls.
3. With marks, prose of at most `MAX_LEAD_CHARS` characters may stand before them, if the marks
   begin a line or follow the end of a sentence and no word says that an example comes.
4. Where text follows the marked calls after such a lead, nobody can say whether they were meant:
   that is an error, so that they are sent again. Otherwise the text is no call but an answer.
5. A call to an unknown tool, or one that cannot be read, is an error. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.tools.schema import Schema

from .reading import MAX_BYTES
from .text_json import MAX_CALLS, Broken, WrittenCall
from .text_marks import (
    BETWEEN,
    FENCES,
    OPEN,
    REASONING,
    REASONING_END,
    STOP,
    after_reasoning,
    past,
)

if TYPE_CHECKING:
    from .text_items import Found

MAX_LEAD_CHARS = 300
_MAX_STARTS = 8
_MARK = re.compile(
    rf"(?!<[<\s])(?:(?P<open>{OPEN.pattern})|(?P<end>{REASONING_END.pattern})"
    rf"|(?P<block>{REASONING.pattern}))",
    re.MULTILINE | re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n")
_TAGGED_VALUE = re.compile(r"</(?:[|｜]DSML[|｜])?(?:parameter|param|arg_value)>")
_FENCE = re.compile(r"\s*```\w*\s*")
_NAMED = re.compile(
    r"[\"'](?:tool_|function_)?(?:name|tool|function)[\"']\s*:\s*[\"']([\w.\-]{1,128})"
)
_NAMED_CHARS = 2000
_EXAMPLE = re.compile(
    r"\bexamples?\b(?!\.\w)|\be\.g\.|\bfor instance\b|\blooks? like\b|\blike (?:this|so)\b"
    r"|\bhow to\b|\bsyntax\b|\b(?:would|could|should) (?:write|look|be)\b"
    r"|例如|例子|示例|举例|比如|格式|语法|写法|形如|这样写",
    re.IGNORECASE,
)
_SENTENCE_END = (".", "!", "?", "…", ":", "。", "！", "？", "：", "；")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that was written as text, with arguments that fit its tool's schema."""

    name: str
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseError:
    """The text is a call that cannot be used; `message` tells the model why and what to do."""

    message: str


def written_calls(text: str, tools: Mapping[str, Schema]) -> list[WrittenCall] | ParseError:
    """The calls that a text is, their arguments still unread; empty if it is none.

    Args:
        text: A reply without its reasoning, or with it.
        tools: Name to JSON Schema of the arguments.
    """
    if len(text) > MAX_BYTES and OPEN.match(text, past(STOP, text, 0)):
        return unusable(f"it is longer than {MAX_BYTES} characters")
    if len(text) > MAX_BYTES:
        return []
    try:
        return _Scan(text, tools).calls()
    except Broken as exc:
        return unusable(str(exc))


def is_call_text(text: str, names: Iterable[str] = ()) -> bool:
    """Whether a text holds calls, whole or broken, or reasoning, and no words for a person.

    Args:
        text: Of a reply.
        names: Tools that it may call, beside those that it names itself as JSON does.
    """
    written = _NAMED.findall(text[:_NAMED_CHARS])
    tools: dict[str, Schema] = {name: {} for name in (*names, *written)}
    return is_only_reasoning(text) or written_calls(text, tools) != []


def is_only_reasoning(text: str) -> bool:
    """Whether nothing stands outside of a text's reasoning."""
    return _Scan(text, {}).past_reasoning(0) >= len(text)


def unusable(why: str) -> ParseError:
    """The error of a call that is to be sent again."""
    return ParseError(
        message=f"Your reply was a tool call written as text, and it was not run: {why}. "
        "Send the call again, whole and with nothing around it. If it was an example and no "
        "call, give your answer in prose with the example in a code block."
    )


class _Scan:
    def __init__(self, text: str, tools: Mapping[str, Schema]) -> None:
        self._text, self._tools = text, tools

    def calls(self) -> list[WrittenCall]:
        start: int | None = 0
        for _ in range(_MAX_STARTS):
            found, start = self._from(start)
            if start is None:
                return found
        return []

    def _from(self, start: int) -> tuple[list[WrittenCall], int | None]:
        """The calls from a place on, or the place where a reasoning before it turns out to end."""
        start = self.past_reasoning(start)
        bare = self._bare(start)
        return self._marked(start) if bare is None else (bare, None)

    def past_reasoning(self, at: int) -> int:
        """Past white space and blocks of reasoning."""
        at = past(STOP, self._text, at)
        while block := REASONING.match(self._text, at):
            at = past(STOP, self._text, self._after(block))
        return at

    def _after(self, block: re.Match[str]) -> int:
        """Where the text goes on after a block of reasoning, which may take all that is left."""
        end = after_reasoning(self._text, block)
        return len(self._text) if end is None else end

    def _bare(self, at: int) -> list[WrittenCall] | None:
        at = past(FENCES, self._text, at)
        if not self._tools or OPEN.match(self._text, at):
            return None
        from .text_items import Items  # loaded on use: few replies need it

        items = Items(self._text, self._tools, is_marked=False)
        calls: list[WrittenCall] = []
        while at < len(self._text):
            found = items.at(at)
            if found is None and calls and self._text[at] in "{[":
                raise Broken("what follows the first call is no call, or it was cut off")
            if found is None:
                return None
            _add(calls, found)
            at = past(FENCES, self._text, found.end)
        return calls or None

    def _marked(self, start: int) -> tuple[list[WrittenCall], int | None]:
        at, lead = start, ""
        while mark := _MARK.search(self._text, at):
            lead += self._text[at : mark.start()]
            if mark["end"]:
                return [], self._restart(mark.end())
            if mark["block"]:
                block = REASONING.match(self._text, mark.start())
                at = mark.end() if block is None else self._after(block)
                continue
            if _leads_in(lead):
                calls, end = self._sequence(mark.start())
                if calls or end >= len(self._text):
                    return self._judged(lead, calls, mark.start(), end)
            lead += mark[0]
            at = mark.end()
        return [], None

    def _sequence(self, at: int) -> tuple[list[WrittenCall], int]:
        from .text_items import Items

        items = Items(self._text, self._tools, is_marked=True)
        calls: list[WrittenCall] = []
        at = past(BETWEEN, self._text, at)
        while at < len(self._text):
            if block := REASONING.match(self._text, at):
                closed = after_reasoning(self._text, block)
                if closed is None:
                    break
                at = past(BETWEEN, self._text, closed)
                continue
            found = items.at(at)
            if found is None:
                break
            _add(calls, found)
            at = past(BETWEEN, self._text, found.end)
        return calls, at

    def _restart(self, at: int) -> int | None:
        """Where the reply itself begins after reasoning whose own beginning is not in the text.

        Models end such reasoning with a line break. Within a JSON string there is none, so that
        nothing in a string, quoted or cut off, can pass for the beginning of a reply.
        """
        return at if _LINE_BREAK.match(self._text, at) else None

    def _judged(
        self, lead: str, calls: list[WrittenCall], start: int, end: int
    ) -> tuple[list[WrittenCall], int | None]:
        closing = REASONING_END.search(self._text, end)
        # Where values stand in tags, what follows may be the rest of a value that holds such tags.
        if closing is not None and _TAGGED_VALUE.search(self._text, start, end) is None:
            return [], self._restart(closing.end())
        if not calls:
            raise Broken("a call was begun, and nothing followed")
        if end >= len(self._text):
            return calls, None
        if lead.strip() and not lead.rstrip().endswith(_SENTENCE_END):
            return [], None
        raise Broken("text follows the call, so that it is not clear whether it was meant")


def _add(calls: list[WrittenCall], found: Found) -> None:
    calls += found.calls
    if len(calls) > MAX_CALLS:
        raise Broken(f"it holds more than the {MAX_CALLS} calls that are allowed at once")


def _leads_in(lead: str) -> bool:
    """Whether marks after these words are calls and not a part of what the words speak of."""
    if not lead or lead.isspace():
        return True
    if len(lead) > MAX_LEAD_CHARS:
        return False
    if _FENCE.fullmatch(lead):
        return True
    if "```" in lead or _EXAMPLE.search(lead):
        return False
    line = lead.rstrip(" \t")
    return line.endswith("\n") or line.endswith(_SENTENCE_END)
