"""Business keys: a deed is done once, in whatever words a model asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from hermes.core.events import (
    Fault,
    TaskEvent,
    ToolFailed,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
)
from hermes.store import EffectRow, EffectState, TaskReader
from hermes.tools import Prepared, ToolResult, failed_result
from hermes.tools.failures import described

from .state import RunState

MAX_KEY_CHARS = 500


def effect_row(
    task_id: str, started: Mapping[str, ToolStarted], event: TaskEvent
) -> EffectRow | None:
    """What an event changes in the ledger, if anything.

    A call in doubt keeps its key: it may have been done.

    Args:
        task_id: Whose event.
        started: Calls without an outcome before the event, by path.
        event: About to be noted.
    """
    match event:
        case ToolStarted(key=key) if key:
            return _row(task_id, event, "started")
        case ToolReturned(path=path) | ToolReconciled(path=path, decision="done"):
            state: EffectState = "done"
        case ToolFailed(path=path):
            state = "failed"
        case _:
            return None
    begun = started.get(path)
    return _row(task_id, begun, state) if begun is not None and begun.key else None


def _row(task_id: str, begun: ToolStarted, state: EffectState) -> EffectRow:
    return EffectRow(
        scope=begun.scope,
        tool=begun.name,
        key=begun.key,
        state=state,
        task_id=task_id,
        path=begun.path,
    )


def business_key(prepared: Prepared) -> str | ToolResult:
    """The key of a call, "" if its tool has none, or its refusal if it cannot be told."""
    if prepared.tool.key is None:
        return ""
    try:
        key = cast("object", prepared.tool.key(dict(prepared.arguments)))
    except Exception as exc:  # the tool's author wrote it
        return _no_key(described(exc))
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
        return _no_key(f"it gave {key!r:.80}, a key is a text of 1 to {MAX_KEY_CHARS} characters")
    return key


async def done_before(
    reader: TaskReader,
    prepared: Prepared,
    key: str,
    scope: str,
    *,
    own: tuple[str, str],
    state: RunState,
) -> ToolReturned | ToolResult | None:
    """What another call with the same key came to.

    Args:
        reader: The store.
        prepared: The call that is to be made.
        key: Its business key.
        scope: A root task's id, or "" for all.
        own: The call's own task and path; its own claim does not stand in its way.
        state: Of the task: under which names its tools were known, and what a fork has from the
            task that it comes from, in whose scope the ledger has it.

    Returns:
        The earlier call's result if it was done, a refusal if it is under way or in doubt, None
        if the key is free.
    """
    tool = prepared.tool.name
    row = await _claimed(reader, (tool, *state.former_names(tool)), key, scope, own[0], state)
    if row is None or row.state == "failed" or (row.task_id, row.path) == own:
        return None
    where = f"{row.path} of task {row.task_id}"
    if row.state == "started":
        return failed_result(
            "refused",
            Fault(
                code="duplicate",
                message=f"not run: the same {tool} ({key}) was begun at {where} and is under way "
                "or in doubt",
                hint="do not call it again; say that its outcome is not known yet",
            ),
        )
    content, blob, size, origin = await _earlier(reader, row)
    note = f"[not run again: the same {tool} ({key}) was done at {where}; its result follows]\n"
    return ToolReturned(
        path="",
        call_id="",
        name=tool,
        content=note + content,
        size_chars=size,
        blob=blob,
        origin=origin,
    )


async def _claimed(
    reader: TaskReader,
    names: Sequence[str],
    key: str,
    scope: str,
    task_id: str,
    state: RunState,
) -> EffectRow | None:
    for name in names:
        if row := await reader.effect(scope, name, key):
            return row
        if path := state.deeds.get((name, key)):
            return EffectRow(
                scope=scope, tool=name, key=key, state="done", task_id=task_id, path=path
            )
    return None


async def _earlier(reader: TaskReader, row: EffectRow) -> tuple[str, str | None, int, str]:
    for record in reversed(await reader.events(row.task_id)):
        match record.event:
            case ToolReturned(path=row.path) as event:
                return event.content, event.blob, event.size_chars, event.origin
            case ToolReconciled(path=row.path, decision="done") as event:
                return event.content, None, len(event.content), event.origin
            case _:
                pass
    text = "(its result is no longer stored)"
    return text, None, len(text), ""


def _no_key(why: str) -> ToolResult:
    message = f"not run: its business key cannot be told: {why}"
    return failed_result("refused", Fault(code="no_key", message=message))
