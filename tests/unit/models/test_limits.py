"""Requests keep the pace that a provider allows, and no more are under way than may be."""

from __future__ import annotations

import anyio
import pytest

from hermes.core.chat import ToolSpec, Usage, UserMessage
from hermes.core.quota import LocalQuota, Rate
from hermes.errors import ModelError
from hermes.models import Model, ModelReply, ModelRequest
from hermes.models.limits import ConcurrentModel, LimitedModel, Pace, tokens_of

from .wrapping import HELLO, Server, Time, fault, raising, streamed

TEN_A_SECOND = Rate(requests=600)


class Timed(Server):
    """Knows when it was asked."""

    def __init__(self, time: Time, *faults: ModelError | None, used: int = 0) -> None:
        self._time, self.at_s = time, list[float]()
        answer = raising(*faults)

        def stamped(number: int) -> ModelReply:
            self.at_s.append(round(time.clock.monotonic(), 6))
            reply = answer(number)
            return ModelReply(text=reply.text, usage=Usage(prompt_tokens=used))

        super().__init__(stamped)


def limited(server: Server, time: Time, rate: Rate, quota: LocalQuota | None = None) -> Model:
    return LimitedModel(
        server,
        quota=quota or LocalQuota(clock=time.clock),
        key="k",
        rate=rate,
        pace=Pace(),
        clock=time.clock,
        sleep=time.sleep,
    )


async def ask(model: Model, times: int, time: Time) -> list[ModelReply | ModelError]:
    """All at once."""
    found: list[ModelReply | ModelError] = []

    async def one() -> None:
        try:
            found.append(await model.reply(HELLO))
        except ModelError as exc:
            found.append(exc)

    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(one)
        await time.pass_by()
    return found


async def test_requests_go_out_at_an_even_pace_in_their_order() -> None:
    time = Time()
    server = Timed(time)
    await ask(limited(server, time, TEN_A_SECOND), 30, time)
    assert server.at_s == [pytest.approx(0.1 * place) for place in range(30)]


async def test_a_stream_waits_like_a_reply() -> None:
    time = Time()
    server = Timed(time)
    model = limited(server, time, TEN_A_SECOND)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(streamed, model)
        await time.pass_by()
    assert server.at_s == [0.0, 0.1, 0.2]


async def test_one_refusal_holds_everybody_for_as_long_as_asked_and_no_burst_follows() -> None:
    time = Time()
    server = Timed(time, None, None, fault("rate_limited", after_s=7.0))
    replies = await ask(limited(server, time, TEN_A_SECOND), 20, time)
    assert sum(isinstance(reply, ModelError) for reply in replies) == 1
    after = server.at_s[3:]
    assert after[0] >= 7.2
    assert after == [pytest.approx(7.3 + 0.1 * place) for place in range(17)]


async def test_without_a_known_rate_a_refusal_teaches_a_pace() -> None:
    time = Time()
    server = Timed(time, fault("rate_limited", after_s=2.0))
    model = limited(server, time, Rate())
    assert isinstance((await ask(model, 1, time))[0], ModelError)
    await ask(model, 20, time)
    steps = [round(b - a, 6) for a, b in zip(server.at_s[1:], server.at_s[2:], strict=False)]
    assert server.at_s[1] == 2.0
    assert min(steps[1:]) >= 0.05  # two may go at once: a tenth of a second of slack


def test_a_pace_slows_down_once_a_burst_and_is_forgotten_when_all_is_calm() -> None:
    pace = Pace()
    for _ in range(9):
        pace.refused(1.0, pause_s=1.0)
    assert pace.over(Rate()) == Rate(requests=1200)
    pace.refused(2.5, pause_s=1.0)
    assert pace.over(Rate()) == Rate(requests=600)
    assert pace.over(Rate(requests=7)) == Rate(requests=7)
    for second in range(200):
        pace.went_well(float(second))
    assert pace.over(Rate()) == Rate()


async def test_tokens_are_reserved_and_settled_by_what_was_used() -> None:
    time = Time()
    rate = Rate(tokens=60_000)  # 1000 a second
    request = ModelRequest(messages=[UserMessage(text="x" * 40_000)])
    assert tokens_of(request) == 10_500
    server, quota = Timed(time, used=20_500), LocalQuota(clock=time.clock)
    model = limited(server, time, rate, quota)
    await model.reply(request)
    # All 20.5 s are to be paid, but for the six that may be owed.
    assert (await quota.reserve("k", rate, tokens=1)).wait_s == pytest.approx(14.5)


@pytest.mark.parametrize("code", ["rate_limited", "unavailable", "unreachable"])
async def test_what_was_not_taken_by_the_server_gives_its_tokens_back(code: str) -> None:
    time, rate = Time(), Rate(tokens=60)
    quota = LocalQuota(clock=time.clock)
    with pytest.raises(ModelError):
        await limited(Timed(time, fault(code, after_s=0.5)), time, rate, quota).reply(HELLO)
    assert (await quota.reserve("k", rate, tokens=1)).wait_s <= 0.5


async def test_a_request_cancelled_in_the_row_gives_its_tokens_back() -> None:
    time, rate = Time(), Rate(requests=1, tokens=60)
    quota = LocalQuota(clock=time.clock)
    model = limited(Timed(time, used=1), time, rate, quota)
    await model.reply(HELLO)
    with anyio.move_on_after(0.01) as scope:
        await model.reply(HELLO)
    assert scope.cancelled_caught
    slot = await quota.reserve("k", Rate(tokens=60), tokens=1)
    assert slot.wait_s == 0


async def test_at_most_so_many_requests_are_under_way() -> None:
    server = Server()
    server.gate = anyio.Event()
    model = ConcurrentModel(server, places=anyio.Semaphore(4))
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(model.reply, HELLO)
            group.start_soon(streamed, model)
        await anyio.wait_all_tasks_blocked()
        assert server.asked == 4
        server.gate.set()
    assert (server.asked, server.at_once) == (10, 4)


async def test_a_place_is_free_once_the_reply_is_there_or_the_request_cancelled() -> None:
    server = Server()
    model = ConcurrentModel(server, places=anyio.Semaphore(1))
    parts = model.stream(HELLO)
    assert [await anext(parts), await anext(parts)]
    await model.reply(HELLO)  # `parts` is still open
    await parts.aclose()
    server.gate = anyio.Event()
    with anyio.move_on_after(0.01):
        await model.reply(HELLO)
    server.gate.set()
    await model.reply(HELLO)


def test_the_estimate_counts_tools_schema_and_the_reply() -> None:
    tool = ToolSpec(name="look", description="d" * 36, parameters={})
    small = tokens_of(HELLO)
    assert small == 2 + 500
    assert tokens_of(ModelRequest(messages=HELLO.messages, max_output_tokens=7)) == 9
    assert tokens_of(ModelRequest(messages=HELLO.messages, tools=(tool,))) > small + 9
