"""The same conversation with five providers, over real HTTP on loopback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from hermes.errors import ModelError
from hermes.models import OpenAIModel
from hermes.models.base import ModelReply, ModelRequest, TextDelta
from tests.providers.server import ProviderServer
from tests.providers.shapes import SHAPES

ASK = "北京 and Zürich: which is warmer? 🌡"
USAGE = {"prompt_tokens": 120, "completion_tokens": 31, "cached_tokens": 64}
SCRIPT: list[dict[str, object]] = [
    {
        "text": "Let me look, 我来查。",
        "calls": [
            {"name": "weather", "arguments": {"city": "北京", "unit": "°C"}},
            {"name": "weather", "arguments": {"city": "Zürich"}},
        ],
        "usage": USAGE,
    },
    {"text": "霜 é 🥶: Zürich is colder.", "usage": USAGE},
]
TOOLS = (
    ToolSpec(
        name="weather",
        description="The weather of a city.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
    ),
)


async def ask(model: OpenAIModel, messages: list[ChatMessage], *, stream: bool) -> ModelReply:
    request = ModelRequest(messages=messages, tools=TOOLS)
    if not stream:
        return await model.reply(request)
    parts = [part async for part in model.stream(request)]
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == reply.text
    return reply


async def converse(model: OpenAIModel, *, stream: bool) -> list[ModelReply]:
    messages: list[ChatMessage] = [SystemMessage(text="Be brief."), UserMessage(text=ASK)]
    first = await ask(model, messages, stream=stream)
    messages.append(AssistantMessage(text=first.text, calls=first.calls))
    messages += [
        ToolMessage(call_id=call.id, name=call.name, text='{"celsius":-3}') for call in first.calls
    ]
    return [first, await ask(model, messages, stream=stream)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_conversation_is_the_same_whatever_the_provider(shape: str, stream: bool) -> None:
    async with ProviderServer(shape, SCRIPT) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        first, last = await converse(model, stream=stream)
        await model.aclose()

    cached = 0 if shape == "ollama" else 64  # Ollama reports none
    usage = Usage(prompt_tokens=120, completion_tokens=31, cached_tokens=cached)
    assert (first.text, first.finish_reason) == ("Let me look, 我来查。", "tool_calls")
    assert [(call.name, json.loads(call.arguments)) for call in first.calls] == [
        ("weather", {"city": "北京", "unit": "°C"}),
        ("weather", {"city": "Zürich"}),
    ]
    assert (first.usage, first.model) == (usage, "test-model")
    assert last.text == "霜 é 🥶: Zürich is colder."
    assert (last.calls, last.finish_reason, last.usage) == ((), "stop", usage)
    # The provider's own ids come back unchanged, in call and result.
    sent = cast("list[dict[str, object]]", server.requests[1]["messages"])
    calls = cast("list[dict[str, object]]", sent[2]["tool_calls"])
    ids = [SHAPES[shape].call_id.format(100 + place) for place in range(2)]
    assert [call["id"] for call in calls] == ids == [sent[n]["tool_call_id"] for n in (3, 4)]
    assert server.connections == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_the_official_client_reads_the_same(shape: str, stream: bool) -> None:
    async with ProviderServer(shape, SCRIPT[:1], in_order=True) as server:
        oracle = await official(server.url, stream=stream)
    async with ProviderServer(shape, SCRIPT[:1], in_order=True) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        reply = await ask(model, [UserMessage(text=ASK)], stream=stream)
        await model.aclose()

    choice, usage = oracle.choices[0], oracle.usage
    assert usage is not None
    assert reply.text == choice.message.content
    assert reply.finish_reason == choice.finish_reason
    assert reply.model == oracle.model
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
    )
    theirs = [call for call in choice.message.tool_calls or [] if call.type == "function"]
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        (call.id, call.function.name, call.function.arguments) for call in theirs
    ]


async def official(url: str, *, stream: bool) -> ChatCompletion:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        if not stream:
            return await client.chat.completions.create(
                model="test-model", messages=[{"role": "user", "content": ASK}]
            )
        async with client.chat.completions.stream(
            model="test-model",
            messages=[{"role": "user", "content": ASK}],
            stream_options={"include_usage": True},
        ) as chunks:
            return await chunks.get_final_completion()


@pytest.mark.parametrize("shape", ["deepseek", "qwen", "glm", "ollama"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_reasoning_is_kept_apart(shape: str, stream: bool) -> None:
    script = [{"reasoning": "先想一想。", "text": "Four."}]
    async with ProviderServer(shape, script) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        reply = await ask(model, [UserMessage(text="2+2?")], stream=stream)
        await model.aclose()

    assert (reply.reasoning, reply.text) == ("先想一想。", "Four.")


async def test_a_stream_that_comes_byte_by_byte_is_the_same() -> None:
    async with ProviderServer("qwen", [{**SCRIPT[0], "bytewise": True}]) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        reply = await ask(model, [UserMessage(text=ASK)], stream=True)
        await model.aclose()

    assert reply.text == "Let me look, 我来查。"
    assert json.loads(reply.calls[0].arguments) == {"city": "北京", "unit": "°C"}


async def test_a_connection_cut_in_mid_stream_keeps_what_had_come() -> None:
    async with ProviderServer("openai", [{"text": "abcdefgh", "cut_after": 900}]) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        with pytest.raises(ModelError) as caught:
            await ask(model, [UserMessage(text=ASK)], stream=True)
        await model.aclose()

    assert (caught.value.code, caught.value.retryable) == ("stream", True)
    assert caught.value.partial_text == "abcd"


async def test_a_connection_cut_after_done_is_no_fault() -> None:
    async with ProviderServer("openai", [{"text": "abc", "cut_after": 10**6}]) as server:
        model = OpenAIModel("test-model", base_url=server.url)
        reply = await ask(model, [UserMessage(text=ASK)], stream=True)
        await model.aclose()

    assert reply.text == "abc"


async def test_a_lent_pool_serves_several_models_and_stays_open() -> None:
    async with ProviderServer("openai", [{"text": "hi"}]) as server, httpx2.AsyncClient() as pool:
        for name in ("a", "b"):
            model = OpenAIModel(name, base_url=server.url, client=pool)
            await model.reply(ModelRequest(messages=[UserMessage(text="x")]))
            await model.aclose()

        assert not pool.is_closed
        assert server.connections == 1


async def test_a_connection_is_used_again_after_a_stream() -> None:
    async with ProviderServer("openai", [{"text": "hi"}]) as server:
        model = OpenAIModel("m", base_url=server.url)
        for _ in range(3):
            await ask(model, [UserMessage(text="x")], stream=True)
        await model.aclose()

        assert server.connections == 1


def test_the_server_runs_as_a_program(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    program = Path(__file__).parent.parent / "providers" / "server.py"
    command = [sys.executable, program, "--shape", "glm", "--script", script, "--log", log]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        answer = httpx2.post(f"{url}/chat/completions", json=body)
        process.kill()

    assert answer.json()["choices"][0]["message"]["content"] == "Let me look, 我来查。"
    assert json.loads(log.read_text(encoding="utf-8"))["body"] == body
