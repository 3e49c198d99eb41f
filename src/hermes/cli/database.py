"""The work of `hermes db`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import anyio

from hermes.config import Settings, load_settings
from hermes.core.clock import SystemClock, rfc3339
from hermes.errors import InputError
from hermes.store import Pruned, Store, StoreStatus, open_store
from hermes.store.queries import Migration
from hermes.store.url import pending_migrations

from . import output
from .find import require_journal

_AGE = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_INDENT = " " * 8
_MAX_AGE = timedelta(days=365 * 1000)


def status(*, json: bool) -> None:
    """Print how the database stands; one that lacks migrations is left as it is."""
    settings = _settings()
    require_journal(settings)

    async def read() -> tuple[list[Migration], StoreStatus | None]:
        pending = await pending_migrations(settings.database_url)
        if pending:
            return pending, None
        async with _store(settings, migrate=False) as store:
            return [], await store.status()

    pending, found = anyio.run(read)
    if json:
        shown = {} if found is None else status_object(found)
        output.print_json({**shown, "pending": _pending_object(pending)})
    elif found is None:
        output.print_text("\n".join(_pending_lines(pending)))
    else:
        output.print_text("\n".join(_status_lines(found)))


def migrate(*, dry_run: bool, json: bool) -> None:
    """Run the migrations that the database lacks, or only name them."""
    settings = _settings()

    async def work() -> list[Migration]:
        pending = await pending_migrations(settings.database_url)
        if not dry_run:
            async with _store(settings, migrate=True):
                pass
        return pending

    pending = anyio.run(work)
    if json:
        key = "pending" if dry_run else "ran"
        output.print_json({"dry_run": dry_run, key: _pending_object(pending)})
    elif not pending:
        output.print_text("the schema is up to date")
    elif dry_run:
        output.print_text("\n".join(_pending_lines(pending)))
    else:
        output.print_text("\n".join(f"ran {migration.name}" for migration in pending))


def backup(file: Path, *, json: bool) -> None:
    """Write a copy of the database."""
    target = file.absolute()

    settings = _settings()
    require_journal(settings)

    async def write() -> None:
        async with _store(settings) as store:
            await store.backup(target)

    anyio.run(write)
    size_bytes = target.stat().st_size
    if json:
        output.print_json({"file": str(target), "size_bytes": size_bytes})
    else:
        output.print_text(f"{target}: {_size(size_bytes)}")


def prune(older_than: str, *, dry_run: bool, json: bool) -> None:
    """Remove old tasks and print what went."""
    before = SystemClock().now() - age_of(older_than)

    settings = _settings()
    require_journal(settings)

    async def work() -> tuple[StoreStatus, Pruned, StoreStatus]:
        async with _store(settings) as store:
            first = await store.status()
            pruned = await store.prune(before, dry_run=dry_run)
        # Side files shrink when the last one closes the database.
        async with _store(settings) as store:
            return first, pruned, await store.status()

    first, pruned, last = anyio.run(work)
    if json:
        output.print_json(
            {
                "older_than": rfc3339(before),
                "dry_run": dry_run,
                **asdict(pruned),
                "tasks_before": sum(first.tasks.values()),
                "tasks_after": sum(last.tasks.values()),
                "size_bytes_before": first.size_bytes,
                "size_bytes_after": last.size_bytes,
            }
        )
        return
    went = ", ".join(
        (
            output.count(pruned.tasks, "task"),
            output.count(pruned.events, "event"),
            f"{output.count(pruned.blobs, 'blob')} of {_size(pruned.blob_bytes)}",
        )
    )
    lines = [f"{'would remove' if dry_run else 'removed'} {went}"]
    lines.append(f"settled before {before:%Y-%m-%d %H:%M:%S} UTC")
    if not dry_run:
        lines.append(f"tasks    {sum(first.tasks.values()):,} → {sum(last.tasks.values()):,}")
        lines.append(f"size     {_size(first.size_bytes)} → {_size(last.size_bytes)}")
    output.print_text("\n".join(lines))


def age_of(text: str) -> timedelta:
    """`30d`, `12h`, `2w` as a span of time.

    Raises:
        InputError: It is no such text, or longer than anybody has lived.
    """
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(
            f"an age is a number and a unit, got {text!r:.40}", hint="as 30d, 12h, 2w, 90m"
        )
    number, unit = int(found[1]), _UNITS[found[2]]
    limit = _MAX_AGE / timedelta(**{unit: 1})
    if number > limit:
        raise InputError(f"an age of {text!r:.40} is beyond all time", hint="as 30d, 12h, 2w, 90m")
    return timedelta(**{unit: number})


def status_object(status: StoreStatus) -> dict[str, object]:
    """How a database stands, for programs."""
    return {
        "backend": status.backend,
        "version": status.version,
        "newest": status.newest,
        "size_bytes": status.size_bytes,
        "tasks": dict(status.tasks),
        "messages": dict(status.messages),
        "workers": status.workers,
        "open_reviews": status.open_reviews,
        "notes": list(status.notes),
    }


def _status_lines(status: StoreStatus) -> list[str]:
    schema = f"{status.version}, the newest"
    if status.version != status.newest:
        schema = f"{status.version} of {status.newest}"
    return [
        f"backend       {status.backend}",
        f"schema        {schema}",
        f"size          {_size(status.size_bytes)}",
        f"tasks         {_counts(status.tasks)}",
        f"messages      {_counts(status.messages)}",
        f"workers       {status.workers}",
        f"open reviews  {status.open_reviews}",
        *(f"note          {note}" for note in status.notes),
    ]


def _counts(counts: Mapping[str, int]) -> str:
    shown = [f"{number:,} {state}" for state, number in sorted(counts.items()) if number]
    return ", ".join(shown) or "none"


def _size(size_bytes: int) -> str:
    if size_bytes < 1_000:
        return output.count(size_bytes, "byte")
    power = next(n for n in (4, 3, 2, 1) if size_bytes >= 1_000**n)
    return f"{size_bytes / 1_000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def _pending_object(pending: Sequence[Migration]) -> list[dict[str, object]]:
    return [
        {"number": migration.number, "name": migration.name, "about": migration.about}
        for migration in pending
    ]


def _pending_lines(pending: Sequence[Migration]) -> list[str]:
    lines = [f"{output.count(len(pending), 'migration')} pending; `hermes db migrate` runs them:"]
    for migration in pending:
        lines.append(f"  {migration.number:>4}  {migration.name}")
        lines.extend(
            textwrap.wrap(migration.about, 92, initial_indent=_INDENT, subsequent_indent=_INDENT)
        )
    return lines


def _store(settings: Settings, *, migrate: bool = True) -> Store:
    return open_store(
        settings.database_url,
        clock=SystemClock(),
        synchronous=settings.sqlite_synchronous,
        migrate=migrate,
    )


def _settings() -> Settings:
    return load_settings().settings
