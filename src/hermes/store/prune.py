"""How old trees of tasks leave a SQLite journal, in transactions that hold nobody up for long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar, cast

from hermes.core import json
from hermes.store.driver import Cursor, Value
from hermes.store.queries import sql
from hermes.store.upkeep import gives_back
from hermes.store.values import Pruned

R = TypeVar("R")

TREES_A_LOOK = 500
EVENTS_A_COMMIT = 2000
BLOBS_A_COMMIT = 50
PAGES_A_COMMIT = 1000

_DELETES = (
    "delete_events",
    "delete_blob_uses",
    "delete_waits",
    "delete_reviews",
    "delete_effects",
    "delete_shares",
    "delete_budget",
    "delete_dead_messages",
    "delete_lanes",
    "delete_accepted",
    "delete_task",
)


class Run(Protocol):
    """Does work over a cursor: in a write transaction of its own, or as a read."""

    async def __call__(self, work: Callable[[Cursor], R], /) -> R: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """A tree that may go."""

    root_id: str
    tasks: Sequence[int]
    events: int


async def count(read: Run, before: int) -> Pruned:
    """What `prune` would remove."""
    doomed = await _look_for_all(read, before)
    keys = json.dumps([key for tree in doomed for key in tree.tasks])
    blobs, blob_bytes = await read(lambda cursor: _count_blobs(cursor, keys))
    return Pruned(
        tasks=sum(len(tree.tasks) for tree in doomed),
        events=sum(tree.events for tree in doomed),
        blobs=blobs,
        blob_bytes=blob_bytes,
    )


async def prune(write: Run, read: Run, before: int) -> Pruned:
    """Remove old trees of settled tasks, old signals, and blobs that nothing refers to."""
    tasks = events = 0
    for tree in await _look_for_all(read, before):
        is_done = False
        while not is_done:
            step = await write(partial(_remove_some, root_id=tree.root_id, before=before))
            tasks, events, is_done = tasks + step[0], events + step[1], step[2]
    while await write(partial(_remove_signals, before=before)):
        pass
    done = await _remove_blobs(write, read)
    while await write(_give_back):
        pass
    return replace(done, tasks=tasks, events=events)


async def _look_for_all(read: Run, before: int) -> list[Doomed]:
    """All trees that may go, found in steps so that other reads get their turn."""
    found: list[Doomed] = []
    after = ""
    while True:
        roots, trees = await read(partial(_look, before=before, after=after))
        found += trees
        if not roots:
            return found
        after = roots[-1]


def _look(cursor: Cursor, *, before: int, after: str) -> tuple[list[str], list[Doomed]]:
    wanted: dict[str, Value] = {"before": before, "after": after, "limit": TREES_A_LOOK}
    rows = cursor.execute(sql("old_roots"), wanted).fetchall()
    roots = [cast("str", root_id) for (root_id,) in rows]
    return roots, [
        tree for root_id in roots if (tree := _doomed(cursor, root_id, before)) is not None
    ]


def _doomed(cursor: Cursor, root_id: str, before: int) -> Doomed | None:
    """The tree, if it may go."""
    wanted: dict[str, Value] = {"root_id": root_id, "before": before}
    if cursor.execute(sql("is_prunable"), wanted).fetchall() != [(1,)]:
        return None
    rows = cast(
        "list[tuple[int, int]]", cursor.execute(sql("tasks_of_tree"), (root_id,)).fetchall()
    )
    return Doomed(
        root_id=root_id, tasks=[key for key, _ in rows], events=sum(count for _, count in rows)
    )


def _remove_some(cursor: Cursor, *, root_id: str, before: int) -> tuple[int, int, bool]:
    """Remove tasks of a tree from its leaves on; returns tasks, events and whether it is gone."""
    tree = _doomed(cursor, root_id, before)
    if tree is None:
        return 0, 0, True
    tasks = events = 0
    for key in tree.tasks:
        for name in _DELETES:
            cursor.execute(sql(name), {"key": key})
            if name == "delete_events":
                events += cursor.connection.changes()
        tasks += 1
        if events >= EVENTS_A_COMMIT:
            break
    return tasks, events, tasks == len(tree.tasks)


def _remove_signals(cursor: Cursor, *, before: int) -> int:
    cursor.execute(sql("delete_old_signals"), (before, EVENTS_A_COMMIT))
    return cursor.connection.changes()


def _count_blobs(cursor: Cursor, keys: str) -> tuple[int, int]:
    ((blobs, blob_bytes),) = cursor.execute(sql("count_unused_blobs"), (keys,)).fetchall()
    return cast("int", blobs), cast("int", blob_bytes)


async def _remove_blobs(write: Run, read: Run) -> Pruned:
    unused = await read(_unused_blobs)
    blobs = blob_bytes = 0
    for start in range(0, len(unused), BLOBS_A_COMMIT):
        some = unused[start : start + BLOBS_A_COMMIT]
        gone = await write(partial(_remove_some_blobs, names=some))
        blobs, blob_bytes = blobs + len(gone), blob_bytes + sum(gone)
    return Pruned(tasks=0, events=0, blobs=blobs, blob_bytes=blob_bytes)


def _unused_blobs(cursor: Cursor) -> list[bytes]:
    return [cast("bytes", name) for (name,) in cursor.execute(sql("unused_blobs")).fetchall()]


def _remove_some_blobs(cursor: Cursor, *, names: Sequence[bytes]) -> list[int]:
    """Remove blobs that are still not used; returns their sizes."""
    sizes: list[int] = []
    for name in names:
        rows = cursor.execute(sql("delete_unused_blob"), (name,)).fetchall()
        sizes += [cast("int", size) for (size,) in rows]
    return sizes


def _give_back(cursor: Cursor) -> bool:
    """Move some free pages to the end of the file and cut them off; whether there are more."""
    if not gives_back(cursor):
        return False
    cursor.execute(f"PRAGMA incremental_vacuum({PAGES_A_COMMIT})").fetchall()
    return cursor.execute("PRAGMA freelist_count").fetchall() != [(0,)]
