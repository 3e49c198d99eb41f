"""One call from a model's wish to a result, whatever the tool does."""

import asyncio
import contextlib
import contextvars
import json
import sys
import threading
from decimal import Decimal
from typing import Annotated, NoReturn

import anyio
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from pydantic import AfterValidator

from hermes.core.chat import ToolCall
from hermes.core.effects import Effect
from hermes.errors import InputError, NotDone, StaleLeaseError, ToolError
from hermes.testing import FakeClock
from hermes.tools import Prepared, Tool, ToolContext, ToolRegistry, ToolResult, prepare, run, tool
from hermes.tools.threads import MAX_THREADS


@tool(effect="read")
async def search_files(pattern: str, limit: int = 20) -> str:
    """Search."""
    return f"{limit} files like {pattern}"


@tool(effect="read")
async def read_file(path: str) -> str:
    """Read."""
    return path


FILES = ToolRegistry([search_files, read_file])


def call(name: str, arguments: object = "{}") -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id="c1", name=name, arguments=text)


def ready(made: Tool, arguments: object = "{}") -> Prepared:
    prepared = prepare(ToolRegistry([made]), call(made.name, arguments))
    assert isinstance(prepared, Prepared), prepared
    return prepared


def refusal(registry: ToolRegistry, wanted: ToolCall, finish_reason: str = "") -> ToolResult:
    result = prepare(registry, wanted, finish_reason=finish_reason)
    assert isinstance(result, ToolResult)
    assert result.status == "refused"
    return result


async def outcome(made: Tool, context: ToolContext, arguments: object = "{}") -> ToolResult:
    return await run(ready(made, arguments), context, clock=FakeClock())


def code(result: ToolResult) -> str:
    assert result.error is not None
    return result.error.code


def raising(exc: BaseException, effect: Effect = "unsafe") -> Tool:
    @tool(effect=effect)
    async def broken() -> None:
        raise exc

    return broken


def test_a_prepared_call_holds_plain_arguments_and_their_repairs() -> None:
    prepared = ready(search_files, '{"pattern": "*.log", "limit": "5"}')

    assert prepared.tool is search_files
    assert prepared.arguments == {"pattern": "*.log", "limit": 5}
    assert [repair.path for repair in prepared.repairs] == ["limit"]


def test_the_fingerprint_depends_on_tool_and_values_not_on_their_spelling() -> None:
    one = ready(search_files, '{"pattern": "a", "limit": 5}').fingerprint

    assert one == ready(search_files, '{ "limit":"5","pattern":"a" }').fingerprint
    assert one != ready(search_files, '{"pattern": "a", "limit": 6}').fingerprint
    assert one != ready(search_files, '{"pattern": "a"}').fingerprint


@pytest.mark.parametrize("name", ["find_files", "", "Read_File", "read_file ", "a" * 10_000])
def test_r009_an_unknown_tool_lists_the_available_ones(name: str) -> None:
    result = refusal(FILES, call(name))

    assert code(result) == "unknown_tool"
    assert "Available: search_files, read_file" in result.content
    assert len(result.content) < 400


def test_r009_the_nearest_name_is_offered() -> None:
    error = refusal(FILES, call("read_fiel")).error

    assert error is not None
    assert error.hint == "did you mean `read_file`?"


def test_r009_a_long_list_of_tools_is_cut() -> None:
    many = ToolRegistry([tool(name=f"t{n}")(read_file.function) for n in range(80)])

    assert "and 30 more" in refusal(many, call("gone")).content


def test_r009_no_tools_at_all_are_said_to_be_none() -> None:
    assert "Available: none" in refusal(ToolRegistry([]), call("gone")).content


@pytest.mark.parametrize("arguments", ["", "{", '{"limit": 1}', '{"pattern": "a", "limit": "x"}'])
def test_r002_bad_arguments_are_refused_and_nothing_runs(arguments: str) -> None:
    result = refusal(FILES, call("search_files", arguments))

    assert code(result) == "bad_arguments"
    assert json.loads(result.content)["error"]["hint"].startswith("nothing was run")


