"""`hermes usage`: what models and tools took, by agent, model, tool or day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import cast
from urllib.parse import urlsplit

import anyio

from hermes.app import Hermes
from hermes.config import Settings, load_settings
from hermes.core import json as plain_json
from hermes.core.budget import number
from hermes.core.clock import SystemClock
from hermes.core.problems import did_you_mean
from hermes.errors import InputError, NotFoundError
from hermes.store import BEGINNING, PAGE, Deed, Store

from . import exits, output
from .database import age_of
from .find import require_journal

BY = ("agent", "model", "tool", "day")
UNKNOWN = "(unknown)"
"""The model of a call whose request is not in the record, as in one that was cut."""
_WIDTH = 60
_MAX_NAMES = 5

Key = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Used:
    """What came together under one heading.

    Attributes:
        calls: Of models that came to an end, well or not.
        cost_nano: Billionths of the currency.
        retried: Attempts at model calls that came to nothing, before another one.
        failed: Model calls that came to nothing in the end.
        tool_calls: That were begun.
        repaired: Tool calls whose arguments had to be mended.
        refused: Tool calls that were not begun, for their arguments or by a rule.
        tool_failed: Tool calls that were begun and failed.
        unpriced: Models without a known price took part.
        answered_as: Names other than the one asked for that its server gave, the first few.
    """

    tasks: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_nano: int = 0
    retried: int = 0
    failed: int = 0
    tool_calls: int = 0
    repaired: int = 0
    refused: int = 0
    tool_failed: int = 0
    estimated: bool = False
    unpriced: bool = False
    answered_as: tuple[str, ...] = ()

    @property
    def cost(self) -> float | None:
        """Money; None where nobody knows."""
        if self.cost_nano:
            return self.cost_nano / 1e9
        return None if self.unpriced or not self.calls + self.retried else 0.0

    def add(self, other: Used) -> None:
        """Take another one in."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))
        self.estimated, self.unpriced = bool(self.estimated), bool(self.unpriced)


