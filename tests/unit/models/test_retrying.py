"""A model is asked again where that may help, in one place, within bounds."""

from __future__ import annotations

import anyio
import pytest

from hermes.core.retry import RetryPolicy
from hermes.errors import ModelError
from hermes.models import ModelReply
from hermes.models.retrying import RetryingModel

from .wrapping import HELLO, Broken, Server, Time, Watcher, fault, raising, streamed

POLICY = RetryPolicy(attempts=5, base_s=1.0, cap_s=20.0, total_s=60.0)


def retrying(inner: Server, time: Time, **options: bool) -> RetryingModel:
    return RetryingModel(inner, policy=POLICY, sleep=time.skip, spread=lambda: 0.5, **options)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_it_asks_again_after_errors_that_may_pass(*, is_streamed: bool) -> None:
    time, watcher = Time(), Watcher()
    server = Server(raising(fault("server"), fault("unreachable"), fault("rate_limited")))
    model = retrying(server, time)
    if is_streamed:
        assert (await streamed(model, watcher.request))[-1] == ModelReply(text="hi there")
    else:
        assert (await model.reply(watcher.request)).text == "hi there"
    assert (server.asked, time.slept) == (4, [0.5, 1.0, 2.0])
    assert [(told.attempt, told.error.code, told.delay_s) for told in watcher.told] == [
        (1, "server", 0.5),
        (2, "unreachable", 1.0),
        (3, "rate_limited", 2.0),
    ]


async def test_what_cannot_pass_goes_out_at_once_as_it_is() -> None:
    time, error = Time(), fault("bad_request", retryable=False)
    server = Server(raising(error))
    with pytest.raises(ModelError) as caught:
        await retrying(server, time).reply(HELLO)
    assert (caught.value, server.asked, time.slept) == (error, 1, [])


async def test_retry_after_is_kept_with_jitter() -> None:
    time = Time()
    server = Server(raising(fault("rate_limited", after_s=7.0)))
    await retrying(server, time).reply(HELLO)
    assert time.slept == [pytest.approx(7.35)]


async def test_attempts_are_capped_and_the_last_error_says_so() -> None:
    time, watcher = Time(), Watcher()
    server = Server(raising(*[fault("rate_limited", after_s=8.0)] * 9))
    with pytest.raises(ModelError) as caught:
        await retrying(server, time).reply(watcher.request)
    assert server.asked == 5
    assert caught.value.message == (
        "it is rate_limited; asked 5 times, waited 33.6 s between; it may be asked again in 8.0 s"
    )
    assert (caught.value.code, caught.value.retry_after_s) == ("rate_limited", 8.0)
    assert (caught.value.hint, len(watcher.told)) == ("look", 4)


async def test_the_waits_are_capped_together_and_the_rest_is_told() -> None:
    time = Time()
    server = Server(raising(*[fault("rate_limited", after_s=40.0)] * 9))
    with pytest.raises(ModelError, match=r"waited 42\.0 s between; .* again in 40\.0 s"):
        await retrying(server, time).reply(HELLO)
    assert (server.asked, time.slept) == (2, [42.0])


async def test_a_stream_that_has_shown_something_is_not_begun_again() -> None:
    time, watcher, server = Time(), Watcher(), Broken()
    with pytest.raises(ModelError) as caught:
        await streamed(retrying(server, time), watcher.request)
    assert (server.asked, watcher.told, caught.value.partial_text) == (1, [], "half")


async def test_an_open_breaker_costs_no_attempt_but_time() -> None:
    time = Time()
    server = Server(raising(*[fault("unavailable", after_s=1.0)] * 20))
    assert (await retrying(server, time).reply(HELLO)).text == "hi there"
    assert server.asked == 21


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (
            [fault("server"), *[fault("unavailable", after_s=1.0)] * 2, fault("auth")],
            "it is auth; asked 2 times, kept back 2 times by its breaker, waited ",
        ),
        (
            [fault("server"), fault("unavailable", after_s=90.0)],
            "it is unavailable; asked once, kept back once by its breaker, waited 0.5 s between; "
            "it may be asked again in 90.0 s",
        ),
        (
            [fault("unavailable", after_s=30.0), fault("unavailable", after_s=30.0)],
            "it is unavailable; kept back 2 times by its breaker, waited 31.5 s between; "
            "it may be asked again in 30.0 s",
        ),
        (
            [fault("rate_limited", after_s=1e9)],
            "it is rate_limited; it may be asked again in more ",
        ),
        (
            [fault("rate_limited", after_s=500.0)],
            "it is rate_limited; it may be asked again in 9 m",
        ),
    ],
    ids=["both", "once", "never sent", "for ever", "minutes"],
)
async def test_the_last_error_counts_what_was_sent_and_says_times_as_people_do(
    faults: list[ModelError], said: str
) -> None:
    faults[-1].retryable = faults[-1].code != "auth"
    time, server = Time(), Server(raising(*faults))
    with pytest.raises(ModelError) as caught:
        await retrying(server, time).reply(HELLO)
    assert caught.value.message.startswith(said)
    assert (caught.value.code, caught.value.hint) == (faults[-1].code, "look")


async def test_where_another_model_is_at_hand_an_open_breaker_is_not_waited_for() -> None:
    time = Time()
    server = Server(raising(fault("unavailable", after_s=1.0)))
    with pytest.raises(ModelError, match="unavailable"):
        await retrying(server, time, waits_for_breaker=False).reply(HELLO)
    assert time.slept == []


async def test_cancellation_in_a_wait_passes_and_nothing_is_asked_again() -> None:
    watcher, server = Watcher(), Server(raising(fault("server"), fault("server")))
    model = RetryingModel(server, policy=POLICY, sleep=lambda _: anyio.sleep_forever())
    with anyio.move_on_after(0.02) as scope:
        await model.reply(watcher.request)
    assert scope.cancelled_caught
    assert (server.asked, len(watcher.told)) == (1, 1)


async def test_one_attempt_means_no_second_one() -> None:
    server = Server(raising(fault("server"), fault("server")))
    model = RetryingModel(server, policy=RetryPolicy(attempts=1))
    with pytest.raises(ModelError, match=r"^it is server \(look\)$"):
        await model.reply(HELLO)
    assert server.asked == 1