def test_r008_after_the_output_limit_every_call_is_refused() -> None:
    result = refusal(FILES, call("search_files", {"pattern": "a"}), finish_reason="length")

    assert code(result) == "output_limit"
    assert code(refusal(FILES, call("find"), finish_reason="length")) == "output_limit"


def test_r087_what_cannot_be_bound_is_refused_before_it_is_begun() -> None:
    @tool
    def pay(amount: Decimal) -> str:
        return str(amount)

    result = refusal(ToolRegistry([pay]), call("pay", {"amount": "a lot"}))

    assert code(result) == "bad_arguments"
    assert "`amount`: input should be a valid decimal" in result.content


async def test_a_text_result_is_told_as_it_is(context: ToolContext) -> None:
    result = await outcome(search_files, context, {"pattern": "错误"})

    assert result == ToolResult(
        status="ok", content="20 files like 错误", data="20 files like 错误", size=16
    )


async def test_another_result_is_told_as_json(context: ToolContext) -> None:
    @tool
    def count(words: list[str]) -> dict[str, object]:
        return {"count": len(words), "last": words[-1]}

    result = await outcome(count, context, {"words": ["a", "错"]})

    assert result.content == '{"count":2,"last":"错"}'
    assert result.data == {"count": 2, "last": "错"}


async def test_the_duration_is_the_clocks(context: ToolContext) -> None:
    clock = FakeClock()

    @tool
    async def slow() -> None:
        clock.advance(2.5)

    assert (await run(ready(slow), context, clock=clock)).duration_s == 2.5


async def test_r025_a_long_result_is_capped_and_kept_whole(context: ToolContext) -> None:
    @tool
    async def long() -> str:
        return "错" * 1_000_000

    result = await run(ready(long), context, clock=FakeClock(), limit_chars=1_000)

    assert len(result.content) <= 1_000
    assert result.size == 1_000_000
    assert result.full == ("错" * 1_000_000).encode()
    assert result.data == "错" * 1_000_000


async def test_r026_a_result_that_cannot_be_stored_says_that_the_tool_did_run(
    context: ToolContext,
) -> None:
    @tool
    async def leak() -> object:
        return {"lines": (line for line in "ab")}

    result = await outcome(leak, context)

    assert (result.status, code(result)) == ("error", "bad_result")
    assert "the tool did run, but its result cannot be stored: a generator" in result.content
    assert "result['lines']" in result.content


async def test_r026_a_result_whose_own_code_fails_is_the_same(context: ToolContext) -> None:
    class Broken(dict[str, object]):
        def items(self) -> NoReturn:
            raise RuntimeError("no items")

    @tool
    async def leak() -> object:
        return Broken(a=1)

    result = await outcome(leak, context)

    assert "the tool did run" in result.content
    assert "RuntimeError: no items" in result.content


async def test_an_exception_is_one_line_without_a_traceback(context: ToolContext) -> None:
    result = await outcome(raising(ValueError("bad\n  thing")), context)

    assert json.loads(result.content) == {
        "status": "error",
        "error": {
            "code": "exception",
            "message": "ValueError: bad thing",
            "retryable": False,
            "hint": "permanent: the same call will fail again",
        },
    }
    assert result.size == len(result.content)


async def test_a19_a_shaped_error_says_what_it_means(context: ToolContext) -> None:
    busy = await outcome(raising(ToolError("busy", code="busy", retryable=True)), context)
    gone = await outcome(raising(ToolError("no such city", hint="ask for another")), context)

    assert busy.error is not None
    assert (busy.error.code, busy.error.retryable, busy.error.hint) == ("busy", True, "try again")
    assert gone.error is not None
    assert (gone.error.code, gone.error.retryable) == ("failed", False)
    assert gone.error.hint == "ask for another"


