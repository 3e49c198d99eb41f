"""What happens in a run, as it happens, for whoever follows it: a program, a terminal, a door."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, assert_never

import anyio

from hermes.core.events import (
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Recorded,
)
from hermes.core.request import AgentResponse
from hermes.errors import HermesError
from hermes.telemetry import as_object

MAX_PROGRESS = 200
"""Words of running tools that wait for a slow reader; of more, the oldest are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next characters of a reply that is coming.

    Attributes:
        task_id: Empty while the task is not stored.
        path: Of the model call, such as `/turn1/model1`; empty where a task goes on at a call that
            was begun in an earlier process.
        kind: The answer's `text`, or the `reasoning` before it.
    """

    task_id: str
    path: str
    text: str
    kind: Literal["text", "reasoning"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegun:
    """A reply that is coming wants a tool; its arguments are not whole yet."""

    task_id: str
    path: str
    name: str
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSaid:
    """A running tool says what it does; `path` is the call's."""

    task_id: str
    path: str
    text: str
    kind: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The reply of `path` broke off: the pieces of it that came are only a part.

    Attributes:
        reason: For a person.
        starts_anew: Another attempt follows, whose pieces begin at the beginning.
    """

    task_id: str
    path: str
    reason: str
    starts_anew: bool
    kind: Literal["broken"] = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event is durable; `record.seq` is its number in the task, without gaps."""

    record: Recorded
    kind: Literal["event"] = "event"


FeedItem = Piece | CallBegun | ToolSaid | Broken | Happened


def item_object(item: FeedItem | AgentResponse) -> dict[str, object]:
    """An item as a plain JSON object; `kind` says which it is, `response` for the last one."""
    match item:
        case AgentResponse():
            return {"kind": "response", **item.as_json()}
        case Happened(record=record):
            return {"kind": item.kind, **as_object(record)}
        case Broken():
            more: dict[str, object] = {"reason": item.reason, "starts_anew": item.starts_anew}
        case Piece() | ToolSaid():
            more = {"text": item.text}
        case CallBegun():
            more = {"name": item.name}
        case _:
            assert_never(item)
    return {"kind": item.kind, "task_id": item.task_id, "path": item.path, **more}


class _Pieces:
    """Pieces of one kind that nobody has read yet; they are read as one."""

    def __init__(self, first: Piece) -> None:
        self.first, self.texts = first, [first.text]

    def whole(self) -> Piece:
        first = self.first
        return Piece(
            task_id=first.task_id, path=first.path, text="".join(self.texts), kind=first.kind
        )


class Feed:
    """Watches one run and hands what it sees to one reader.

    A reader that is slow never holds the run up: pieces that wait are read as one, words of tools
    are left out where too many wait, and events wait until they are read.
    """

    def __init__(self) -> None:
        self._waiting: deque[FeedItem | _Pieces] = deque()
        self._said = 0
        self._news = anyio.Event()
        self._is_over = self._is_left = False
        self._task_id = self._path = ""
        self._is_partial = False

    # An observer of the run.

    def recorded(self, record: Recorded) -> None:
        self._task_id = record.task_id
        match record.event:
            case ModelRequested(path=path):
                self._path, self._is_partial = path, False
            case ModelReplied():
                self._is_partial = False
            case _:
                pass
        self._put(Happened(record=record))
        match record.event:
            case ModelRetried(error=error):
                self.broken(error.message, starts_anew=True)
            case ModelFailed(error=error):
                self.broken(error.message)
            case _:
                pass

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        if not text:
            return
        self._is_partial = True
        piece = Piece(
            task_id=self._task_id,
            path=self._path,
            text=text,
            kind="reasoning" if reasoning else "text",
        )
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, _Pieces) and _is_of_one(last.first, piece):
            last.texts.append(text)
        else:
            self._put(_Pieces(piece))

    def call_begun(self, name: str) -> None:
        self._is_partial = True
        self._put(CallBegun(task_id=self._task_id, path=self._path, name=name))

    def progress(self, path: str, text: str) -> None:
        if self._said >= MAX_PROGRESS:
            self._leave_out()
        self._said += 1
        self._put(ToolSaid(task_id=self._task_id, path=path, text=text))

    # For whoever carries the run.

    def broken(self, reason: str, *, starts_anew: bool = False) -> None:
        """Mark what came of the present reply as a part, if anything did."""
        if self._is_partial:
            self._is_partial = False
            self._put(
                Broken(
                    task_id=self._task_id, path=self._path, reason=reason, starts_anew=starts_anew
                )
            )

    def begin(self) -> None:
        """A run begins that has a reader of its own."""
        self._is_over = self._is_left = False
        self._said = 0

    def end(self) -> None:
        """Nothing more will come."""
        self._is_over = True
        self._news.set()

    # For the reader.

    async def items(self) -> AsyncGenerator[FeedItem]:
        """What came and comes, in order, until `end`; once a reader has left, nothing is kept."""
        try:
            while True:
                while self._waiting:
                    yield self._take()
                if self._is_over:
                    return
                self._news = anyio.Event()
                await self._news.wait()
        finally:
            self._is_left = True
            self._waiting.clear()

    def _take(self) -> FeedItem:
        item = self._waiting.popleft()
        if isinstance(item, ToolSaid):
            self._said -= 1
        return item.whole() if isinstance(item, _Pieces) else item

    def _put(self, item: FeedItem | _Pieces) -> None:
        if not self._is_left:
            self._waiting.append(item)
            self._news.set()

    def _leave_out(self) -> None:
        for place, item in enumerate(self._waiting):
            if isinstance(item, ToolSaid):
                del self._waiting[place]
                self._said -= 1
                return


def _is_of_one(first: Piece, second: Piece) -> bool:
    return (first.kind, first.path, first.task_id) == (second.kind, second.path, second.task_id)


async def streamed(
    feed: Feed, work: Callable[[], Awaitable[AgentResponse]]
) -> AsyncGenerator[FeedItem | AgentResponse]:
    """What happens while `work` carries a run that `feed` watches, and last what it came to.

    When the generator is closed before its end, or its reader is cancelled, the work is cancelled;
    either returns when that is done.

    Raises:
        Exception: What `work` raises, after all that came before; a reply that was coming then is
            marked as broken.
    """
    outcome: list[AgentResponse | Exception] = []
    scope = anyio.CancelScope()
    feed.begin()

    async def carry() -> None:
        with scope:
            try:
                outcome.append(await work())
            except Exception as exc:  # handed to the reader
                feed.broken(exc.message if isinstance(exc, HermesError) else type(exc).__name__)
                outcome.append(exc)
            finally:
                feed.end()

    # No task group: a generator may be closed in another task than the one that began it, which a
    # group and its scope do not survive. This task is waited for below, whatever happens.
    task = asyncio.get_running_loop().create_task(carry())
    try:
        async for item in feed.items():
            yield item
        for result in outcome:
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
