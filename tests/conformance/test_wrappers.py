"""Every wrapper around a model is transparent: text, calls, usage, deltas, cancelling, closing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hermes.core.breaker import Breaker
from hermes.core.chat import ToolCall, Usage
from hermes.core.quota import LocalQuota, Rate
from hermes.errors import ModelError
from hermes.models import CallDelta, Model, ModelReply, ModelRequest, ReasoningDelta, TextDelta
from hermes.models.breaker import BreakerModel
from hermes.models.caching import CachingModel, ReplyCache
from hermes.models.chain import ChainOptions, Chains
from hermes.models.fallback import FallbackModel
from hermes.models.limits import ConcurrentModel, LimitedModel, Pace
from hermes.models.profiles import Profile, profile_in
from hermes.models.recording import Cassette, RecordingModel
from hermes.models.retrying import RetryingModel
from hermes.models.wrapper import Wrapper
from hermes.testing import FakeClock, ScriptedModel
from tests.unit.models.wrapping import HELLO, Server, raising, streamed

REPLY = ModelReply(
    text="see there",
    reasoning="hm",
    calls=(ToolCall(id="c1", name="look", arguments='{"where":"霜"}'),),
    finish_reason="tool_calls",
    usage=Usage(prompt_tokens=9, completion_tokens=4, cached_tokens=3, cost_nano=7),
    model="m-1",
    opaque={"anthropic": [{"signature": "abc"}]},
)

Wrap = Callable[[Model], Model]


def wraps(folder: Path) -> dict[str, Wrap]:
    clock = FakeClock()
    cache = ReplyCache(ttl_s=60, clock=clock)
    return {
        "plain": Wrapper,
        "retrying": RetryingModel,
        "breaker": lambda inner: BreakerModel(
            inner, breaker=Breaker(failures=1, cooldown_s=1), clock=clock
        ),
        "limited": lambda inner: LimitedModel(
            inner,
            quota=LocalQuota(clock=clock),
            key="k",
            rate=Rate(requests=6000, tokens=1e9),
            pace=Pace(),
            clock=clock,
        ),
        "concurrent": lambda inner: ConcurrentModel(inner, places=anyio.Semaphore(1)),
        "fallback": lambda inner: FallbackModel([inner, Server()]),
        "caching": lambda inner: CachingModel(inner, cache=cache, scope="s"),
        "recording": lambda inner: RecordingModel(inner, cassette=Cassette(folder / "c.jsonl")),
        "chain": lambda inner: Chains(ChainOptions(cache_s=60), clock=clock).chain(
            "m", lambda _: inner
        ),
    }


@pytest.fixture(params=list(wraps(Path())))
def wrap(request: pytest.FixtureRequest, tmp_path: Path) -> Wrap:
    return wraps(tmp_path)[str(request.param)]


async def test_a_reply_comes_through_whole(wrap: Wrap) -> None:
    inner = ScriptedModel([REPLY])
    asked = ModelRequest(messages=HELLO.messages, max_output_tokens=7)
    assert await wrap(inner).reply(asked) == REPLY
    [request] = inner.requests
    assert request == asked


async def test_a_stream_comes_through_piece_by_piece(wrap: Wrap) -> None:
    parts = await streamed(wrap(ScriptedModel([REPLY])))
    assert parts == [
        ReasoningDelta(text="hm"),
        TextDelta(text="see t"),
        TextDelta(text="here"),
        CallDelta(name="look"),
        REPLY,
    ]


async def test_an_error_that_cannot_pass_comes_through(wrap: Wrap) -> None:
    error = ModelError("no", code="auth", hint="look")
    if isinstance(wrap(ScriptedModel([])), FallbackModel):
        return  # that is what it is for
    with pytest.raises(ModelError) as caught:
        await wrap(Server(raising(error))).reply(HELLO)
    assert caught.value is error


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_cancelling_comes_through_and_leaves_nothing_taken(
    wrap: Wrap, *, is_streamed: bool
) -> None:
    server = Server()
    model = wrap(server)
    server.gate = anyio.Event()
    with anyio.move_on_after(0.01) as scope:
        await (streamed(model) if is_streamed else model.reply(HELLO))
    assert scope.cancelled_caught
    server.gate.set()
    assert (await model.reply(HELLO)).text == "hi there"


async def test_closing_comes_through(wrap: Wrap) -> None:
    server = Server()
    await wrap(server).aclose()
    assert server.closed == 1


def test_name_and_profile_come_through(wrap: Wrap) -> None:
    server = Server(name="m-1")
    assert wrap(server).name == "m-1"
    known = Profile(name="m-1", window=77, is_known=True)
    server.profile = known  # pyright: ignore[reportAttributeAccessIssue]  # a model may have one
    assert profile_in(wrap(server)) == known


def test_what_is_shown_of_it_names_what_it_wraps(wrap: Wrap) -> None:
    assert "Server" in repr(wrap(Server()))
