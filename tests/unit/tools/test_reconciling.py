"""A tool is asked whether a call took place."""

from __future__ import annotations

import anyio
import pytest

from hermes import NOT_DONE, NotDone, Question, ToolContext, tool
from hermes.core.chat import ToolCall
from hermes.testing import FakeClock
from hermes.tools import Prepared, ToolRegistry, ToolResult, prepare, reconcile
from hermes.tools.base import Reconcile


def prepared(ask: Reconcile, *, timeout_s: float | None = 5.0) -> Prepared:
    @tool(reconcile=ask, timeout_s=timeout_s)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError("the call itself is not made")

    made = prepare(ToolRegistry([pay]), ToolCall(id="1", name="pay", arguments='{"amount":"5"}'))
    assert isinstance(made, Prepared)
    return made


async def outcome(ask: Reconcile, context: ToolContext, timeout_s: float = 5.0) -> object:
    made = prepared(ask, timeout_s=timeout_s)
    return await reconcile(made, context, clock=FakeClock(), limit_chars=200)


async def test_it_gets_the_key_and_the_plain_arguments(context: ToolContext) -> None:
    seen: list[object] = []

    async def ask(key: str, arguments: dict[str, object]) -> object:
        seen.append((key, dict(arguments)))
        arguments["amount"] = 6
        return {"paid": 5}

    made = prepared(ask)
    found = await reconcile(made, context, clock=FakeClock())

    assert isinstance(found, ToolResult)
    assert (found.status, found.content) == ("ok", '{"paid":5}')
    assert seen == [(context.idempotency_key, {"amount": 5})]
    assert made.arguments == {"amount": 5}


async def test_a_plain_function_runs_beside_the_event_loop(context: ToolContext) -> None:
    found = await outcome(lambda key, arguments: NOT_DONE, context)
    assert found is NOT_DONE


async def test_none_is_a_result_like_any_other(context: ToolContext) -> None:
    found = await outcome(lambda key, arguments: None, context)
    assert isinstance(found, ToolResult)
    assert (found.status, found.content) == ("ok", "null")


async def test_a_long_result_is_cut(context: ToolContext) -> None:
    found = await outcome(lambda key, arguments: "x" * 1000, context)
    assert isinstance(found, ToolResult)
    assert len(found.content) <= 200
    assert found.full == b"x" * 1000


def unreachable(key: str, arguments: dict[str, object]) -> object:
    raise ConnectionRefusedError("port 80")


def not_done(key: str, arguments: dict[str, object]) -> object:
    raise NotDone("cannot ask")


def no_result(key: str, arguments: dict[str, object]) -> object:
    return object()


def waits(key: str, arguments: dict[str, object]) -> object:
    return Question(text="well?")


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (unreachable, "reconcile cannot tell: ConnectionRefusedError: port 80"),
        (not_done, "reconcile cannot tell: cannot ask"),
        (no_result, "its result cannot be stored"),
        (waits, "something to wait for"),
    ],
    ids=["raises", "raises NotDone", "no result", "waits"],
)
async def test_whatever_else_it_does_leaves_the_call_in_doubt(
    ask: Reconcile, text: str, context: ToolContext
) -> None:
    found = await outcome(ask, context)
    assert isinstance(found, ToolResult)
    assert found.status == "in_doubt"
    assert found.error is not None
    assert text in found.error.message


async def test_it_has_no_more_time_than_the_tool(context: ToolContext) -> None:
    async def ask(key: str, arguments: dict[str, object]) -> object:
        await anyio.sleep_forever()

    found = await outcome(ask, context, timeout_s=0.05)
    assert isinstance(found, ToolResult)
    assert found.status == "in_doubt"
    assert found.error is not None
    assert "no result within 0.05 s" in found.error.message


async def test_a_cancelled_run_ends_it(context: ToolContext) -> None:
    async def ask(key: str, arguments: dict[str, object]) -> object:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(outcome, ask, context)
    assert group.cancel_scope.cancelled_caught
