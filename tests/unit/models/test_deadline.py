"""A request has an end, however slowly its answer trickles in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from hermes import Agent, Hermes
from hermes.cli.modelbox import opened, pool_of
from hermes.config import Settings
from hermes.core.chat import UserMessage
from hermes.errors import ModelError
from hermes.models import Model, ModelRequest, OpenAIModel, TextDelta
from hermes.models.anthropic import AnthropicModel
from hermes.models.checkup import Checkup
from hermes.testing import FakeClock
from tests.servers import let_in

ASK = ModelRequest(messages=[UserMessage(text="hi")])
CHAT = b'data: {"choices":[{"index":0,"delta":{"content":"more "}}]}\n\n'
BEGIN = b'data: {"type":"message_start","message":{"usage":{"input_tokens":7}}}\n\n'
BLOCK = b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\n\n'
TEXT = (
    b'data: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"more "}}\n\n'
)
KEEP_ALIVE = b": still here\n\n"


@asynccontextmanager
async def trickling(
    piece: bytes, *, first: bytes = b"", clock: FakeClock | None = None
) -> AsyncGenerator[str]:
    """A server whose answers never end; before each piece the clock goes on, if one is given."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + first)
        try:
            while True:
                if clock is not None:
                    clock.advance(9.0)
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        await let_in()


def chat(url: str, clock: FakeClock) -> Model:
    return OpenAIModel("m", base_url=url, total_s=60.0, clock=clock)


def messages(url: str, clock: FakeClock) -> Model:
    return AnthropicModel("m", base_url=url, total_s=60.0, clock=clock)


@pytest.mark.parametrize(
    ("open_model", "first", "piece"),
    [(chat, b"", CHAT), (messages, BEGIN + BLOCK, TEXT)],
    ids=["chat completions", "messages"],
)
async def test_a_stream_that_trickles_for_ever_is_ended(
    open_model: Callable[[str, FakeClock], Model], first: bytes, piece: bytes
) -> None:
    clock, seen = FakeClock(), ""
    async with trickling(piece, first=first) as url:
        model = open_model(url, clock)
        with pytest.raises(ModelError, match=r"had not ended its reply after 60 s") as caught:
            async for part in model.stream(ASK):
                seen += part.text if isinstance(part, TextDelta) else ""
                clock.advance(9.0)
        await model.aclose()
    error = caught.value
    assert (error.code, error.retryable) == ("timeout", True)
    assert "HERMES_MODEL_TOTAL_S" in error.hint
    assert error.partial_text.startswith("more ")
    assert error.partial_text.startswith(seen)


async def test_a_whole_reply_that_trickles_is_ended_as_well() -> None:
    clock = FakeClock()
    async with trickling(b" ", clock=clock) as url:
        model = chat(url, clock)
        with pytest.raises(ModelError, match=r"model 'm' at 127\.0\.0\.1:\d+ had not ended"):
            await model.reply(ASK)
        await model.aclose()


async def test_a_wait_is_broken_off_when_the_time_is_over() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # says nothing
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = OpenAIModel("m", base_url=url, total_s=0.01)
        with pytest.raises(ModelError, match=r"had not ended its reply after 0\.01 s"):
            await model.reply(ASK)
        await model.aclose()
        await let_in()


async def test_what_only_keeps_the_connection_alive_is_no_reply() -> None:
    clock = FakeClock()
    async with trickling(KEEP_ALIVE, clock=clock) as url:
        model = chat(url, clock)
        with pytest.raises(ModelError, match="had not ended") as caught:
            assert [part async for part in model.stream(ASK)] == []
        await model.aclose()
    assert caught.value.partial_text == ""


async def test_the_setting_bounds_runs_and_the_test_of_a_model() -> None:
    async with trickling(KEEP_ALIVE) as url:
        settings = Settings.model_validate(
            {"model_name": "m", "api_base": url, "model_total_s": 0.05, "model_attempts": 1}
        )
        async with Hermes("memory://", settings=settings) as app:
            response = await app.run(Agent(name="a"), "hello")
        pool = pool_of(settings)
        model, profile = opened("m", settings, pool)
        found = [finding async for finding in Checkup(profile, lambda _: model, pause_s=0).run()]
        await pool.aclose()
    assert response.error is not None
    assert response.error.code == "timeout"
    assert "had not ended its reply after 0.05 s" in response.error.message
    assert "had not ended its reply after 0.05 s" in found[0].text
    assert {finding.status for finding in found[1:]} == {"skipped"}
