"""What a call came to, as events; and what a person is told of one that came to nothing yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.core.events import (
    ArtifactSaved,
    Fault,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
)
from hermes.tools import Prepared, ToolResult
from hermes.tools.policy import Stop
from hermes.tools.preview import Previewed

from .bench import Bench
from .journal import Journal
from .state import OpenCall
from .suspend import Held

_LINE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that may run: its place in the turn and what it will be given."""

    open: OpenCall
    prepared: Prepared

    @property
    def path(self) -> str:
        return self.open.path


def record(
    journal: Journal,
    item: OpenCall,
    result: ToolResult,
    bench: Bench | None = None,
    *,
    origin: str = "",
) -> None:
    """Note the outcome of a call; one that waits or is in doubt has none yet.

    Args:
        journal: Of the task.
        item: The call.
        result: What it came to.
        bench: What it was lent; what it wrote there is kept if the call succeeded.
        origin: Where its tool gets things from outside; what it read again may be from there too.
    """
    call = item.call
    if bench is not None:
        origin = origin or bench.origin
    match result.status:
        case "ok":
            if bench is not None:
                bench.keep()
            journal.note(
                ToolReturned(
                    path=item.path,
                    call_id=call.id,
                    name=call.name,
                    content=result.content,
                    size_chars=result.size,
                    blob=journal.keep(result.full) if result.full else None,
                    duration_s=round(result.duration_s, 4),
                    tries=result.tries,
                    origin=origin,
                    cached=result.cached,
                )
            )
        case "error" | "timeout" | "refused":
            journal.note(
                ToolFailed(
                    path=item.path,
                    call_id=call.id,
                    name=call.name,
                    status=result.status,
                    error=result.error or Fault(code="failed", message=result.content),
                    content=result.content,
                    duration_s=round(result.duration_s, 4),
                    tries=result.tries,
                    # Only the tool's own words may quote what it read.
                    origin=origin if result.status == "error" else "",
                )
            )
        case "in_doubt":
            raise AssertionError(f"{item.path} is in doubt, which is no outcome")


def reconciled(
    journal: Journal,
    item: OpenCall,
    decision: Literal["done", "again"],
    *,
    by: str,
    result: ToolResult | str = "",
    origin: str = "",
) -> None:
    """Note that a doubt is ended.

    Args:
        journal: Of the task.
        item: The call.
        decision: Whether it took place, or is to be made again.
        by: Who said so.
        result: What the model reads of a call that took place.
        origin: As in `record`.
    """
    content = result if isinstance(result, str) else result.content
    if isinstance(result, ToolResult) and result.full:
        blob, size = journal.keep(result.full), len(result.full)
        journal.note(ArtifactSaved(path=item.path, name="result", sha256=blob, size_bytes=size))
    journal.note(
        ToolReconciled(
            path=item.path,
            call_id=item.call.id,
            name=item.call.name,
            decision=decision,
            by=by,
            content=content,
            origin=origin,
        )
    )


def doubt(journal: Journal, item: Ready, reason: str) -> Held:
    """Note that nobody knows what a call came to; a person has to say."""
    call, tool = item.open.call, item.prepared.tool
    if item.path not in journal.state.in_doubt:
        journal.note(ToolInDoubt(path=item.path, call_id=call.id, name=call.name, reason=reason))
    return Held(
        path=item.path,
        kind="in_doubt",
        name=call.name,
        text=f"{call.name} was begun and its outcome is unknown: {reason}",
        data={
            "arguments": item.prepared.arguments,
            "effect": tool.effect,
            "idempotency_key": f"{journal.task.task_id}{item.path}",
            "reason": reason,
        },
    )


def asks_leave(item: Ready, stop: Stop, previewed: Previewed | None = None) -> Held:
    """A person has to approve a call before it is begun.

    Args:
        item: The call.
        stop: Why.
        previewed: What it would do, if the tool can tell.
    """
    tool, arguments = item.prepared.tool, item.prepared.arguments
    data: dict[str, object] = {
        "name": tool.name,
        "arguments": arguments,
        "effect": tool.effect,
        "digest": item.prepared.fingerprint,
        "because": list(stop.because),
    }
    text = f"may {tool.name} be called?"
    if previewed is not None and previewed.problem:
        data["preview_failed"] = previewed.problem
        text += f" What it would do is not known: {_line(previewed.problem)}"
    elif previewed is not None:
        data["preview"] = previewed.text
        text += f" It would: {_line(previewed.text)}"
    if stop.origin:
        data["origin"] = stop.origin
        text += f" (asked after content from outside: {stop.origin})"
    return Held(
        path=item.path,
        kind="approval",
        name=tool.name,
        text=text,
        data=data,
        origin=stop.origin,
    )


def _line(text: str) -> str:
    """The beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
