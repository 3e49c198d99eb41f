"""The work of `hermes tools call`: one call through the pipeline of a run, without a task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from hermes.core import ids
from hermes.core import json as codec
from hermes.core.chat import ToolCall
from hermes.core.clock import SystemClock
from hermes.core.codec import sha256
from hermes.core.effects import Effect
from hermes.core.request import AgentRequest
from hermes.errors import InputError, ToolError
from hermes.tools import (
    Prepared,
    TaskSnapshot,
    ToolContext,
    ToolResult,
    prepare,
    run,
)
from hermes.tools.policy import Policy, stop_of
from hermes.tools.preview import Previewed, has_preview, preview

from . import exits, output, toolbox
from .streams import stdout_kept_clean

_CHANGES: tuple[Effect, ...] = ("idempotent", "reconcile", "unsafe")


class Desk:
    """What a call without a task is lent: words go to stderr, artifacts live as long as the call.

    Attributes:
        artifacts: Name and size of each.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self.artifacts: list[dict[str, object]] = []
        self._kept: dict[str, bytes] = {}

    def progress(self, text: str) -> None:
        _tell(text)

    def artifact(self, name: str, data: bytes | str) -> str:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        self._kept[sha256(raw)] = raw
        self.artifacts.append({"name": name, "size_bytes": len(raw)})
        return sha256(raw)

    async def read(self, handle: str) -> bytes:
        found = [raw for name, raw in self._kept.items() if name.startswith(handle)]
        if len(found) != 1 or not handle:
            raise ToolError(
                f"no result here has the handle {handle!r:.80}: a call without a task has none",
                code="unknown_handle",
            )
        return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What a call came to.

    Attributes:
        repairs: How the arguments differ from what was written.
        why_dry: Why it was not made; empty if it was, or was refused.
        previewed: What it would do; None if nothing tells.
        result: None if it was not made.
        notes: What is otherwise than in a task.
    """

    name: str
    arguments: dict[str, object] | None = None
    repairs: tuple[str, ...] = ()
    why_dry: tuple[str, ...] = ()
    previewed: Previewed | None = None
    result: ToolResult | None = None
    variables: dict[str, object] = field(default_factory=dict[str, object])
    artifacts: Sequence[dict[str, object]] = ()
    notes: tuple[str, ...] = ()


def call(
    name: str, args: str, agent: Path | None, files: Sequence[Path], *, yes: bool, json: bool
) -> exits.Exit:
    """Call a tool and print its result, or what the call would do; returns the exit code.

    Args:
        name: A tool that is on.
        args: Arguments, as a model would write them; `-` for those on stdin.
        agent: As for `hermes run`.
        files: As for `hermes run`.
        yes: Make the call also where it changes something or needs approval.
        json: Print one JSON value.
    """
    written = sys.stdin.read() if args == "-" else args

    async def work() -> Called:
        async with toolbox.opened(agent, files) as box:
            return await _called(box, name, written, yes=yes)

    with stdout_kept_clean():
        called = anyio.run(work)
    code = _code(called)
    if json:
        output.print_json(_object(called))
    else:
        _print(called)
    return code


async def _called(box: toolbox.Toolbox, name: str, written: str, *, yes: bool) -> Called:
    if box.named(name).name not in box.on:
        raise _off(box, name)
    prepared = prepare(box.on, ToolCall(id="call_1", name=name, arguments=written))
    if isinstance(prepared, ToolResult):
        return Called(name=name, result=prepared)
    desk, variables = Desk(), dict[str, object]()
    context = _context(desk, variables)
    repairs = tuple(map(str, prepared.repairs))
    why_dry = () if yes else _why_dry(prepared)
    if why_dry:
        seen = None
        if has_preview(prepared.tool):
            seen = await preview(prepared, context, clock=SystemClock())
        return Called(
            name=name,
            arguments=prepared.arguments,
            repairs=repairs,
            why_dry=why_dry,
            previewed=seen,
        )
    limit = box.settings.result_limit_chars
    result = await run(prepared, context, clock=SystemClock(), limit_chars=limit)
    return Called(
        name=name,
        arguments=prepared.arguments,
        repairs=repairs,
        result=result,
        variables=variables,
        artifacts=desk.artifacts,
        notes=_notes(prepared, desk),
    )


def _off(box: toolbox.Toolbox, name: str) -> InputError:
    groups = [tool.group for tool in box.found if tool.name == name and tool.group]
    if not groups:
        return InputError(f"{name} is denied", hint="see HERMES_TOOL_DENY, and `deny` of the agent")
    return InputError(
        f"{name} is off: group {' or '.join(groups)} is not switched on, or the tool is denied",
        hint=f"TOOL_ENABLED_GROUPS={groups[0]} switches it on",
    )


def _context(desk: Desk, variables: dict[str, object]) -> ToolContext:
    task_id = ids.task_id()
    return ToolContext(
        request=AgentRequest(input="hermes tools call"),
        history=(),
        task=TaskSnapshot(task_id=task_id, agent="", goal="hermes tools call", step=1),
        variables=variables,
        idempotency_key=f"{task_id}/turn1/tool1",
        trace_id=ids.trace_id(),
        bench=desk,
    )


def _why_dry(prepared: Prepared) -> tuple[str, ...]:
    """Why a call is not made unless that is said."""
    effect = prepared.tool.effect
    changes = (f"its effect is {effect}",) if effect in _CHANGES else ()
    stop = stop_of(Policy(), prepared, {})
    return (*changes, *(stop.because if stop else ()))


def _notes(prepared: Prepared, desk: Desk) -> tuple[str, ...]:
    notes: list[str] = []
    if prepared.tool.key is not None:
        notes.append("without a task its business key is not claimed: a run may do the same again")
    for item in desk.artifacts:
        notes.append(f"artifact {item['name']} ({item['size_bytes']} bytes) is kept only in a task")
    return tuple(notes)


def _code(called: Called) -> exits.Exit:
    result = called.result
    if result is None:
        is_blind = called.previewed is not None and called.previewed.problem
        return exits.Exit.FAILED if is_blind else exits.Exit.SUCCEEDED
    if result.waiting is not None or result.status == "in_doubt":
        return exits.Exit.UNFINISHED
    if result.status == "refused":
        return exits.Exit.USAGE
    return exits.Exit.SUCCEEDED if result.status == "ok" else exits.Exit.FAILED


def _object(called: Called) -> dict[str, object]:
    result, seen = called.result, called.previewed
    return {
        "tool": called.name,
        "arguments": called.arguments,
        "repairs": list(called.repairs),
        "ran": result is not None and result.status != "refused",
        "why_not": list(called.why_dry),
        "preview": {"text": seen.text, "problem": seen.problem} if seen else None,
        "result": None if result is None else _result_object(result),
        "variables": called.variables,
        "artifacts": list(called.artifacts),
    }


def _result_object(result: ToolResult) -> dict[str, object]:
    return {
        "status": result.status if result.waiting is None else "waiting",
        "data": result.data,
        "content": result.content,
        "error": None if result.error is None else asdict(result.error),
        "duration_s": round(result.duration_s, 4),
    }


def _tell(text: str) -> None:
    """Say something in which words of a tool or a model may stand: they command no terminal."""
    exits.tell(output.plain(text))


def _print(called: Called) -> None:
    for repair in called.repairs:
        _tell(f"repaired: {repair}")
    if called.result is None:
        _print_dry(called)
        return
    result = called.result
    if result.waiting is not None:
        _tell(f"{called.name} waits for something ({type(result.waiting).__name__}): ")
        _tell("only a task can wait; `hermes run` starts one")
    elif result.error is not None:
        _tell(f"{result.status}: {result.error.message}")
        if result.error.hint:
            _tell(f"next: {result.error.hint}")
    else:
        output.print_text(result.content)
    for note in called.notes:
        _tell(note)


def _print_dry(called: Called) -> None:
    seen = called.previewed
    if seen is not None and not seen.problem:
        output.print_text(seen.text)
    arguments = codec.dumps(called.arguments)
    _tell(f"not made: {called.name} {arguments} ({'; '.join(called.why_dry)})")
    if seen is not None and seen.problem:
        _tell(f"what it would do is not known: {seen.problem}")
    _tell("next: --yes makes the call")
