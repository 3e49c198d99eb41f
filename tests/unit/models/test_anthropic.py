"""What goes over the wire to a Messages API and back; the server is real, on loopback."""

import asyncio
import json
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import cast

import anthropic
import pytest
from anthropic.types import Message

from hermes.core.chat import AssistantMessage, ChatMessage, ToolMessage, ToolSpec, UserMessage
from hermes.errors import ConfigError, ModelError
from hermes.models import ModelRequest
from hermes.models.anthropic import AnthropicModel
from hermes.models.base import ModelReply
from hermes.models.profiles import Prices, Profile
from hermes.models.spec import open_model
from hermes.testing import FakeClock
from tests.providers.anthropic_server import AnthropicServer
from tests.providers.shapes import Object

KEY = "sk-ant-api03-verysecret-0123456789"
ASK = ModelRequest(messages=[UserMessage(text="hi")])
OK: Object = {"content": [{"type": "text", "text": "霜 é 🥶"}]}
PROFILE = Profile(name="m-1", max_output=900, prices=Prices(prompt=1, completion=2))
THOUGHT: Object = {"type": "thinking", "thinking": "想", "signature": "sig+/="}
FULL: Object = {
    "content": [
        THOUGHT,
        {"type": "text", "text": "Let me look, 我来查。"},
        {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {"q": "北京", "n": [1.5]}},
        {"type": "redacted_thinking", "data": "ENC=="},
        {"type": "tool_use", "id": "toolu_02", "name": "look", "input": dict[str, object]()},
    ],
    "usage": {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 31},
}
TOOLS = (ToolSpec(name="look", description="Looks.", parameters={"type": "object"}),)


@asynccontextmanager
async def served(
    *script: Object, key: str | None = KEY, timeout_s: float = 5.0, clock: FakeClock | None = None
) -> AsyncGenerator[tuple[AnthropicServer, AnthropicModel]]:
    async with AnthropicServer(script, in_order=True) as server:
        model = AnthropicModel(
            "m-1",
            base_url=server.url,
            api_key=key,
            profile=PROFILE,
            timeout_s=timeout_s,
            clock=clock,
        )
        try:
            yield server, model
        finally:
            await model.aclose()


async def ask(model: AnthropicModel, request: ModelRequest, *, stream: bool) -> ModelReply:
    if not stream:
        return await model.reply(request)
    parts = [part async for part in model.stream(request)]
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    return reply


async def fault(model: AnthropicModel, *, stream: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, ASK, stream=stream)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@streamed
async def test_a_request_is_what_the_api_wants(stream: bool) -> None:
    async with served(OK) as (server, model):
        reply = await ask(model, ASK, stream=stream)
    assert reply.text == "霜 é 🥶"
    assert reply.usage.cost_nano == (11 * 1 + 7 * 2) * 1000
    assert server.paths == ["/v1/messages"]
    headers = server.headers[0]
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers
    assert server.requests[0]["max_tokens"] == 900
    assert server.requests[0].get("stream", False) is stream


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/v1/messages", "/v1/messages"),
        ("/anthropic", "/anthropic/v1/messages"),
        ("/v1?a=b", "/v1/messages?a=b"),
    ],
)
async def test_any_form_of_base_url_leads_to_messages(base: str, path: str) -> None:
    async with AnthropicServer([OK]) as server:
        model = AnthropicModel("m", base_url=server.url + base)
        await model.reply(ASK)
        await model.aclose()
    assert server.paths == [path]
    assert "x-api-key" not in server.headers[0]


def test_a_key_that_no_header_can_carry_is_refused_unseen() -> None:
    with pytest.raises(ConfigError, match="API_KEY cannot be sent") as caught:
        AnthropicModel("m", api_key="sk-ant ä")
    assert "sk-ant" not in str(caught.value)


def test_no_key_is_shown_by_the_model_itself() -> None:
    model = AnthropicModel("m", api_key=KEY)
    assert repr(model) == "AnthropicModel('m', host='api.anthropic.com')"
    assert KEY not in repr(vars(model))


