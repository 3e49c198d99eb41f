"""Nothing is sent to a server that fails again and again, but for one probe."""

from __future__ import annotations

import anyio
import pytest

from hermes.core.breaker import Breaker
from hermes.errors import ModelError
from hermes.models.breaker import BreakerModel
from hermes.models.retrying import RetryingModel

from .wrapping import HELLO, Broken, Server, Time, fault, raising, streamed


def guarded(server: Server, time: Time, failures: int = 3) -> BreakerModel:
    return BreakerModel(
        server, breaker=Breaker(failures=failures, cooldown_s=30.0), clock=time.clock
    )


async def fail(model: BreakerModel, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ModelError):
            await model.reply(HELLO)


async def refusal(model: BreakerModel) -> ModelError:
    with pytest.raises(ModelError, match="was not asked") as caught:
        await model.reply(HELLO)
    return caught.value


@pytest.mark.parametrize("code", ["server", "unreachable", "timeout", "stream"])
async def test_failures_of_the_server_in_a_row_open_it(code: str) -> None:
    time, server = Time(), Server(raising(*[fault(code)] * 3))
    model = guarded(server, time)
    await fail(model, 3)
    time.clock.advance(10.0)
    told = await refusal(model)
    assert (told.code, told.retryable, told.retry_after_s) == ("unavailable", True, 20.0)
    assert server.asked == 3


@pytest.mark.parametrize("code", ["rate_limited", "bad_request", "auth", "refused", "bad_reply"])
async def test_refusals_do_not_open_it(code: str) -> None:
    time, server = Time(), Server(raising(*[fault(code)] * 20))
    await fail(guarded(server, time), 20)
    assert server.asked == 20


async def test_a_cancelled_request_says_nothing() -> None:
    time, server = Time(), Server()
    model = guarded(server, time, failures=1)
    server.gate = anyio.Event()
    for _ in range(3):
        with anyio.move_on_after(0.01):
            await model.reply(HELLO)
    server.gate = None
    assert (await model.reply(HELLO)).text == "hi there"


async def test_half_open_lets_exactly_one_probe_through_with_fifty_waiting() -> None:
    time, server = Time(), Server(raising(*[fault()] * 3))
    breaker = guarded(server, time)
    await fail(breaker, 3)
    time.clock.advance(30.0)
    model = RetryingModel(breaker, sleep=time.sleep, spread=lambda: 0.5)
    server.gate = anyio.Event()
    replies: list[str] = []

    async def ask() -> None:
        replies.append((await model.reply(HELLO)).text)

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert server.asked == 4  # the probe alone, while the others wait
        server.gate.set()
        await time.pass_by()
    assert (len(replies), server.asked) == (50, 53)


async def test_a_probe_that_fails_keeps_it_open() -> None:
    time, server = Time(), Server(raising(*[fault()] * 4))
    model = guarded(server, time)
    await fail(model, 3)
    time.clock.advance(30.0)
    await fail(model, 1)
    assert (await refusal(model)).retry_after_s == 30.0
    assert server.asked == 4


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_cancelled_probe_frees_its_place(*, is_streamed: bool) -> None:
    time, server = Time(), Server(raising(*[fault()] * 3))
    model = guarded(server, time)
    await fail(model, 3)
    time.clock.advance(30.0)
    server.gate = anyio.Event()
    with anyio.move_on_after(0.01):
        await (streamed(model) if is_streamed else model.reply(HELLO))
    server.gate = None
    assert (await model.reply(HELLO)).text == "hi there"


async def test_who_reads_only_the_first_part_of_a_probe_frees_its_place() -> None:
    time, server = Time(), Server(raising(*[fault()] * 3))
    model = guarded(server, time)
    await fail(model, 3)
    time.clock.advance(30.0)
    parts = model.stream(HELLO)
    await anext(parts)
    await parts.aclose()
    assert (await model.reply(HELLO)).text == "hi there"


async def test_whoever_has_the_reply_has_given_the_place_back() -> None:
    time, server = Time(), Server(raising(*[fault()] * 3))
    model = guarded(server, time)
    await fail(model, 3)
    time.clock.advance(30.0)
    parts = model.stream(HELLO)
    assert [await anext(parts), await anext(parts)]
    assert (await model.reply(HELLO)).text == "hi there"  # `parts` is still open
    await parts.aclose()


async def test_streams_that_break_count() -> None:
    time, server = Time(), Broken()
    model = guarded(server, time)
    for _ in range(3):
        with pytest.raises(ModelError, match="it broke"):
            await streamed(model)
    await refusal(model)