class Tally:
    """Adds up deeds as they come, task by task; holds no more than what is shown.

    Args:
        by: One of `BY`.
        since: What was before counts for nothing.
        is_priced: Whether the price of a model is known.
    """

    def __init__(
        self,
        by: str,
        *,
        since: datetime | None = None,
        is_priced: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._by, self._since, self._is_priced = by, since, cache(is_priced)
        self.rows: dict[Key, Used] = {}
        self._task = -1
        self._model = ""
        self._seen: set[Key] = set()
        self._begun: set[str] = set()

    def add(self, deed: Deed) -> None:
        """Take one more in."""
        if deed.place[0] != self._task:
            self._task, self._model = deed.place[0], ""
            self._seen, self._begun = set(), set()
        if deed.type.startswith("tool."):
            self._tool(deed, str(deed.data.get("name", "")), str(deed.data.get("path", "")))
        elif deed.type == "model.requested":
            self._model = str(deed.data.get("model") or "")
        elif deed.type != "context.compacted" or deed.data.get("usage"):
            self._model_call(deed, str(deed.data.get("model") or ""))

    def _model_call(self, deed: Deed, named: str) -> None:
        asked = self._model or named
        self._model = asked
        if deed.type == "model.retried":
            asked = named or asked
            self._model = str(deed.data.get("next_model") or asked)
        if self._by == "tool" or self._is_before(deed):
            return
        used = self._row(deed, asked)
        used.unpriced |= not self._is_priced(asked)
        is_new = self._by == "model" and named not in ("", asked, *used.answered_as)
        if is_new and len(used.answered_as) < _MAX_NAMES:
            used.answered_as += (named,)
        _spend(used, plain_json.as_object(deed.data.get("usage")) or {})
        match deed.type:
            case "model.retried":
                used.retried += 1
            case "model.failed":
                used.calls, used.failed = used.calls + 1, used.failed + 1
            case _:
                used.calls += 1

    def _tool(self, deed: Deed, tool: str, path: str) -> None:
        is_begun = path in self._begun
        if deed.type == "tool.started":
            self._begun.add(path)
        if self._is_before(deed):
            return
        used = self._row(deed, self._model, tool)
        if deed.type == "tool.started":
            if not is_begun:  # one that was begun again after a crash is the same call
                used.tool_calls += 1
                used.repaired += bool(deed.data.get("repairs"))
        elif is_begun and deed.data.get("status") != "refused":
            used.tool_failed += 1
        else:
            used.refused += 1

    def _row(self, deed: Deed, model: str, tool: str = "") -> Used:
        match self._by:
            case "agent":
                key: Key = (deed.agent,)
            case "model":
                key = (model or UNKNOWN,)
            case "tool":
                key = (tool, model or UNKNOWN)
            case _:
                key = (deed.at.date().isoformat(),)
        used = self.rows.setdefault(key, Used())
        if key not in self._seen:
            self._seen.add(key)
            used.tasks += 1
        return used

    def _is_before(self, deed: Deed) -> bool:
        return self._since is not None and deed.at < self._since


def _spend(used: Used, usage: Mapping[str, object]) -> None:
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_nano"):
        setattr(used, name, getattr(used, name) + cast("int", usage.get(name, 0)))
    used.estimated |= bool(usage.get("estimated"))


async def tally(
    store: Store,
    by: str,
    *,
    since: datetime | None = None,
    is_priced: Callable[[str], bool] = lambda _: False,
) -> dict[Key, Used]:
    """Add up the whole journal, page by page."""
    found, after = Tally(by, since=since, is_priced=is_priced), BEGINNING
    while deeds := await store.deeds(after=after, since=since):
        for deed in deeds:
            found.add(deed)
        after = deeds[-1].place
        if len(deeds) < PAGE:
            break
    return found.rows


def usage(*, by: str, since: str | None, json: bool) -> None:
    """Print what was used."""
    if by not in BY:
        hint = did_you_mean(by, BY) or f"one of {', '.join(BY)}"
        raise InputError(f"--by {by!r:.40} is unknown; {hint}")
    first = None if since is None else since_of(since, now=SystemClock().now())
    rows = sorted(_read(by, first).items(), key=_by_day if by == "day" else _dearest_first)
    if json:
        output.print_json({"by": by, "rows": [_object(by, key, used) for key, used in rows]})
    elif not rows:
        when = "" if since is None else f" since {since}"
        if by == "tool":
            output.print_text(f"no tool was called{when}; `hermes usage --by model` shows the rest")
        else:
            output.print_text(f"no model or tool was called{when}; `hermes run GOAL` starts a task")
    else:
        output.print_text("\n".join(_by_tool(rows) if by == "tool" else _lines(by, rows)))


def since_of(text: str, *, now: datetime) -> datetime:
    """`7d`, `12h`, `2026-11-30` or `2026-11-30T08:00` as an instant; without a zone it is UTC.

    Raises:
        InputError: It is none of these.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return now - age_of(text)
        except (InputError, OverflowError) as exc:
            raise InputError(
                f"--since {text!r:.40} is no time",
                hint="as 7d, 12h, 2026-11-30 or 2026-11-30T08:00",
            ) from exc
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _read(by: str, since: datetime | None) -> dict[Key, Used]:
    settings = load_settings().settings
    try:
        require_journal(settings)
    except NotFoundError as exc:
        exits.tell(str(exc))
        return {}

    async def read() -> dict[Key, Used]:
        async with Hermes(settings=settings) as app:
            return await tally(app.store, by, since=since, is_priced=_priced(settings))

    return anyio.run(read)


def _priced(settings: Settings) -> Callable[[str], bool]:
    """Whether the price of a model, as tasks ask for it, is known by the present settings."""
    from hermes.models.profile_files import known_profiles  # loaded for who asks

    tables = (known_profiles(), *settings.profiles)
    host = urlsplit(settings.api_base or "").netloc.casefold()
    return lambda name: any(
        "prices" in row for table in tables for _, row in table.fitting(name.casefold(), host)
    )


def _by_day(item: tuple[Key, Used]) -> Key:
    return item[0]


def _dearest_first(item: tuple[Key, Used]) -> tuple[int, int, int, Key]:
    key, used = item
    tokens = used.prompt_tokens + used.completion_tokens
    return (-used.cost_nano, -tokens, -used.calls - used.tool_calls, key)


def _object(by: str, key: Key, used: Used) -> dict[str, object]:
    names = ("tool", "model") if by == "tool" else (by,)
    shown: dict[str, object] = dict(zip(names, key, strict=True))
    shown |= {item.name: getattr(used, item.name) for item in fields(used)}
    del shown["cost_nano"], shown["unpriced"], shown["answered_as"]
    shown["cost"] = used.cost
    if by == "model":
        shown["answered_as"] = list(used.answered_as)
    if by == "tool":
        names = ("tool", "model", "tasks", "tool_calls", "repaired", "refused", "tool_failed")
        return {name: shown[name] for name in names}
    return shown


def _by_tool(rows: Sequence[tuple[Key, Used]]) -> list[str]:
    head = ("tool", "model", "tasks", "calls", "repaired", "refused", "failed")
    body = [
        (*(output.short(part, _WIDTH) for part in key), f"{used.tasks:,}", *_tool_cells(used))
        for key, used in rows
    ]
    return output.table([head, *body], numbers=range(2, 7))


def _lines(by: str, rows: Sequence[tuple[Key, Used]]) -> list[str]:
    heading = "day (UTC)" if by == "day" else by
    head = (heading, *_HEAD)
    body = [(_label(key, used), f"{used.tasks:,}", *_cells(used)) for key, used in rows]
    total = Used()
    for _, used in rows:
        total.add(used)
    if len(rows) > 1:
        # A task on two days, or with two models, is one task: only those of agents add up.
        body.append(("all", f"{total.tasks:,}" if by == "agent" else "", *_cells(total)))
    lines = output.table([head, *body], numbers=range(1, len(head)))
    return [*lines, "some of the tokens are estimated"] if total.estimated else lines


def _label(key: Key, used: Used) -> str:
    """A row's name; of a model also how its server calls it, where rows are by models."""
    others = f" ({', '.join(used.answered_as)})" if used.answered_as else ""
    return output.short(f"{key[0]}{others}", _WIDTH)


_HEAD = (
    *("tasks", "calls", "in", "out", "cached", "money", "retried", "failed"),
    *("tool calls", "repaired", "refused", "failed"),
)


def _cells(used: Used) -> tuple[str, ...]:
    return (
        f"{used.calls:,}",
        f"{used.prompt_tokens:,}",
        f"{used.completion_tokens:,}",
        f"{used.cached_tokens:,}",
        "-" if used.cost is None else number(used.cost),
        f"{used.retried:,}",
        f"{used.failed:,}",
        *_tool_cells(used),
    )


def _tool_cells(used: Used) -> tuple[str, ...]:
    return (
        f"{used.tool_calls:,}",
        f"{used.repaired:,}",
        f"{used.refused:,}",
        f"{used.tool_failed:,}",
    )