@streamed
async def test_the_official_client_reads_the_same(stream: bool) -> None:
    async with AnthropicServer([FULL], in_order=True) as server:
        theirs = await official(server.url, stream=stream)
    async with served(FULL) as (_, model):
        ours = await ask(model, ASK, stream=stream)

    blocks = theirs.content
    assert ours.text == "".join(block.text for block in blocks if block.type == "text")
    assert ours.reasoning == "".join(b.thinking for b in blocks if b.type == "thinking")
    given = [(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"]
    assert [(call.id, call.name, json.loads(call.arguments)) for call in ours.calls] == given
    assert (theirs.stop_reason, ours.finish_reason) == ("tool_use", "tool_calls")
    usage = theirs.usage
    cached = usage.cache_read_input_tokens or 0
    put = usage.cache_creation_input_tokens or 0
    assert ours.usage.prompt_tokens == usage.input_tokens + cached + put == 120
    assert ours.usage.completion_tokens == usage.output_tokens == 31
    assert ours.usage.cached_tokens == cached == 100
    assert ours.model == theirs.model


async def official(url: str, *, stream: bool) -> Message:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        if not stream:
            return await client.messages.create(
                model="m-1", max_tokens=900, messages=[{"role": "user", "content": "hi"}]
            )
        async with client.messages.stream(
            model="m-1", max_tokens=900, messages=[{"role": "user", "content": "hi"}]
        ) as events:
            return await events.get_final_message()


@streamed
async def test_a_turn_with_tools_gives_the_thoughts_back(stream: bool) -> None:
    async with served(FULL, OK) as (server, model):
        first = await ask(model, ASK, stream=stream)
        history: list[ChatMessage] = [
            *ASK.messages,
            AssistantMessage(
                text=first.text, calls=first.calls, reasoning=first.reasoning, opaque=first.opaque
            ),
            *(ToolMessage(call_id=c.id, name=c.name, text="done") for c in first.calls),
        ]
        await ask(model, ModelRequest(messages=history, tools=TOOLS), stream=stream)
    sent = cast("list[dict[str, object]]", server.requests[1]["messages"])
    assert sent[1]["content"] == FULL["content"]
    results = cast("list[Object]", sent[2]["content"])
    assert [result["tool_use_id"] for result in results] == ["toolu_01", "toolu_02"]
    assert server.connections == 1


@streamed
@pytest.mark.parametrize(
    ("status", "kind", "code", "retryable"),
    [
        (400, "invalid_request_error", "bad_request", False),
        (401, "authentication_error", "auth", False),
        (403, "permission_error", "auth", False),
        (413, "request_too_large", "bad_request", False),
        (429, "rate_limit_error", "rate_limited", True),
        (500, "api_error", "server", True),
        (529, "overloaded_error", "server", True),
    ],
)
async def test_a_refusal_is_told_by_its_status(
    stream: bool, status: int, kind: str, code: str, retryable: bool
) -> None:
    told = {"type": "error", "error": {"type": kind, "message": f"no: {KEY}"}}
    reply: Object = {"status": status, "body": told, "headers": {"retry-after": "7"}}
    async with served(reply) as (_, model):
        error = await fault(model, stream=stream)
    assert (error.code, error.retryable) == (code, retryable)
    assert error.retry_after_s == (7.0 if retryable else None)
    assert kind in error.message


async def test_a_model_that_is_not_there_is_told_by_name() -> None:
    told = {"type": "error", "error": {"type": "not_found_error", "message": "model: m-1"}}
    async with served({"status": 404, "body": told}) as (_, model):
        error = await fault(model)
    assert error.code == "unknown_model"


async def test_an_address_without_the_api_is_told() -> None:
    async with served({"status": 404, "body": "nothing"}) as (_, model):
        error = await fault(model)
    assert "has no Messages API at /v1/messages" in error.message


async def test_a_date_to_come_back_is_understood() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    late = {"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}
    async with served({"status": 429, "body": "", "headers": late}, clock=clock) as (_, model):
        assert (await fault(model)).retry_after_s == 30


async def test_a_reply_that_may_be_very_long_is_streamed() -> None:
    async with served(FULL, FULL) as (server, model):
        long = ModelRequest(messages=ASK.messages, max_output_tokens=30_000)
        assert await model.reply(long) == await model.reply(ASK)
    assert [request.get("stream", False) for request in server.requests] == [True, False]


@pytest.mark.parametrize("cut_after", [0, 90, 400, 900])
async def test_a_line_that_is_cut_is_a_broken_stream(cut_after: int) -> None:
    async with served({**FULL, "cut_after": cut_after}) as (_, model):
        error = await fault(model, stream=True)
    assert error.retryable
    assert error.code in {"stream", "unreachable"}


async def test_a_silent_server_times_out() -> None:
    async with served({"wait": True}, timeout_s=0.1) as (_, model):
        error = await fault(model, stream=True)
    assert (error.code, error.retryable) == ("timeout", True)


async def test_characters_may_be_cut_anywhere_on_the_line() -> None:
    async with served({**FULL, "bytewise": True}, FULL) as (_, model):
        alone = await ask(model, ASK, stream=True)
        assert alone == await ask(model, ASK, stream=True)


async def test_requests_side_by_side_do_not_mix() -> None:
    script = [{"content": [{"type": "text", "text": "same"}]}] * 20
    async with served(*script) as (_, model):
        replies = await asyncio.gather(*(ask(model, ASK, stream=True) for _ in range(20)))
    assert {reply.text for reply in replies} == {"same"}


async def test_a_setting_names_a_model_of_anthropic() -> None:
    model = open_model("anthropic: claude-x", api_key=KEY)
    assert isinstance(model, AnthropicModel)
    assert repr(model) == "AnthropicModel('claude-x', host='api.anthropic.com')"
    with pytest.raises(ConfigError, match="no key"):
        open_model("anthropic:claude-x")
    with pytest.raises(ConfigError, match="no model is named"):
        open_model("anthropic:", api_key=KEY)
