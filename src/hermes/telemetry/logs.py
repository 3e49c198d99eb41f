"""Structured log lines: two for each tool call, one for each model round.

Every line is an ordinary `logging` record whose `hermes` attribute holds the fields, so a program
that embeds Hermes routes them as it likes; `JsonFormatter` and `TextFormatter` are the command's.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO, cast

from hermes.core import json
from hermes.core.events import ContextCompacted, ModelReplied
from hermes.core.task import Task


def tool_started(
    log: logging.Logger, task: Task, path: str, name: str, arguments_digest: str
) -> None:
    """Before a tool call: which tool, with which arguments (by digest)."""
    if log.isEnabledFor(logging.INFO):
        _emit(log, "tool.start", task, path, tool=name, arguments=arguments_digest)


def tool_ended(
    log: logging.Logger,
    task: Task,
    path: str,
    name: str,
    status: str,
    result_length: int,
    duration_s: float,
    tries: int = 1,
) -> None:
    """After a tool call: how it ended, how long the result is, how long it took."""
    if log.isEnabledFor(logging.INFO):
        _emit(
            log,
            "tool.end",
            task,
            path,
            tool=name,
            status=status,
            result_length=result_length,
            duration_ms=round(duration_s * 1000),
            **({"tries": tries} if tries > 1 else {}),
        )


def tool_again(
    log: logging.Logger, task: Task, path: str, name: str, tries: int, code: str, delay_s: float
) -> None:
    """Between two tries of a tool call: why the last one failed, and when the next one is made."""
    if log.isEnabledFor(logging.INFO):
        delay_ms = round(delay_s * 1000)
        _emit(log, "tool.again", task, path, tool=name, tries=tries, code=code, delay_ms=delay_ms)


def tool_condition(log: logging.Logger, name: str, problem: str) -> None:
    """A tool has broken, or works again; told once, whichever task saw it."""
    what = "tool.broken" if problem else "tool.works"
    fields = {"event": what, "tool": name} | ({"reason": problem} if problem else {})
    level = logging.WARNING if problem else logging.INFO
    log.log(level, "%s %s", what, name, extra={"hermes": fields})


def model_round(log: logging.Logger, task: Task, path: str, reply: ModelReplied) -> None:
    """After a model's reply: tokens, time, and what it decided."""
    if log.isEnabledFor(logging.INFO):
        names = [call.name for call in reply.calls]
        _emit(
            log,
            "model.round",
            task,
            path,
            model=reply.model,
            prompt_tokens=reply.usage.prompt_tokens,
            completion_tokens=reply.usage.completion_tokens,
            duration_ms=round(reply.duration_s * 1000),
            decision=f"call {', '.join(names)}" if names else "answer",
            finish_reason=reply.finish_reason,
        )


def compacted(log: logging.Logger, task: Task, event: ContextCompacted) -> None:
    """After the conversation was made smaller: its size before and after, estimated."""
    if log.isEnabledFor(logging.INFO):
        _emit(
            log,
            "context.compacted",
            task,
            event.path,
            before_tokens=event.before_tokens,
            after_tokens=event.after_tokens,
            duration_ms=round(event.duration_s * 1000),
        )


def compaction_stopped(log: logging.Logger, task: Task, path: str, why: str) -> None:
    """Once in a run: no other summary is asked for."""
    fields = {"event": "context.stopped", "task_id": task.task_id, "path": path, "reason": why}
    log.warning("no more summaries of %s: %s", task.task_id, why, extra={"hermes": fields})


def _emit(log: logging.Logger, what: str, task: Task, path: str, **fields: object) -> None:
    known: dict[str, object] = {
        "event": what,
        "task_id": task.task_id,
        "trace_id": task.trace_id,
        "path": path,
    }
    log.info("%s %s", what, path, extra={"hermes": known | fields})


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, then the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = _fields(record)
        line.update(fields or {"message": record.getMessage()})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """The same as `key=value` pairs for people."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = _fields(record)
        words = [f"{key}={value}" for key, value in fields.items() if key not in ("trace_id",)]
        text = " ".join(words) if fields else record.getMessage()
        line = f"{at} {record.levelname.lower()} {text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(*, level: str, style: Literal["json", "text"], stream: TextIO | None = None) -> None:
    """Send the `hermes` loggers to a stream (stderr by default); a repeat replaces the first."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    log = logging.getLogger("hermes")
    log.handlers[:] = [handler]
    log.setLevel(level.upper())
    log.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return cast("dict[str, object]", getattr(record, "hermes", {}))
