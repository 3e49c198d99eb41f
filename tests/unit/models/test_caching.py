"""A request that was made before is answered by the reply of that time, for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.core.chat import ToolCall, Usage, UserMessage
from hermes.models import CallDelta, ModelReply, ModelRequest, TextDelta
from hermes.models.caching import KEPT, CachingModel, ReplyCache
from hermes.testing import FakeClock

from .wrapping import HELLO, Server, streamed

FULL = ModelReply(
    text="see",
    calls=(ToolCall(id="c1", name="look", arguments="{}"),),
    finish_reason="tool_calls",
    usage=Usage(prompt_tokens=9, completion_tokens=1, cost_nano=5),
)


class World:
    def __init__(self, folder: Path | None = None, reply: ModelReply = FULL) -> None:
        self.clock, self.server = FakeClock(), Server(lambda _: reply)
        self._folder = folder
        self.model = self.another()

    def another(self, scope: str = "s") -> CachingModel:
        """The same model in another process, or of another key."""
        cache = ReplyCache(ttl_s=60, clock=self.clock, folder=self._folder)
        return CachingModel(self.server, cache=cache, scope=scope)


async def test_a_repeat_asks_nobody_says_so_and_costs_nothing() -> None:
    world = World()
    assert await world.model.reply(HELLO) == FULL
    again = await world.model.reply(HELLO)
    assert (again.text, again.calls, again.cached, again.usage) == (
        "see",
        FULL.calls,
        True,
        Usage(),
    )
    assert world.server.asked == 1


async def test_a_stream_fills_and_uses_the_cache() -> None:
    world = World()
    await streamed(world.model)
    *deltas, last = await streamed(world.model)
    assert deltas == [TextDelta(text="see"), CallDelta(name="look")]
    assert isinstance(last, ModelReply)
    assert (last.cached, world.server.asked) == (True, 1)


async def test_a_reply_holds_for_its_time() -> None:
    world = World()
    await world.model.reply(HELLO)
    world.clock.advance(59)
    await world.model.reply(HELLO)
    world.clock.advance(1)
    assert not (await world.model.reply(HELLO)).cached
    assert world.server.asked == 2


async def test_another_request_or_another_key_is_asked() -> None:
    world = World()
    await world.model.reply(HELLO)
    await world.model.reply(ModelRequest(messages=[UserMessage(text="else")]))
    await world.another("other").reply(HELLO)
    assert world.server.asked == 3


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(text="cut", finish_reason="length"),
        ModelReply(text="no", finish_reason="content_filter"),
        ModelReply(text="{", problem="unreadable"),
        ModelReply(text=" "),
    ],
    ids=["cut", "withheld", "unreadable", "empty"],
)
async def test_what_is_no_whole_reply_is_not_kept(reply: ModelReply) -> None:
    world = World(reply=reply)
    await world.model.reply(HELLO)
    await world.model.reply(HELLO)
    assert world.server.asked == 2


async def test_a_folder_holds_over_processes_and_holds_no_question(tmp_path: Path) -> None:
    world = World(tmp_path / "cache")
    await world.model.reply(HELLO)
    assert (await world.another().reply(HELLO)).cached
    [path] = (tmp_path / "cache").iterdir()
    assert "hello" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b'{"at_s": 17')
    assert not (await world.another().reply(HELLO)).cached
    assert (await world.another().reply(HELLO)).cached


async def test_a_folder_that_cannot_be_written_to_costs_no_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    world = World(tmp_path / "file" / "cache")
    assert (await world.model.reply(HELLO)).text == "see"
    assert "could not be kept" in caplog.text
    assert (await world.model.reply(HELLO)).cached


async def test_memory_is_bounded() -> None:
    world = World()
    for number in range(KEPT + 1):
        await world.model.reply(ModelRequest(messages=[UserMessage(text=str(number))]))
    assert (await world.model.reply(ModelRequest(messages=[UserMessage(text="1")]))).cached
    assert not (await world.model.reply(ModelRequest(messages=[UserMessage(text="0")]))).cached
