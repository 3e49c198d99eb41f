"""A trace drawn as a timeline."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.core.request import TraceEntry

from .output import cells, count, short, table

_NAME_WIDTH = 28
_BAR_WIDTH = 32
_MARKS = {
    "ok": "✓",
    "error": "✗",
    "timeout": "⏱",
    "refused": "⊘",
    "in_doubt": "?",
    "waiting": "⏸",
    "running": "…",
}


def timeline(entries: Sequence[TraceEntry]) -> list[str]:
    """One line a call: what, when and how long as a bar, tokens, status; a sum at the end."""
    if not entries:
        return ["no calls yet"]
    end_ms = max(1, max(entry.started_ms + entry.duration_ms for entry in entries))
    rows = [["", "call", _scale(end_ms), "start", "time", "tokens", "status"]]
    rows.extend(_row(entry, end_ms) for entry in entries)
    lines = table(rows, numbers=(3, 4, 5))
    lines.insert(1, "─" * max(map(cells, lines)))
    tokens = sum(entry.tokens_used for entry in entries)
    models = sum(entry.type == "llm" for entry in entries)
    lines.append(
        f"{count(models, 'model call')}, {count(len(entries) - models, 'tool call')}, "
        f"{count(tokens, 'token')}, {_time(end_ms)}"
    )
    return lines


def _row(entry: TraceEntry, end_ms: int) -> list[str]:
    turn, _, _ = entry.path.removeprefix("/").partition("/")
    is_model = entry.type == "llm"
    name = short(entry.name, _NAME_WIDTH)
    return [
        turn.removeprefix("turn") if is_model else "",
        f"◆ {name}" if is_model else f"  {name}",
        _bar(entry, end_ms),
        _time(entry.started_ms),
        _time(entry.duration_ms),
        f"{entry.tokens_used:,}" if entry.tokens_used else "",
        f"{_MARKS.get(entry.status, '')} {entry.status}{_tries(entry)}",
    ]


def _tries(entry: TraceEntry) -> str:
    return f", {entry.tries} tries" if entry.tries > 1 else ""


def _bar(entry: TraceEntry, end_ms: int) -> str:
    before = min(_BAR_WIDTH - 1, entry.started_ms * _BAR_WIDTH // end_ms)
    length = max(1, round(entry.duration_ms * _BAR_WIDTH / end_ms))
    length = min(length, _BAR_WIDTH - before)
    mark = "█" if entry.type == "llm" else "▒"
    return "·" * before + mark * length + "·" * (_BAR_WIDTH - before - length)


def _scale(end_ms: int) -> str:
    right = _time(end_ms)
    return "0" + " " * (_BAR_WIDTH - 1 - len(right)) + right


def _time(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
