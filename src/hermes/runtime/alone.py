"""A task in a process of its own, because a process that handled it has died.

The child is a worker that claims this one task and ends with it. It has a row and a lock of its
own: its death counts as the message's crash, the death of its parent does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from subprocess import PIPE

import anyio
from anyio.abc import Process

from hermes.core.ids import NewUUID
from hermes.store import Store

from .locks import LifeLock, new_worker_id

CLAIMED = "claimed"
"""The line that a child writes to its stdout once it holds the message."""

START_S = 60.0
_LAST_CHARS = 2_000
_LOG = logging.getLogger("hermes.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCommand:
    """How a child is started.

    Attributes:
        words: The command; the words `{task}` and `{worker}` stand for the ids that it gets.
        folder: Where it runs.
        environment: What it sees.
    """

    words: Sequence[str]
    folder: str
    environment: Mapping[str, str] = field(repr=False)

    def of(self, task_id: str, worker_id: str) -> list[str]:
        ids = {"{task}": task_id, "{worker}": worker_id}
        return [ids.get(word, word) for word in self.words]


class ChildProcesses:
    """Carries tasks in children, one each.

    Args:
        store: Where dead children are retired.
        command: How a child is started.
        new_id: Ids for the children as workers.
    """

    def __init__(self, store: Store, command: ChildCommand, *, new_id: NewUUID) -> None:
        self._store, self._command, self._new_id = store, command, new_id
        self._running: set[Process] = set()
        self._is_ending = False

    async def carry(self, task_id: str, claimed: Callable[[], None]) -> str:
        """Have a child claim and carry a task; ends when the child has.

        Args:
            task_id: The task.
            claimed: Called once the child holds the message, surely will not, or takes longer than
                `START_S` for it: nothing else is claimed meanwhile.

        Returns:
            Why the child came to nothing before it could claim; "" if it could.
        """
        worker_id = new_worker_id(self._new_id)
        try:
            # A session of its own: Ctrl-C in the terminal is for the parent, who tells the child.
            child = await anyio.open_process(
                self._command.of(task_id, worker_id),
                stdin=PIPE,
                stdout=PIPE,
                stderr=None,
                cwd=self._command.folder,
                env=self._command.environment,
                start_new_session=True,
            )
        except OSError as exc:
            return f"no process of its own could be started: {exc}"
        self._running.add(child)
        if self._is_ending:
            child.terminate()
        try:
            has_claimed = False
            with anyio.move_on_after(START_S):
                has_claimed = await _says_claimed(child)
            claimed()
            code = await child.wait()
        finally:
            self._running.discard(child)
            with anyio.CancelScope(shield=True):
                await self._bury(child, worker_id)
        _LOG.info("the process of task %s alone ended with code %d", task_id, code)
        if has_claimed or code == 0:
            return ""
        return f"its process of its own ended with code {code} before it began"

    def drain(self) -> None:
        """Have the children give back at the next step border."""
        self._is_ending = True
        self._tell()

    def interrupt(self) -> None:
        """Have the children give back at once; they were told to drain before."""
        self._tell()

    def _tell(self) -> None:
        for child in self._running:
            if child.returncode is None:
                child.terminate()

    async def _bury(self, child: Process, worker_id: str) -> None:
        """End a child that is still there, and free what it held."""
        if child.returncode is None:
            child.kill()
        code = await child.wait()
        await child.aclose()
        await self._store.retire(worker_id, crashed=code != 0)
        LifeLock(worker_id, self._store.run_dir).remove_file()


async def _says_claimed(child: Process) -> bool:
    """Read until the child has claimed or ended."""
    assert child.stdout is not None
    said = b""
    async for piece in child.stdout:
        said = (said + piece)[-_LAST_CHARS:]
        if CLAIMED.encode() in said.split():
            return True
    return False
