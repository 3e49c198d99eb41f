"""Where one model gives no answer, the next one is asked, and each switch is told."""

from __future__ import annotations

import pytest

from hermes.errors import ModelError
from hermes.models import ModelReply, TextDelta
from hermes.models.fallback import FallbackModel
from hermes.models.retrying import RetryingModel

from .wrapping import HELLO, Broken, Server, Time, Watcher, fault, raising, streamed

WITHHELD = ModelReply(text="I can", finish_reason="content_filter")
EMPTY = ModelReply(text=" \n")


def replying(reply: ModelReply, name: str) -> Server:
    return Server(lambda _: reply, name=name)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_error_that_cannot_pass_goes_to_the_next(*, is_streamed: bool) -> None:
    watcher = Watcher()
    first = Server(raising(fault("auth", retryable=False)), name="first")
    model = FallbackModel([first, Server(name="second")])
    if is_streamed:
        parts = await streamed(model, watcher.request)
        assert parts == [TextDelta(text="hi there"), ModelReply(text="hi there")]
    else:
        assert (await model.reply(watcher.request)).text == "hi there"
    [told] = watcher.told
    assert (told.model, told.next_model, told.error.code) == ("first", "second", "auth")


@pytest.mark.parametrize(
    ("reply", "code"), [(WITHHELD, "refused"), (EMPTY, "bad_reply")], ids=["withheld", "empty"]
)
async def test_a_reply_that_is_none_goes_to_the_next(reply: ModelReply, code: str) -> None:
    watcher = Watcher()
    model = FallbackModel([replying(reply, "first"), Server(name="second")])
    assert (await model.reply(watcher.request)).text == "hi there"
    assert [told.error.code for told in watcher.told] == [code]


async def test_an_empty_stream_goes_to_the_next() -> None:
    model = FallbackModel([replying(ModelReply(), "first"), Server(name="second")])
    assert (await streamed(model))[-1] == ModelReply(text="hi there")


async def test_the_last_ones_reply_is_given_as_it_is() -> None:
    model = FallbackModel([replying(EMPTY, "first"), replying(WITHHELD, "second")])
    assert await model.reply(HELLO) == WITHHELD
    assert (await streamed(FallbackModel([replying(EMPTY, "only")])))[-1] == EMPTY


async def test_the_last_error_names_what_failed_before() -> None:
    model = FallbackModel(
        [
            Server(raising(fault("auth")), name="first"),
            Server(raising(fault("timeout", after_s=3.0)), name="second"),
        ]
    )
    with pytest.raises(ModelError) as caught:
        await model.reply(HELLO)
    assert caught.value.message == "it is timeout; before it failed first: it is auth"
    assert (caught.value.code, caught.value.retry_after_s) == ("timeout", 3.0)


async def test_a_reader_never_sees_two_models_in_one_answer() -> None:
    watcher, second = Watcher(), Server(name="second")
    with pytest.raises(ModelError, match="it broke") as caught:
        await streamed(FallbackModel([Broken(name="first"), second]), watcher.request)
    assert (second.asked, watcher.told, caught.value.partial_text) == (0, [], "half")


async def test_attempts_are_counted_over_all_models() -> None:
    time, watcher = Time(), Watcher()

    def chain(name: str, failures: int) -> RetryingModel:
        server = Server(raising(*[fault()] * failures), name=name)
        return RetryingModel(server, sleep=time.skip)

    model = FallbackModel([chain("first", 9), chain("second", 2)])
    assert (await model.reply(watcher.request)).text == "hi there"
    assert [(told.model, told.attempt, told.next_model) for told in watcher.told] == [
        ("first", 1, ""),
        ("first", 2, ""),
        ("first", 3, ""),
        ("first", 4, ""),
        ("first", 5, "second"),
        ("second", 6, ""),
        ("second", 7, ""),
    ]


async def test_all_are_closed() -> None:
    servers = [Server(), Server()]
    await FallbackModel(servers).aclose()
    assert [server.closed for server in servers] == [1, 1]
