"""Results as one JSON value, or as text for people."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import asdict

from hermes.core import json
from hermes.core.events import Fault
from hermes.core.request import AgentResponse
from hermes.core.task import Task


def print_json(value: object) -> None:
    """Print one JSON value on stdout, readable and with non-ASCII as it is."""
    print_text(json.dumps(value))


def print_text(text: str) -> None:
    """Print a result on stdout; a terminal that cannot show a character gets `?` for it."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding).rstrip("\n") + "\n")


def response_object(response: AgentResponse) -> dict[str, object]:
    """The result of a run for programs."""
    return {
        "task_id": response.task_id,
        "status": response.status,
        "output": response.output,
        "error": fault_object(response.error),
        "usage": response.usage.as_json(),
        "cost": response.cost,
        "trace": [entry.as_json() for entry in response.trace],
        "pending": [asdict(item) for item in response.pending],
    }


def fault_object(fault: Fault | None) -> dict[str, object] | None:
    """An error for programs, or None."""
    return asdict(fault) if fault else None


def task_object(task: Task) -> dict[str, object]:
    """A line of the task list for programs."""
    spent = task.status.spent
    return {
        "task_id": task.task_id,
        "status": task.state.value,
        "agent": task.spec.agent,
        "goal": task.spec.goal,
        "session_id": task.spec.session_id,
        "created_at": task.created_at.isoformat().replace("+00:00", "Z"),
        "updated_at": task.status.updated_at.isoformat().replace("+00:00", "Z"),
        "steps": spent.steps,
        "usage": spent.usage.as_json(),
        "error": fault_object(task.status.error),
    }


def output_text(output: object) -> str:
    """An answer as text: prose as it is, an object as JSON."""
    return output if isinstance(output, str) else json.dumps(output)


def summary(response: AgentResponse, seconds: float) -> str:
    """One line on how a run ended."""
    steps = sum(entry.type == "llm" for entry in response.trace)
    tokens = f"{response.usage.total_tokens:,} tokens"
    if response.usage.estimated:
        tokens = f"about {tokens}"
    return f"{response.status} · {count(steps, 'turn')} · {tokens} · {seconds:.1f} s"


def explanation(response: AgentResponse) -> list[str]:
    """Why a run did not succeed and what to do next, a line each."""
    lines: list[str] = []
    if response.error is not None:
        lines.append(f"error: {response.error.message}")
        if response.error.hint:
            lines.append(f"next: {response.error.hint}")
    lines.extend(f"waits for a person: {item.text}" for item in response.pending)
    if any(item.kind == "in_doubt" for item in response.pending):
        lines.append(
            f"next: look whether it took place, then `hermes resume {response.task_id} "
            "--in-doubt done` (it did) or `--in-doubt again` (it did not)"
        )
    return lines


def count(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short(text: str, width: int) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def table(rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()) -> list[str]:
    """Columns aligned by what a terminal shows.

    Args:
        rows: The heading first.
        numbers: Columns that are aligned on the right.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        padded = [
            " " * (width - cells(cell)) + cell
            if place in numbers
            else cell + " " * (width - cells(cell))
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def cells(text: str) -> int:
    """Columns that a text takes in a terminal: East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
