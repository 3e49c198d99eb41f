"""One chain a model, made of settings; what models of one key share is shared."""

from __future__ import annotations

import anyio
import pytest

from hermes.core.chat import Usage
from hermes.core.quota import Rate, Slot
from hermes.core.retry import RetryPolicy
from hermes.errors import ConfigError, ModelError
from hermes.models import ModelReply
from hermes.models.chain import ChainOptions, Chains, key_of
from hermes.models.fallback import FallbackModel
from hermes.testing import FakeClock

from .wrapping import HELLO, Server, fault, raising

ONE_TRY = RetryPolicy(attempts=1)


def chains(**options: object) -> Chains:
    return Chains(ChainOptions(retry=ONE_TRY, **options), clock=FakeClock())  # pyright: ignore[reportArgumentType]  # each test names its own


async def test_a_plain_chain_is_transparent() -> None:
    server = Server()
    model = chains().chain("m", lambda _: server)
    assert (await model.reply(HELLO), model.name) == (ModelReply(text="hi there"), "served")
    await model.aclose()
    assert server.closed == 1


async def test_without_a_cassette_nothing_is_replayed() -> None:
    server = Server(raising(fault(), None))
    options = ChainOptions(retry=RetryPolicy(attempts=2, base_s=0.0), is_replay=True)
    model = Chains(options, clock=FakeClock()).chain("m", lambda _: server)
    assert (await model.reply(HELLO)).text


def test_a_playbook_is_not_wrapped() -> None:
    server = Server()
    assert chains().chain("playbook:rules.yaml", lambda _: server) is server


async def test_models_of_one_key_share_breaker_and_places() -> None:
    made = chains(breaker_failures=1, concurrency=1)
    broken, other = Server(raising(fault())), Server()
    first = made.chain("a", lambda _: broken, base_url="http://x/v1", api_key="k")
    second = made.chain("b", lambda _: other, base_url="http://x/v1", api_key="k", dialect="react")
    apart = made.chain("b", lambda _: other, base_url="http://x/v1", api_key="another")
    with pytest.raises(ModelError, match="it is server"):
        await first.reply(HELLO)
    with pytest.raises(ModelError, match="was not asked"):
        await second.reply(HELLO)
    assert (await apart.reply(HELLO)).text == "hi there"


async def test_the_places_of_a_key_hold_over_its_models() -> None:
    made, server = chains(concurrency=3), Server()
    server.gate = anyio.Event()
    models = [made.chain(name, lambda _: server) for name in "ab"]
    async with anyio.create_task_group() as group:
        for model in models * 5:
            group.start_soon(model.reply, HELLO)
        await anyio.wait_all_tasks_blocked()
        server.gate.set()
    assert (server.asked, server.at_once) == (10, 3)


async def test_a_fallback_is_opened_by_its_spec_and_asked_second() -> None:
    servers = {"a": Server(raising(fault("auth", retryable=False)), name="a"), "b": Server()}
    model = chains(fallback=("b", "a")).chain("a", servers.__getitem__)
    assert isinstance(model, FallbackModel)
    assert (await model.reply(HELLO)).text == "hi there"
    assert (servers["a"].asked, servers["b"].asked) == (1, 1)


def test_a_wrong_fallback_is_told_at_the_start() -> None:
    def open_one(spec: str) -> Server:
        if spec == "b":
            raise ConfigError("no server for b")
        return Server()

    with pytest.raises(ConfigError, match="no server for b"):
        chains(fallback=("b",)).chain("a", open_one)


class Counting:
    """A quota that only counts how it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def reserve(self, key: str, rate: Rate, *, tokens: int) -> Slot:
        self.asked += 1
        return Slot(at=0, wait_s=0.0)

    async def wait_s(self, key: str, slot: Slot) -> float:
        return 0.0

    async def settle(self, key: str, rate: Rate, *, reserved: int, used: int) -> None:
        self.asked += 1

    async def pause(self, key: str, seconds: float) -> None:
        self.asked += 1


@pytest.mark.parametrize(
    ("rate", "asked"), [(Rate(), 0), (Rate(requests=60), 1), (Rate(tokens=60), 2)]
)
async def test_the_shared_quota_is_asked_only_where_there_is_a_rate(rate: Rate, asked: int) -> None:
    quota = Counting()
    made = Chains(ChainOptions(rate=rate), clock=FakeClock(), quota=quota)
    used = ModelReply(text="hi", usage=Usage(prompt_tokens=3))
    await made.chain("m", lambda _: Server(lambda _: used)).reply(HELLO)
    assert quota.asked == asked


def test_a_key_tells_nothing_and_differs_by_account_and_dialect() -> None:
    keys = [
        key_of(spec, base_url=base_url, api_key=api_key)
        for spec in ("m", "llama3:8b", "anthropic:m", "local:m.gguf")
        for base_url in ("http://x/v1", None)
        for api_key in ("sk-secret", None)
    ]
    assert len(set(keys)) == 9
    assert not any("secret" in key for key in keys)
