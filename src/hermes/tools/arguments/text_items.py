"""The calls at one place of a text, in whichever dialect they are written there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.core.json import as_object
from hermes.tools.schema import Schema

from .reading import Unreadable, read_document
from .text_json import MAX_CALLS, Broken, Names, WrittenCall, calls_in
from .text_marks import CLOSE, CUT, FENCES, past
from .text_python import CALL, NotLiteral, PythonCall, read_call, spelled
from .text_xml import BLOCK, BLOCK_END, Tagged

_NAME = r"[A-Za-z_][\w.\-]{0,127}"
_HARMONY = re.compile(rf"[ \t]?to=functions\.(?P<name>{_NAME})[^{{}}\n]{{0,80}}?<\|message\|>\s*")
_NAMED = re.compile(
    rf"(?:function<[|｜]tool[▁_]sep[|｜]>)?(?P<name>{_NAME})(?::\d{{1,6}})?(?:"
    r"(?:\[CALL_ID\][\w-]{1,64})?\[ARGS\]\s*|<[|｜]tool[▁_]sep[|｜]>\s*(?:```(?:json)?\s*)?"
    r"|<\|tool_call_argument_begin\|>\s*|\s*```(?:json)?\s*(?=\{)"
    r"|[ \t]*\r?\nAction Input[ \t]?:\s*|\s*(?=\{)"
    r"|(?P<pairs>\s*(?=<arg_key>))|(?P<alone>\s*(?=</tool_call>)))"
)
_ACTION = re.compile(r"Action[ \t]?:[ \t]?(?=[\w.\-]{1,128}[ \t]*\r?\nAction Input)")
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant[ \t]?|<\|channel\|>\w{1,20}[ \t])(?=to=functions\.)"
)
_CALLED = re.compile(
    r"[\"'](?:tool_|function_)?(?:name|tool|function|action)[\"']\s*:\s*[\"']([\w.\- ]{1,128})[\"']"
)
_HEAD_CHARS = 2000
_LIST_OF_CALLS = re.compile(rf"\[\s*{_NAME}\(")
_SPACE = re.compile(r"\s*")
_CLOSERS = re.compile(r"[\s\]}]*")
_QUOTE = re.compile(r'(?<!\\)"')
_INSIDE = "{}[]\"'"
_WORD = re.compile(r"[^\W\d_]{2}")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Calls, and where the text goes on after them."""

    calls: Sequence[WrittenCall]
    end: int


