"""Results as one JSON value, or as text for people."""

from __future__ import annotations

import re
import shlex
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from json.encoder import encode_basestring_ascii

from hermes.core import json
from hermes.core.chat import Usage
from hermes.core.clock import rfc3339
from hermes.core.events import Fault, Pending
from hermes.core.request import AgentResponse
from hermes.core.task import Task
from hermes.errors import HermesError

from . import streams

# Also those that turn the direction of writing, so that nothing reads otherwise than it is.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class OutputError(HermesError):
    """A result cannot be written to stdout."""


def print_json(value: object) -> None:
    """Print one JSON value on stdout.

    Raises:
        OutputError: As `print_text`.
    """
    print_json_lines([json.dumps(value)])


def print_json_lines(lines: Iterable[str]) -> None:
    """Print texts that are JSON; non-ASCII stays readable where stdout can hold it.

    Raises:
        OutputError: As `print_text`.
    """
    text = "\n".join(lines)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # nothing is lost by escapes, which stand only inside strings
        text = re.sub(r"[^\x00-\x7f]+", lambda found: encode_basestring_ascii(found[0])[1:-1], text)
    print_text(text)


def print_text(text: str) -> None:
    """Print a result on stdout; that nobody reads on, as in `| head`, is no fault.

    Raises:
        OutputError: It cannot be written, as on a full disk.
    """
    if sys.stdout.isatty():
        text = plain(text)
    try:
        sys.stdout.write(text.rstrip("\n") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        streams.silence(sys.stdout)
    except OSError as exc:
        streams.silence(sys.stdout)
        raise OutputError(f"stdout cannot be written: {exc.strerror}") from exc


def pending_object(pending: Pending) -> dict[str, object]:
    """What a task waits for, for programs."""
    shown: dict[str, object] = asdict(pending)
    shown["due_at"] = rfc3339(pending.due_at) if pending.due_at else None
    return shown


def fault_result(fault: Fault, *, status: str = "failed") -> dict[str, object]:
    """The result of a command that failed outside of any task: the keys of a run's result."""
    response = AgentResponse(
        output=None, trace=(), usage=Usage(), task_id="", status=status, error=fault
    )
    return response.as_json() | {"task_id": None}


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
        "created_at": rfc3339(task.created_at),
        "updated_at": rfc3339(task.status.updated_at),
        "steps": spent.steps,
        "usage": spent.usage.as_json(),
        "error": fault_object(task.status.error),
    }


def output_text(output: object) -> str:
    """An answer as text: prose as it is, an object as JSON."""
    return output if isinstance(output, str) else json.dumps(output)


def summary(response: AgentResponse, seconds: float) -> str:
    """One line on how a run ended."""
    # Neither what was sent back within a turn nor a summary is a turn of its own.
    steps = sum(entry.type == "llm" and entry.path.endswith("/model1") for entry in response.trace)
    tokens = f"{response.usage.total_tokens:,} tokens"
    if response.usage.estimated:
        tokens = f"about {tokens}"
    return f"{response.status} · {count(steps, 'turn')} · {tokens} · {seconds:.1f} s"


def explanation(response: AgentResponse) -> list[str]:
    """Why a run did not succeed and what to do next, a line each."""
    lines: list[str] = []
    if response.error is not None:
        lines.append(f"error: {response.error.message}")
    if response.status != "succeeded" and not response.pending:
        lines.append(f"next: {_next_step(response)}")
    for item in response.pending:
        lines.extend(waiting(item, response.task_id))
    return lines


def _next_step(response: AgentResponse) -> str:
    """What a person can do about a task that has not succeeded."""
    fault, task_id = response.error, response.task_id
    if fault is not None and fault.hint:
        return fault.hint
    if response.status not in ("failed", "partial", "cancelled"):
        return f"`hermes resume {task_id}` goes on with it, unless a worker does"
    again = f"`hermes retry {task_id}` does it anew"
    if response.status == "cancelled" or (fault is not None and fault.retryable):
        return again
    return f"`hermes trace {task_id}` shows each step; {again}, --model with another model"


def waiting(pending: Pending, task_id: str) -> list[str]:
    """What a task waits for, and what a person can do about it."""
    due = f", at the latest {pending.due_at:%Y-%m-%d %H:%M:%S} UTC" if pending.due_at else ""
    match pending.kind:
        case "children":
            return [
                f"waits for its children: {pending.text}",
                f"next: `hermes worker` carries them, or `hermes resume {task_id}` does it here",
            ]
        case "time":
            at = f" until {pending.due_at:%Y-%m-%d %H:%M:%S} UTC" if pending.due_at else ""
            return [
                f"waits{at}: {pending.text}",
                f"next: a worker goes on then, or `hermes resume {task_id}` does it here",
            ]
        case "event":
            return [
                f"waits for the event {pending.name}{due}: {pending.text}",
                f"next: `hermes signal {shlex.quote(pending.name)}` lets it happen",
            ]
        case _ if pending.review_id:
            look = "look whether it took place, then " if pending.kind == "in_doubt" else ""
            return [
                f"waits for a person: {pending.text}",
                f"next: {look}one of",
                *decide_commands(pending.kind, pending.review_id),
            ]
        case _:  # from before there were reviews
            return [
                f"waits for a person: {pending.text}",
                f"next: look whether it took place, then `hermes resume {task_id} "
                "--in-doubt done` (it did) or `--in-doubt again` (it did not)",
            ]


def decide_commands(reason: str, review_id: str) -> list[str]:
    """The command for each decision that a review takes, with what it means."""
    return [
        f"  hermes review {words.format(id=review_id)}  # {meaning}"
        for words, meaning in (*_COMMANDS.get(reason, ()), _CANCEL)
    ]


_CANCEL = ("cancel {id}", "the whole task ends as cancelled")
_COMMANDS = {
    "in_doubt": (
        ("done {id}", "it took place; --result TEXT says with what result"),
        ("retry {id}", "it did not: make it again"),
    ),
    "approval": (
        ("approve {id}", "make the call"),
        ("reject {id}", "do not; --comment TEXT tells the model why"),
    ),
    "question": (("answer {id} TEXT", "the answer"),),
    "partial": (
        ("accept {id}", "the outcome will do as it is"),
        ("reject {id}", "it will not; --comment TEXT says why"),
    ),
    "dead_letter": (("retry {id}", "try again"),),
}


def count(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(text: str, width: int) -> str:
    """One line of at most `width` characters."""
    line = " ".join(plain(text).split())
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


def plain(text: str) -> str:
    """The text without what would command a terminal: control characters become `�`.

    The line ends of other systems are line ends here too.
    """
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def cells(text: str) -> int:
    """Columns that a text takes in a terminal: East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
