"""Server-sent events out of bytes that may be cut anywhere.

httpx2's own `EventSource` is not used: it puts replacement characters where bytes are no UTF-8,
refuses other content types, and drops lines without a field name, which is how some servers report
an error.
"""

from __future__ import annotations

from dataclasses import dataclass

_FIELDS = (b"event", b"id", b"retry")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One piece of a stream.

    Attributes:
        data: Its `data` lines joined by newlines, or the bare lines.
        is_bare: The lines carried no field name: no event, but a body sent as it is.
    """

    data: bytes
    is_bare: bool = False


class EventReader:
    """Collects bytes and gives the events that are complete.

    Lines end in LF, CRLF or CR. Comments and all fields but `data` are dropped. The last event
    counts even without the blank line after it, which some servers forget.

    Source:
        WHATWG HTML, "Server-sent events", interpreting an event stream.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._bare: list[bytes] = []
        self._done: list[Event] = []
        self._after_cr = False
        self._is_first_line = True

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
            lines = chunk.splitlines()
            tail = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
            for line in lines:
                self._end_line(line)
            self._line += tail
        return self._take()

    def close(self) -> list[Event]:
        """The events that the end of the stream completes."""
        if self._line:
            self._end_line(b"")
        self._end_event()
        self._end_bare()
        return self._take()

    def _take(self) -> list[Event]:
        done, self._done = self._done, []
        return done

    def _end_line(self, rest: bytes) -> None:
        if self._line:
            rest = bytes(self._line) + rest
            self._line.clear()
        if self._is_first_line:
            rest = rest.removeprefix(_BOM)
            self._is_first_line = False
        name, _, value = rest.partition(b":")
        if name == b"data":
            self._end_bare()
            self._data.append(value.removeprefix(b" "))
        elif not rest:
            self._end_event()
        elif name and name not in _FIELDS:
            self._bare.append(rest)

    def _end_event(self) -> None:
        if self._data:
            self._done.append(Event(data=b"\n".join(self._data)))
            self._data.clear()

    def _end_bare(self) -> None:
        if self._bare:
            self._done.append(Event(data=b"\n".join(self._bare), is_bare=True))
            self._bare.clear()