ERRORS: dict[str, tuple[BaseException, str]] = {
    "no-text": (KeyError(), "KeyError"),
    "long": (ValueError("x" * 10_000), "ValueError: x"),
    "hermes": (InputError("wrong input"), "wrong input"),
    "exit": (SystemExit(3), "SystemExit: 3"),
    "group-of-one": (ExceptionGroup("tasks", [ValueError("inner")]), "ValueError: inner"),
    "group": (ExceptionGroup("tasks", [ValueError("a"), KeyError()]), "ExceptionGroup: tasks"),
    "surrogate": (OSError("caf\udce9"), "OSError: caf\\udce9"),
    "stop-iteration": (RuntimeError("coroutine raised StopIteration"), "RuntimeError"),
}


@pytest.mark.parametrize(("exc", "message"), ERRORS.values(), ids=ERRORS)
async def test_whatever_a_tool_raises_becomes_an_error(
    exc: BaseException, message: str, context: ToolContext
) -> None:
    result = await outcome(raising(exc), context)

    assert result.status == "error"
    assert result.error is not None
    assert result.error.message.startswith(message)
    assert len(result.content.encode()) < 1_000


async def test_an_exception_that_cannot_be_told_is_an_error_all_the_same(
    context: ToolContext,
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    result = await outcome(raising(MuteError()), context)

    assert result.error is not None
    assert result.error.message == "MuteError: (no text: RuntimeError)"


async def test_a_keyboard_interrupt_of_the_tools_own_is_its_error(context: ToolContext) -> None:
    result = await outcome(raising(KeyboardInterrupt()), context)
    assert result.status == "error"


async def test_a_keyboard_interrupt_on_top_of_a_cancellation_goes_through(
    context: ToolContext,
) -> None:
    @tool
    async def interrupted() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await outcome(interrupted, context)
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def test_a_fault_of_the_journal_goes_through(context: ToolContext) -> None:
    with pytest.raises(StaleLeaseError):
        await outcome(raising(StaleLeaseError("msg_1", token=3)), context)


def caused(outer: Exception, cause: BaseException) -> Exception:
    outer.__cause__ = cause
    return outer


MAYBE: dict[str, tuple[BaseException, str]] = {
    "timeout": (TimeoutError("read timed out"), "timeout"),
    "reset": (ConnectionResetError(104, "reset by peer"), "error"),
    "broken-pipe": (BrokenPipeError(32, "broken"), "error"),
    "wrapped-timeout": (caused(ValueError("failed"), TimeoutError()), "timeout"),
    "wrapped-reset": (caused(OSError("failed"), ConnectionResetError()), "error"),
    "in-a-group": (ExceptionGroup("tasks", [ValueError(), TimeoutError()]), "timeout"),
    "http-read-timeout": (httpx2.ReadTimeout("slow"), "error"),
    "http-cut": (httpx2.RemoteProtocolError("server disconnected"), "error"),
}


@pytest.mark.parametrize(("exc", "read_status"), MAYBE.values(), ids=MAYBE)
async def test_a_lost_answer_leaves_an_unsafe_call_in_doubt(
    exc: BaseException, read_status: str, context: ToolContext
) -> None:
    unsafe = await outcome(raising(exc, "unsafe"), context)
    read = await outcome(raising(exc, "read"), context)

    assert (unsafe.status, code(unsafe)) == ("in_doubt", "in_doubt")
    assert "may have been done" in unsafe.content
    assert read.status == read_status
    assert read.error is not None
    assert read.error.retryable
    assert read.error.hint == "try again"


SURELY_NOT: dict[str, BaseException] = {
    "refused": ConnectionRefusedError(111, "refused"),
    "not-done": NotDone("the queue was full"),
    "not-done-after-a-timeout": caused(NotDone("never sent"), TimeoutError()),
    "http-connect": caused(httpx2.ConnectError("no route"), TimeoutError()),
    "http-pool": httpx2.PoolTimeout("pool"),
}


@pytest.mark.parametrize("exc", SURELY_NOT.values(), ids=SURELY_NOT)
async def test_what_surely_had_no_effect_is_an_error_that_may_be_tried_again(
    exc: BaseException, context: ToolContext
) -> None:
    result = await outcome(raising(exc, "unsafe"), context)

    assert result.status == "error"
    assert result.error is not None
    assert result.error.retryable


async def test_an_error_shaped_by_the_tool_is_believed(context: ToolContext) -> None:
    result = await outcome(raising(caused(ToolError("not sent"), TimeoutError())), context)

    assert result.status == "error"


@pytest.mark.parametrize(
    ("effect", "status"),
    [("read", "timeout"), ("idempotent", "timeout"), ("unsafe", "in_doubt")],
)
async def test_a_tool_that_hangs_is_stopped_and_its_effect_decides(
    effect: Effect, status: str, context: ToolContext
) -> None:
    ended = anyio.Event()

    @tool(effect=effect, timeout_s=0.01)
    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    result = await outcome(hang, context)

    assert result.status == status
    assert "no result within 0.01 s" in result.content
    assert ended.is_set()


async def test_a_tool_that_turns_its_end_into_an_error_has_timed_out(context: ToolContext) -> None:
    @tool(timeout_s=0.01)
    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise ValueError("interrupted") from None

    assert (await outcome(hang, context)).status == "in_doubt"


async def test_a_tool_that_finishes_after_its_time_has_finished(context: ToolContext) -> None:
    @tool(timeout_s=0.01)
    async def late() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        return "done after all"

    assert (await outcome(late, context)).content == "done after all"


async def test_a_tool_that_cancels_itself_is_an_error_and_the_run_goes_on(
    context: ToolContext,
) -> None:
    @tool(effect="read")
    async def stumble() -> None:
        raise asyncio.CancelledError

    result = await outcome(stumble, context)

    assert (result.status, code(result)) == ("error", "exception")
    assert "CancelledError" in result.content


async def test_cancelling_the_run_stops_the_tool(context: ToolContext) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    @tool(timeout_s=None)
    async def hang() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    results: list[ToolResult] = []

    async def start() -> None:
        results.append(await outcome(hang, context))

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await begun.wait()
        group.cancel_scope.cancel()

    assert ended.is_set()
    assert results == []


async def test_cancelling_the_task_from_asyncio_stops_the_tool(context: ToolContext) -> None:
    begun = anyio.Event()

    @tool(effect="read")
    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    running = asyncio.ensure_future(outcome(hang, context))
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_r027_three_parallel_calls_end_each_in_its_own_way(context: ToolContext) -> None:
    @tool(effect="read", timeout_s=0.02)
    async def behave(how: str) -> str:
        if how == "raise":
            raise ValueError("no")
        if how == "hang":
            await anyio.sleep_forever()
        return how

    results: dict[str, ToolResult] = {}

    async def start(how: str) -> None:
        results[how] = await outcome(behave, context, {"how": how})

    before = asyncio.all_tasks()
    async with anyio.create_task_group() as group:
        for how in ("fine", "raise", "hang"):
            group.start_soon(start, how)

    assert {how: result.status for how, result in results.items()} == {
        "fine": "ok",
        "raise": "error",
        "hang": "timeout",
    }
    assert asyncio.all_tasks() == before


async def test_r062_a_blocking_tool_leaves_the_loop_free(context: ToolContext) -> None:
    release, inside = threading.Event(), anyio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read")
    def block() -> str:
        loop.call_soon_threadsafe(inside.set)
        return "free" if release.wait(20) else "stuck"

    results: list[ToolResult] = []

    async def start() -> None:
        results.append(await outcome(block, context))

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await inside.wait()
        for _ in range(100):
            await checkpoint()
        release.set()

    assert results[0].content == "free"


async def test_r062_many_blocking_tools_run_beside_each_other(context: ToolContext) -> None:
    together = threading.Barrier(60, timeout=20)

    @tool(effect="read")
    def meet() -> int:
        return int(together.wait() >= 0)

    async def start() -> None:
        assert (await outcome(meet, context)).data == 1

    async with anyio.create_task_group() as group:
        for _ in range(60):
            group.start_soon(start)


WORD: contextvars.ContextVar[str] = contextvars.ContextVar("WORD", default="none")


async def test_r062_context_variables_reach_the_thread(context: ToolContext) -> None:
    @tool
    def say() -> str:
        return WORD.get()

    token = WORD.set("courier")
    try:
        assert (await outcome(say, context)).content == "courier"
    finally:
        WORD.reset(token)


async def test_r062_a_blocking_tool_is_given_up_and_its_late_result_ignored(
    context: ToolContext,
) -> None:
    release, done = threading.Event(), anyio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read", timeout_s=0.02)
    def block() -> str:
        release.wait(20)
        loop.call_soon_threadsafe(done.set)
        return "late"

    result = await outcome(block, context)
    release.set()
    await done.wait()

    assert result.status == "timeout"


async def test_r062_the_run_is_cancelled_while_a_blocking_tool_hangs(context: ToolContext) -> None:
    release, inside = threading.Event(), anyio.Event()
    loop = asyncio.get_running_loop()

    @tool(timeout_s=None)
    def block() -> None:
        loop.call_soon_threadsafe(inside.set)
        release.wait(20)

    async def start() -> None:
        await outcome(block, context)

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await inside.wait()
        group.cancel_scope.cancel()
    assert not release.is_set()  # the thread still hangs, and nobody waits for it
    release.set()


THREAD_ENDS: dict[str, tuple[BaseException, str]] = {
    "exception": (ValueError("no"), "ValueError: no"),
    "stop-iteration": (StopIteration(), "RuntimeError: the function raised StopIteration"),
    "exit": (SystemExit(1), "SystemExit: 1"),
}


@pytest.mark.parametrize(("exc", "message"), THREAD_ENDS.values(), ids=THREAD_ENDS)
async def test_what_a_blocking_tool_raises_is_its_error(
    exc: BaseException, message: str, context: ToolContext
) -> None:
    @tool
    def broken() -> None:
        raise exc

    result = await outcome(broken, context)

    assert result.error is not None
    assert result.error.message == message


async def test_a_plain_function_around_an_async_one_is_awaited(context: ToolContext) -> None:
    async def inner() -> str:
        return "inner"

    @tool
    def outer() -> object:
        return inner()

    assert (await outcome(outer, context)).content == "inner"


async def test_blocking_calls_are_bounded(context: ToolContext) -> None:
    release = threading.Event()

    @tool(timeout_s=None)
    def block() -> None:
        release.wait(20)

    results: list[ToolResult] = []

    async def start() -> None:
        results.append(await outcome(block, context))

    async with anyio.create_task_group() as group:
        for _ in range(MAX_THREADS + 1):
            group.start_soon(start)
        while not results:
            await checkpoint()
        release.set()

    refused = [result for result in results if result.status != "ok"]
    assert [code(result) for result in refused] == ["busy"]
    assert len(results) == MAX_THREADS + 1


def test_a_blocking_tool_that_hangs_does_not_keep_the_program_from_ending() -> None:
    program = """
import threading, anyio
from hermes.tools.threads import call_in_thread
async def main():
    with anyio.move_on_after(0.05):
        await call_in_thread(threading.Event().wait)
anyio.run(main)
"""
    done = anyio.run(_end_of, program)

    assert done == 0


async def _end_of(program: str) -> int:
    with anyio.fail_after(30):
        return (await anyio.run_process([sys.executable, "-c", program])).returncode


def test_a_parameter_type_whose_own_check_breaks_is_a_refusal() -> None:
    def check(_: str) -> str:
        raise KeyError("registry")

    @tool
    def probe(x: Annotated[str, AfterValidator(check)]) -> str:
        return x

    assert (
        "KeyError: 'registry'" in refusal(ToolRegistry([probe]), call("probe", {"x": "a"})).content
    )