class Items:
    """Reads calls to some tools.

    Args:
        text: The whole reply.
        tools: Name to JSON Schema of the arguments.
        is_marked: Marks say that these are calls, so that whatever is wrong is a broken call.
    """

    def __init__(self, text: str, tools: Mapping[str, Schema], *, is_marked: bool) -> None:
        self._text, self._is_marked = text, is_marked
        self._names = Names(tools)
        self._tagged = Tagged(text, self._names)

    def at(self, at: int) -> Found | None:
        """The calls that begin at a place; None if none does.

        Raises:
            Broken: One does and cannot be used.
        """
        text = self._text
        if _LIST_OF_CALLS.match(text, at):
            return self._python_list(at)
        if text.startswith(("{", "["), at):
            return self._json(at)
        if self._is_marked:
            if block := BLOCK.match(text, at):
                return self._block(block)
            at = past(_CHANNEL, text, past(_ACTION, text, at))
            if named := _HARMONY.match(text, at):
                return self._with_json(self._names.tool(named["name"]), named.end())
            if named := _NAMED.match(text, at):
                return self._named(named)
        call = CALL.match(text, at)
        return None if call is None else self._python(call)

    def _json(self, at: int) -> Found | None:
        try:
            _, end = _DECODER.raw_decode(self._text, at)
        except RecursionError as exc:
            if not self._is_marked:
                return None
            raise Broken("the call is nested too deep") from exc
        except ValueError:  # also a number of too many digits
            return self._nearly_json(at)
        if not self._is_marked and not self._is_followed_by_json(end):
            return None
        calls = calls_in(self._text[at:end], self._names, is_marked=self._is_marked)
        return None if calls is None else Found(calls=calls, end=self._past_closers(end))

    def _is_followed_by_json(self, end: int) -> bool:
        after = past(FENCES, self._text, end)
        return after >= len(self._text) or self._text[after] in "{["

    def _past_closers(self, end: int) -> int:
        """Past brackets that close nothing, which models add to a whole call."""
        return past(_CLOSERS, self._text, end) if self._is_marked else end

    def _nearly_json(self, at: int) -> Found | None:
        """A call that is not strict JSON; only read where nothing else can be meant."""
        end = len(self._text)
        if self._is_marked and (cut := CUT.search(self._text, at)):
            end = cut.start()
        written = self._text[at:end].strip()
        if not self._is_marked and not self._is_meant(written):
            return None
        try:
            document = read_document(written, effect="unsafe")
        except Unreadable as exc:
            raise Broken(f"the call could not be read: {exc}") from exc
        values = json.dumps(document.values, ensure_ascii=False)
        calls = calls_in(values, self._names, is_marked=self._is_marked)
        return None if calls is None else Found(calls=calls, end=end)

    def _is_meant(self, written: str) -> bool:
        """Whether a text that is no JSON names a tool as a call does, and no words follow it."""
        tail = max(written.rfind(mark) for mark in _INSIDE) + 1
        is_in_string = len(_QUOTE.findall(written)) % 2 == 1
        if not is_in_string and _WORD.search(written, tail):
            return False
        called = _CALLED.finditer(written, 0, _HEAD_CHARS)
        return any(self._names.known(found[1]) for found in called)

    def _block(self, block: re.Match[str]) -> Found:
        text, name = self._text, self._names.tool(block["a"] or block["b"])
        if not text.startswith("{", block.end()):
            call, end = self._tagged.parameters(name, block.end(), block["tag"])
            return Found(calls=[call], end=end)
        raw, at = self._arguments(block.end(), BLOCK_END)
        end = past(BLOCK_END, text, past(CLOSE, text, at))
        return Found(calls=[WrittenCall(name=name, raw=raw)], end=end)

    def _named(self, named: re.Match[str]) -> Found | None:
        at = named.end()
        if named["alone"] is not None:
            known = self._names.known(named["name"])
            return Found(calls=[WrittenCall(name=known, raw="{}")], end=at) if known else None
        name = self._names.tool(named["name"])
        if named["pairs"] is not None:
            call, at = self._tagged.pairs(name, at)
            return Found(calls=[call], end=at)
        return self._with_json(name, at)

    def _with_json(self, name: str, at: int) -> Found:
        raw, at = self._arguments(at, CUT)
        return Found(calls=[WrittenCall(name=name, raw=raw)], end=self._past_closers(at))

    def _arguments(self, at: int, ending: re.Pattern[str]) -> tuple[str, int]:
        """The text of an object, to be read later; to the next mark if it is not strict JSON."""
        try:
            end = _DECODER.raw_decode(self._text, at)[1]
        except RecursionError as exc:
            raise Broken("the arguments are nested too deep") from exc
        except ValueError:
            found = ending.search(self._text, at)
            end = len(self._text) if found is None else found.start()
        raw = self._text[at:end].strip()
        if not raw:
            raise Broken("the call ends before its arguments")
        return raw, end

    def _python_list(self, at: int) -> Found | None:
        calls: list[WrittenCall] = []
        while opening := CALL.match(self._text, past(_SPACE, self._text, at + 1)):
            found = self._python(opening)
            if found is None:
                return None
            calls += found.calls
            at = past(_SPACE, self._text, found.end)
            if len(calls) > MAX_CALLS or not self._text.startswith(",", at):
                break
        if len(calls) > MAX_CALLS:
            raise Broken(f"it holds more than the {MAX_CALLS} calls that are allowed at once")
        if not self._text.startswith("]", at):
            raise Broken("the list of calls does not end with `]`")
        return Found(calls=calls, end=at + 1)

    def _python(self, opening: re.Match[str]) -> Found | None:
        if not self._is_marked and self._names.known(opening[1]) is None:
            return None
        name = self._names.tool(opening[1])
        try:
            call = read_call(self._text, opening)
        except NotLiteral as exc:
            is_whole = self._text.rstrip().endswith((")", "]"))
            if self._is_marked or exc.is_cut or (exc.is_named and is_whole):
                raise Broken(f"the call to `{name}` could not be read: {exc}") from exc
            return None
        return Found(calls=[self._of_python(name, call)], end=call.end)

    def _of_python(self, name: str, call: PythonCall) -> WrittenCall:
        names = list(as_object(self._names.tools[name].get("properties")) or {})
        if len(call.positional) > len(names):
            raise Broken(f"`{name}` takes at most {len(names)} arguments")
        entries = [*zip(names, call.positional, strict=False), *call.named]
        given = [key for key, _ in entries]
        if len(set(given)) != len(given):
            raise Broken(f"an argument of `{name}` is given twice")
        raw = ", ".join(f"{spelled(key)}: {value}" for key, value in entries)
        return WrittenCall(name=name, raw=f"{{{raw}}}")
