"""Plain functions in a process of their own: found, called, ended, and what comes back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hermes.core.chat import ToolCall
from hermes.core.effects import Effect
from hermes.errors import NotDone, ToolDefinitionError
from hermes.testing import FakeClock
from hermes.tools import (
    Question,
    ToolContext,
    ToolRegistry,
    ToolResult,
    load_tools,
    prepare,
    process_call,
    register_tool,
    run,
    tool,
)
from hermes.tools.base import Tool
from hermes.tools.process_call import process_invoker
from hermes.tools.process_guard import descendants
from hermes.tools.runner import Prepared
from tests.unit.tools import in_process
from tests.unit.tools.conftest import MemoryBench


async def call(
    function: Callable[..., object], given: ToolContext, *context: str, **bound: object
) -> object:
    return await process_invoker(function, context, tool="t")(bound, given)


async def outcome(
    function: Callable[..., object], given: ToolContext, effect: Effect = "unsafe", **bound: object
) -> ToolResult:
    made = tool(name="t", effect=effect, run_in="process")(function)
    prepared = prepare(ToolRegistry([made]), ToolCall(id="c", name="t", arguments="{}"))
    assert isinstance(prepared, Prepared)
    return await run(prepared, given, clock=FakeClock())


async def test_arguments_go_there_and_the_result_comes_back_as_plain_json(
    context: ToolContext,
) -> None:
    point, by = in_process.Point(1, 2), date(2026, 1, 5)
    result = await call(in_process.shifted, context, point=point, by=by)
    assert isinstance(result, dict)
    assert result["point"] == {"x": 6, "y": 2}
    assert result["pid"] != os.getpid()


async def test_the_context_offers_key_task_variables_progress_and_artifacts(
    context: ToolContext, bench: MemoryBench
) -> None:
    context.variables["city"] = "北京"
    result = await call(in_process.used, context, "ctx")
    assert result == "task_1/turn1/tool1 report 北京 0"
    assert context.variables == {"city": "北京", "country": "CN"}
    assert bench.told == ["half way"]
    assert bench.blobs == {"notes.txt": b"noted"}


async def test_what_is_printed_is_not_lost(
    context: ToolContext, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await call(in_process.shout, context) == "shouted"
    assert capfd.readouterr().out == "out loud"


async def test_a_plain_function_may_wrap_an_async_one(context: ToolContext) -> None:
    assert await call(in_process.wrapped, context) == "later"


async def test_a_static_method_is_found_by_its_class(context: ToolContext) -> None:
    assert await call(in_process.Shelf.size, context) == 4


@pytest.mark.parametrize("function", [in_process.spin, in_process.hold_the_lock])
async def test_a_function_that_holds_the_lock_stalls_nobody_and_ends_at_once(
    context: ToolContext, function: Callable[..., object]
) -> None:
    lags: list[float] = []

    async def watch() -> None:
        while True:
            before = anyio.current_time()
            await anyio.sleep(0.01)
            lags.append(anyio.current_time() - before)

    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        with anyio.move_on_after(2.0):
            await call(function, context)
        group.cancel_scope.cancel()
    assert 2 <= anyio.current_time() - began < 5
    assert max(lags) < 1
    assert descendants(os.getpid()) == []


async def test_a_cancelled_call_takes_what_it_started_along(
    context: ToolContext, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call(in_process.start_a_sleeper, context, file=str(file)))
        with anyio.fail_after(20):
            while not (file.exists() and file.read_text()):  # noqa: ASYNC110  # another process's
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert not Path(f"/proc/{file.read_text()}").exists()
    assert descendants(os.getpid()) == []


@dataclass(frozen=True)
class Told:
    """What a model reads of a failed call."""

    status: str
    code: str
    message: str


@pytest.mark.parametrize(
    ("function", "effect", "told"),
    [
        (in_process.refuse, "unsafe", Told("error", "closed", "closed today")),
        (in_process.complain, "unsafe", Told("error", "shelf", "no such shelf")),
        (in_process.stumble, "unsafe", Told("error", "exception", "ValueError: 3 legs")),
        (in_process.lose, "read", Told("timeout", "timeout", "GatewayTimeout: no answer")),
        (in_process.lose, "unsafe", Told("in_doubt", "in_doubt", "GatewayTimeout: no answer")),
        (in_process.crash, "unsafe", Told("in_doubt", "in_doubt", "ended by SIGSEGV")),
        (in_process.crash, "read", Told("error", "connection", "ended by SIGSEGV")),
        (in_process.leave_7, "unsafe", Told("in_doubt", "in_doubt", "ended with exit code 7")),
        (in_process.strange, "read", Told("error", "bad_result", "did run, but its result")),
    ],
)
async def test_a_failure_there_means_what_it_means_here(
    context: ToolContext, function: Callable[..., object], effect: Effect, told: Told
) -> None:
    result = await outcome(function, context, effect)
    assert result.error is not None
    assert (result.status, result.error.code) == (told.status, told.code)
    assert told.message in result.error.message


async def test_a_failure_is_told_to_the_letter_as_in_a_thread(context: ToolContext) -> None:
    for function in (in_process.complain, in_process.stumble, in_process.lose):
        for effect in ("read", "unsafe"):
            made = tool(name="t", effect=effect)(function)
            prepared = prepare(ToolRegistry([made]), ToolCall(id="c", name="t", arguments="{}"))
            assert isinstance(prepared, Prepared)
            thread = await run(prepared, context, clock=FakeClock())
            assert (await outcome(function, context, effect)).content == thread.content


def _local() -> Callable[..., object]:
    def inner() -> None: ...

    return inner


async def _async() -> None: ...


@pytest.mark.parametrize(
    "function",
    [_local(), lambda: None, in_process.Shelf().count, _async],
    ids=["inner", "lambda", "method of an object", "async"],
)
def test_a_function_that_cannot_be_found_again_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(ToolDefinitionError, match="process"):
        tool(name="t", run_in="process")(function)


async def test_a_function_whose_name_now_leads_elsewhere_is_not_called(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke = process_invoker(in_process.wrapped, (), tool="t")
    monkeypatch.setattr(in_process, "wrapped", in_process.shout)
    with pytest.raises(NotDone, match="would not find"):
        await invoke({}, context)


async def test_arguments_that_cannot_be_sent_fail_before_the_call(context: ToolContext) -> None:
    with pytest.raises(NotDone, match="cannot be passed"):
        await call(in_process.shifted, context, point=lambda: 1, by=date(2026, 1, 5))


async def test_more_calls_than_there_may_be_at_once_are_refused(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_call, "_free", threading.BoundedSemaphore(1))
    assert await call(in_process.wrapped, context) == "later"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call(in_process.spin, context))
        await anyio.lowlevel.checkpoint()
        with pytest.raises(NotDone, match="run in processes already"):
            await call(in_process.wrapped, context)
        group.cancel_scope.cancel()
    assert await call(in_process.wrapped, context) == "later"


TOOL_FILE = '''
import common
from dataclasses import dataclass
from hermes import tool, ToolContext

@dataclass
class Order:
    item: str
    count: int

@tool(effect="read", run_in="process")
def add(order: Order, ctx: ToolContext) -> str:
    """Add."""
    return f"{order.item} {common.twice(order.count)} {__name__.startswith('hermes_tools_')}"
'''


async def test_a_tool_of_a_users_file_is_found_with_its_neighbours(
    context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "common.py").write_text("def twice(n): return 2 * n\n")
    (tmp_path / "shop.py").write_text(TOOL_FILE)
    [made] = load_tools(tmp_path / "shop.py")
    assert made.run_in == "process"
    text = '{"order": {"item": "lamp", "count": 2}}'
    prepared = prepare(ToolRegistry([made]), ToolCall(id="c", name="add", arguments=text))
    assert isinstance(prepared, Prepared)
    result = await run(prepared, context, clock=FakeClock())
    assert result.content == "lamp 4 True"


def test_a_tool_says_where_it_runs() -> None:
    made: Tool[[], object] = tool(name="t", run_in="process")(in_process.strange)
    assert made.run_in == "process"


async def test_a_question_of_a_function_there_is_asked_here(context: ToolContext) -> None:
    result = await outcome(in_process.question, context)
    assert result.waiting == Question(text="which colour?", options=("red", "blue"))


async def test_a_tool_with_a_schema_of_its_own_runs_there_too(context: ToolContext) -> None:
    schema = {"properties": {"code": {"type": "integer"}}, "required": ["code"]}
    made = register_tool("t", "Leave.", schema, effect="read", run_in="process")(in_process.leave)
    prepared = prepare(ToolRegistry([made]), ToolCall(id="c", name="t", arguments='{"code": 9}'))
    assert isinstance(prepared, Prepared)
    result = await run(prepared, context, clock=FakeClock())
    assert "exit code 9" in result.content


async def test_a_module_that_cannot_be_loaded_again_is_a_call_not_done(
    context: ToolContext, tmp_path: Path
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(TOOL_FILE.replace("import common", "").replace("common.twice", "int"))
    [made] = load_tools(file)
    file.write_text("raise RuntimeError('sold out')")
    text = '{"order": {"item": "lamp", "count": 2}}'
    prepared = prepare(ToolRegistry([made]), ToolCall(id="c", name="add", arguments=text))
    assert isinstance(prepared, Prepared)
    result = await run(prepared, context, clock=FakeClock())
    assert result.error is not None
    assert (result.status, result.error.code) == ("error", "not_found")
    assert "sold out" in result.error.message
