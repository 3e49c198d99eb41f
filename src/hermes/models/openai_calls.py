"""Tool calls out of the fragments that providers send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes.core import json
from hermes.core.chat import ToolCall
from hermes.errors import CodecError, ModelError
from hermes.models.base import CallDelta
from hermes.models.surrogates import mend


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    """What one item of `tool_calls` says; empty where it says nothing."""

    index: int | None
    id: str
    name: str
    arguments: str
    has_whole_arguments: bool
    extra: Mapping[str, object] | None = None

    @property
    def is_empty(self) -> bool:
        return self.index is None and not (self.id or self.name or self.arguments)


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    """A call that is being put together."""

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: Mapping[str, object] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, so that nothing can follow."""
        try:
            return json.as_object(json.loads("".join(self.pieces))) is not None
        except CodecError:
            return False

    def add(self, fragment: _Fragment) -> None:
        self.id = self.id or fragment.id
        self.extra = self.extra or fragment.extra
        if self.index is None:
            self.index = fragment.index
        if not self.pieces:
            self.name = _joined_name(self.name, fragment.name)
        if fragment.has_whole_arguments:
            self.pieces = [fragment.arguments]
        elif fragment.arguments:
            self.pieces.append(fragment.arguments)


class CallReader:
    """Assigns fragments to calls: by id, else by index, else to the one call that is open.

    Servers leave the index out, count from 1, number every call 0, send a new id with each chunk,
    or repeat id and name in each. A fragment that could belong to several calls is an error.
    """

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []

    @property
    def is_begun(self) -> bool:
        """Whether any call has come."""
        return bool(self._calls)

    def feed(self, items: Sequence[object], *, is_whole: bool = False) -> list[CallDelta]:
        """Take the `tool_calls` of one chunk; gives the calls that begin in it.

        Args:
            items: As the provider sent them.
            is_whole: Each item is a complete call.

        Raises:
            ModelError: A fragment could belong to several calls or to none.
        """
        begun: list[CallDelta] = []
        for fragment in map(_read, items):
            if fragment.is_empty:
                continue
            call = None if is_whole else self._find(fragment, is_alone=len(items) == 1)
            if call is None:
                call = _OpenCall(index=fragment.index)
                self._calls.append(call)
            was_named = bool(call.name)
            call.add(fragment)
            if call.name and not was_named:
                begun.append(CallDelta(name=mend(call.name)))
        return begun

    def close(self) -> tuple[ToolCall, ...]:
        """The calls, in the order they began."""
        return tuple(
            ToolCall(id=mend(call.id), name=mend(call.name), arguments=mend("".join(call.pieces)))
            for call in self._calls
        )

    def extras(self) -> list[Mapping[str, object] | None]:
        """What came beside each call and has to go back with it: signatures, with Gemini."""
        found = [call.extra for call in self._calls]
        return found if any(found) else []

    def _find(self, fragment: _Fragment, *, is_alone: bool) -> _OpenCall | None:
        """The call that a fragment continues, or None if it begins one."""
        if fragment.id:
            return self._by_id(fragment)
        if fragment.index is not None:
            return self._by_index(fragment)
        if not fragment.name:
            return self._only_open(fragment)
        last = self._calls[-1] if self._calls and is_alone else None
        if last is None or last.name != fragment.name or not fragment.arguments:
            return None
        return None if last.is_complete else last

    def _by_id(self, fragment: _Fragment) -> _OpenCall | None:
        same = [call for call in self._calls if call.id == fragment.id]
        if fragment.index is not None:
            # Servers repeat an id: what begins under an index of its own is a call of its own.
            same = [call for call in same if call.index in (None, fragment.index)] or (
                [] if fragment.name else same
            )
        if same:
            return same[0]
        there = self._with_index(fragment.index)
        # A new id with a name begins a call even under an index that is taken; a new id alone is
        # a server that invents one for each chunk.
        return None if there is None or (fragment.name and there.id) else there

    def _by_index(self, fragment: _Fragment) -> _OpenCall | None:
        there = self._with_index(fragment.index) or self._at_place(fragment.index)
        if there is None:
            return None if fragment.name else self._only_open(fragment)
        is_other = bool(fragment.name and there.pieces and fragment.name != there.name)
        return None if is_other else there

    def _with_index(self, index: int | None) -> _OpenCall | None:
        matching = (call for call in reversed(self._calls) if call.index == index)
        return None if index is None else next(matching, None)

    def _at_place(self, index: int | None) -> _OpenCall | None:
        """The call number `index`, from 0, if it began without an index."""
        if index is None or not 0 <= index < len(self._calls):
            return None
        call = self._calls[index]
        return call if call.index is None else None

    def _only_open(self, fragment: _Fragment) -> _OpenCall:
        opened = self._calls
        if len(opened) > 1:
            opened = [call for call in opened if not call.is_complete]
        if len(opened) != 1:
            names = ", ".join(repr(call.name) for call in opened) or "none"
            raise ModelError(
                f"a piece of tool call arguments names no call; open are: {names}; "
                f"the piece is {fragment.arguments!r:.80}",
                code="stream",
                retryable=True,
                hint="without streaming this server may say which call it means",
            )
        return opened[0]


def _read(item: object) -> _Fragment:
    call = json.as_object(item) or {}
    function = json.as_object(call.get("function")) or call
    index, id_ = call.get("index"), call.get("id")
    name, arguments = function.get("name"), function.get("arguments")
    is_text = isinstance(arguments, str)
    return _Fragment(
        index=index if isinstance(index, int) else None,
        id=str(id_) if isinstance(id_, str | int) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments if is_text else "" if arguments is None else json.dumps(arguments),
        has_whole_arguments=not is_text and arguments is not None,
        extra=json.as_object(call.get("extra_content")),
    )


def _joined_name(known: str, piece: str) -> str:
    """A name after one more piece: repeated, grown, or really cut in two."""
    if piece.startswith(known):
        return piece
    return known + piece if piece else known
