"""`hermes diff`: two tasks beside each other."""

from __future__ import annotations

import anyio

from hermes.app import Hermes
from hermes.config import load_settings
from hermes.core import json as plain_json
from hermes.runtime.diff import Change, StepDiff, TaskDiff, as_object
from hermes.runtime.diff import diff as compare

from . import output
from .find import find_task, require_journal

_WIDTH = 48
_MARKS = {"same": "=", "changed": "~", "left": "<", "right": ">"}


def diff(left: str, right: str, *, json: bool) -> None:
    """Print what two tasks have in common and what not."""
    settings = load_settings().settings
    require_journal(settings)

    async def read() -> TaskDiff:
        async with Hermes(settings=settings) as app:
            first = await find_task(app.store, left)
            second = await find_task(app.store, right)
            return compare(
                await app.store.events(first.task_id), await app.store.events(second.task_id)
            )

    found = anyio.run(read)
    if json:
        output.print_json(as_object(found))
    else:
        output.print_text("\n".join(_lines(found)))


def _lines(found: TaskDiff) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "step", "what", f"< {found.left}", f"> {found.right}")]
    rows.extend(_row("~", "task", change) for change in found.task)
    rows.extend(_row("~", "program", change) for change in found.code)
    for step in found.steps:
        rows.extend(_rows(step))
    lines = output.table(rows)
    if found.is_same:
        lines = [f"{found.left} and {found.right}: the same in every step"]
    return [*lines, "", *_totals(found)]


def _rows(step: StepDiff) -> list[tuple[str, ...]]:
    mark = _MARKS[step.how]
    if step.how == "changed":
        return [_row(mark, step.path, change) for change in step.changes]
    left = step.name if step.how in ("same", "left") else ""
    right = step.name if step.how in ("same", "right") else ""
    return [(mark, step.path, "", left, right)]


def _row(mark: str, step: str, change: Change) -> tuple[str, ...]:
    return (mark, step, change.what, _shown(change.left), _shown(change.right))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else plain_json.dumps(value)
    return output.short(text, _WIDTH)


def _totals(found: TaskDiff) -> list[str]:
    return [
        f"{mark} {side.status}, {output.count(side.turns, 'turn')}, "
        f"{output.count(side.tool_calls, 'tool call')}, {output.count(side.tokens, 'token')}, "
        f"{side.seconds:.1f} s"
        for mark, side in zip("<>", found.totals, strict=True)
    ]
