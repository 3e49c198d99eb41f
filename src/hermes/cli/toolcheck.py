"""The work of `hermes tools lint` and `hermes tools health`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import anyio

from hermes.core.clock import Clock, SystemClock
from hermes.tools import Tool
from hermes.tools.health import problem_of
from hermes.tools.lint.findings import Finding
from hermes.tools.lint.findings import lint as find

from . import exits, output, toolbox
from .streams import stdout_kept_clean


def lint(
    names: Sequence[str], agent: Path | None, files: Sequence[Path], *, strict: bool, json: bool
) -> exits.Exit:
    """Print what a model will stumble over; 1 if there is an error, or with `strict` anything."""
    box = toolbox.read(agent, files)
    chosen = [box.named(name) for name in dict.fromkeys(names)]
    chosen = chosen or list(box.own or box.found)
    found = find(chosen, beside=list(box.on))
    errors = sum(item.level == "error" for item in found)
    is_clean = not (found if strict else errors)
    if json:
        output.print_json(
            {
                "ok": is_clean,
                "tools": [tool.name for tool in chosen],
                "findings": [asdict(item) for item in found],
            }
        )
    else:
        output.print_text("\n".join(_report(chosen, found)))
    return exits.Exit.SUCCEEDED if is_clean else exits.Exit.FAILED


def _report(chosen: Sequence[Tool], found: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for name, group in groupby(found, key=lambda item: item.tool):
        origin = next((tool.origin for tool in chosen if tool.name == name), "")
        lines.append(f"{name}  {origin}".rstrip())
        for item in sorted(group, key=lambda item: item.level):
            what = f"{item.parameter} {item.text}" if item.parameter else item.text
            lines.append(f"  {item.level:<7}  {what}  [{item.rule}]")
            if item.hint:
                lines.append(f"           {item.hint}")
        lines.append("")
    errors = sum(item.level == "error" for item in found)
    counts = (
        output.count(len(chosen), "tool"),
        output.count(errors, "error"),
        output.count(len(found) - errors, "warning"),
    )
    return [*lines, ", ".join(counts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How a tool is.

    Attributes:
        health: `ok`, `broken`, or `unknown` where it has no check of its own.
        reason: Why it is broken.
    """

    name: str
    health: str
    reason: str = ""
    duration_ms: int = 0


def health(
    names: Sequence[str], agent: Path | None, files: Sequence[Path], *, json: bool
) -> exits.Exit:
    """Run health checks, beside each other; 1 if a tool is broken.

    Args:
        names: These tools; all that are on if there are none.
        agent: As for `hermes run`.
        files: As for `hermes run`.
        json: Print one JSON value.
    """

    async def look() -> list[Condition]:
        async with toolbox.opened(agent, files) as box:
            chosen = [box.named(name) for name in dict.fromkeys(names)] or list(box.on)
            timeout_s = box.settings.health_timeout_s
            found: dict[str, Condition] = {}

            async def one(tool: Tool) -> None:
                found[tool.name] = await _condition(tool, timeout_s, SystemClock())

            async with anyio.create_task_group() as group:
                for tool in chosen:
                    group.start_soon(one, tool)
            return [found[tool.name] for tool in chosen]

    with stdout_kept_clean():
        conditions = anyio.run(look)
    broken = [item for item in conditions if item.health == "broken"]
    if json:
        output.print_json({"ok": not broken, "tools": [asdict(item) for item in conditions]})
    else:
        rows = [("tool", "health", "time", "reason")]
        rows.extend((item.name, item.health, _time(item), item.reason) for item in conditions)
        output.print_text("\n".join(output.table(rows, numbers=(2,))))
    for item in broken:
        exits.tell(output.plain(f"error: {item.name}: {item.reason}"))
    return exits.Exit.FAILED if broken else exits.Exit.SUCCEEDED


async def _condition(tool: Tool, timeout_s: float, clock: Clock) -> Condition:
    if tool.health is None:
        return Condition(name=tool.name, health="unknown")
    began_s = clock.monotonic()
    problem = await problem_of(tool, tool.health, timeout_s=timeout_s)
    return Condition(
        name=tool.name,
        health="broken" if problem else "ok",
        reason=problem,
        duration_ms=round((clock.monotonic() - began_s) * 1000),
    )


def _time(condition: Condition) -> str:
    return "" if condition.health == "unknown" else f"{condition.duration_ms} ms"
