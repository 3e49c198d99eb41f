"""What a running tool call is lent: its own view of the variables, progress, artifacts, handles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from copy import deepcopy

from hermes.core.clock import Clock
from hermes.core.codec import sha256
from hermes.core.events import ArtifactSaved, ProgressReported, VariableSet
from hermes.core.todo import Todo
from hermes.errors import ToolError
from hermes.store import TaskReader
from hermes.tools import TaskSnapshot, ToolContext, normalise

from .journal import Journal
from .setup import RunSetup

_PROGRESS_EVERY_S = 1.0


class Variables(MutableMapping[str, object]):
    """The task's variable pool as one call sees it: reads through, keeps its own writes apart.

    The writes reach the pool, and the journal, together with the call's result; a call that fails
    changes nothing. A list or object is read as a copy: set it to keep a change.
    """

    def __init__(self, shared: MutableMapping[str, object]) -> None:
        self._shared = shared
        self.written: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        value = self.written[name] if name in self.written else self._shared[name]
        # A copy: a list changed in place would change the pool behind the journal's back.
        return deepcopy(value)

    def __setitem__(self, name: str, value: object) -> None:
        self.written[name] = normalise(value)

    def __delitem__(self, name: str) -> None:
        raise ToolError(f"variable {name!r} cannot be removed", hint="set it to None")

    def __iter__(self) -> Iterator[str]:
        yield from self._shared
        yield from (name for name in self.written if name not in self._shared)

    def __len__(self) -> int:
        return len(self._shared) + sum(name not in self._shared for name in self.written)


class Bench:
    """The workbench of one call; its methods may be called from the tool's thread.

    Attributes:
        origin: Where what the call read again came from, if that was from outside; "" otherwise.
    """

    def __init__(self, path: str, *, journal: Journal, reader: TaskReader, clock: Clock) -> None:
        self._path = path
        self._journal, self._reader, self._clock = journal, reader, clock
        self._loop = asyncio.get_running_loop()
        self._told_at: float | None = None
        self._closed = False
        self._artifacts: list[tuple[str, bytes]] = []
        self.origin = ""
        self.variables = Variables(journal.state.variables)

    @property
    def cancelled(self) -> bool:
        return self._closed

    def progress(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._progress, text)

    def artifact(self, name: str, data: bytes | str) -> str:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        self._artifacts.append((name, raw))
        return sha256(raw)

    async def read(self, handle: str) -> bytes:
        own = {sha256(raw): raw for _, raw in self._artifacts}
        known = [name for name in (*self._journal.state.handles, *own) if name.startswith(handle)]
        if len(set(known)) != 1 or len(handle) < 8:
            raise ToolError(
                f"no result of this task has the handle {handle!r}",
                code="unknown_handle",
                hint="use a handle exactly as a shortened result gave it",
            )
        self.origin = self._journal.state.foreign.get(known[0], self.origin)
        return own.get(known[0]) or await self._reader.blob(known[0])

    async def todos(self, *, is_open: bool = True, limit: int = 100) -> list[Todo]:
        """As the store has them."""
        return await self._reader.todos(is_open=is_open, limit=limit)

    async def put_todo(self, todo: Todo) -> Todo:
        """Kept at once, beside the task's own stream."""
        return await self._journal.put_todo(todo)

    @property
    def is_untouched(self) -> bool:
        """Whether the call neither wrote anything nor read a result of its task again."""
        return not (self._artifacts or self.variables.written or self.origin)

    def close(self) -> None:
        """The call is over: later words of an abandoned thread are ignored."""
        self._closed = True

    def keep(self) -> None:
        """Note what the call wrote, to be committed with its result."""
        for name, raw in self._artifacts:
            blob = self._journal.keep(raw)
            self._journal.note(
                ArtifactSaved(path=self._path, name=name, sha256=blob, size_bytes=len(raw))
            )
        for name, value in self.variables.written.items():
            self._journal.note(VariableSet(name=name, value=value, path=self._path))

    def _progress(self, text: str) -> None:
        if self._closed:
            return
        self._journal.progress(self._path, text)
        now = self._clock.monotonic()
        if self._told_at is None or now - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = now
            self._journal.note(ProgressReported(path=self._path, text=text))


def context_of(setup: RunSetup, journal: Journal, path: str, bench: Bench) -> ToolContext:
    """What the tool of a call is told of its task, and the key of the call."""
    task, state = journal.task, journal.state
    return ToolContext(
        request=setup.request,
        history=tuple(state.messages),
        task=TaskSnapshot(
            task_id=task.task_id,
            agent=task.spec.agent,
            goal=task.spec.goal,
            step=state.turn,
            session_id=task.spec.session_id,
            limits=setup.limits_table,
        ),
        variables=bench.variables,
        idempotency_key=f"{task.task_id}{path}",
        trace_id=task.trace_id,
        bench=bench,
        todos=bench,
    )
