"""Freeing what dead processes held."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from hermes.core.clock import Clock
from hermes.core.failpoints import hit
from hermes.store import Store, Worker

from .locks import is_own, is_proved_dead, remove_lock_file

_SAME = timedelta(seconds=0.25)
"""A store that tells times by its database's clock reads the same one a little differently."""

_LOG = logging.getLogger("hermes.worker")


class Reaper:
    """Watches the signs of life of all workers and retires those that are gone.

    One whose lock shows that it ended goes at once. Any other is gone when its row did not change
    for `lease_s` seconds of this process's own clock, so that clocks of hosts need not agree.
    """

    def __init__(self, store: Store, *, clock: Clock, lease_s: float) -> None:
        self._store, self._clock, self._lease_s = store, clock, lease_s
        self._seen: dict[str, tuple[datetime, float]] = {}

    def begin_again(self) -> None:
        """Forget how long the others were silent: this process could not have heard them."""
        self._seen.clear()

    async def sweep(self) -> None:
        """Look at all workers once; what the dead held becomes ready.

        Raises:
            StoreError: They cannot be read or retired.
        """
        rows = await self._store.workers()
        self._seen = {key: seen for key, seen in self._seen.items() if key in _ids(rows)}
        for row in rows:
            if not is_own(row) and (is_proved_dead(row) or self._is_silent(row)):
                await take_over(self._store, row)

    def _is_silent(self, row: Worker) -> bool:
        now = self._clock.monotonic()
        seen = self._seen.get(row.worker_id)
        if seen is None or row.renewed_at - seen[0] > _SAME:
            self._seen[row.worker_id] = seen = (row.renewed_at, now)
        return now - seen[1] > self._lease_s


async def take_over(store: Store, worker: Worker) -> None:
    """Make the messages of a dead worker ready, each with one more crash."""
    hit("runtime.reap.before")
    freed = await store.retire(worker.worker_id, crashed=True)
    hit("runtime.reap.after")
    if is_proved_dead(worker):  # one that is only silent keeps what proves that it lives
        remove_lock_file(worker)
    if freed:
        _LOG.warning(
            "worker %s (process %d on %s) died; %d message(s) are free again",
            worker.worker_id,
            worker.pid,
            worker.host,
            freed,
        )


def _ids(rows: list[Worker]) -> set[str]:
    return {row.worker_id for row in rows}
