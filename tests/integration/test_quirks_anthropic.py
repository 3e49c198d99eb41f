"""What servers of the Messages API do in truth; and what the official client makes of the same."""

from __future__ import annotations

from dataclasses import replace

import anthropic
import pytest
from anthropic.types import Message

from hermes.core import json
from hermes.core.chat import UserMessage
from hermes.errors import ModelError
from hermes.models.anthropic import AnthropicModel
from hermes.models.anthropic_reply import STOP_REASONS
from hermes.models.base import ModelReply, ModelRequest, ReasoningDelta, StreamPart, TextDelta
from hermes.testing import FakeClock
from tests.providers.quirks import MODEL, Fails, Quirk, QuirkServer, Says
from tests.providers.quirks_anthropic import ANTHROPIC

each = pytest.mark.parametrize("quirk", ANTHROPIC, ids=lambda quirk: quirk.name)
FORMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def read(quirk: Quirk, *, stream: bool) -> Says | Fails:
    """What Hermes makes of a quirk."""
    async with QuirkServer([quirk.wire(stream=stream)]) as server:
        model = AnthropicModel(MODEL, base_url=server.origin, timeout_s=20, clock=FakeClock())
        try:
            return said(await ask(model, stream=stream))
        except ModelError as exc:
            return Fails(
                code=exc.code,
                retryable=exc.retryable,
                words=exc.message,
                partial=exc.partial_text,
                wait_s=exc.retry_after_s,
            )
        finally:
            await model.aclose()


async def ask(model: AnthropicModel, *, stream: bool) -> ModelReply:
    request = ModelRequest(messages=[UserMessage(text="2+2?")], max_output_tokens=100)
    if not stream:
        return await model.reply(request)
    parts: list[StreamPart] = [part async for part in model.stream(request)]
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(p.text for p in parts if isinstance(p, TextDelta)) == reply.text
    thoughts = "".join(p.text for p in parts if isinstance(p, ReasoningDelta))
    assert thoughts == reply.reasoning
    return reply


def said(reply: ModelReply) -> Says:
    usage = reply.usage
    figures = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    return Says(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple((call.id, call.name, call.arguments) for call in reply.calls),
        finish=reply.finish_reason,
        usage=None if usage.estimated else figures,
        model=reply.model,
    )


def compact(demanded: Says) -> Says:
    """The same with the arguments written as JSON is written shortest."""
    calls = tuple(
        (id_, name, json.dumps(json.loads(raw.encode()))) for id_, name, raw in demanded.calls
    )
    return replace(demanded, calls=calls)


async def official(quirk: Quirk, *, stream: bool) -> Message:
    """What the official client makes of a quirk."""
    async with (
        QuirkServer([quirk.wire(stream=stream)]) as server,
        anthropic.AsyncAnthropic(
            base_url=server.origin, api_key="none", max_retries=0, timeout=20
        ) as client,
    ):
        if not stream:
            return await client.messages.create(
                model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "2+2?"}]
            )
        async with client.messages.stream(
            model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "2+2?"}]
        ) as events:
            return await events.get_final_message()


def differences(theirs: Message, ours: Says) -> list[str]:
    """In what the official client reads a message differently."""
    text = "".join(block.text for block in theirs.content if block.type == "text")
    thoughts = "".join(block.thinking for block in theirs.content if block.type == "thinking")
    calls = tuple(
        (block.id, block.name, json.dumps(block.input))
        for block in theirs.content
        if block.type == "tool_use"
    )
    usage = theirs.usage
    seen = {
        "text": text == ours.text,
        "reasoning": thoughts == ours.reasoning,
        "calls": calls == compact(ours).calls,
        "finish": STOP_REASONS.get(str(theirs.stop_reason), "unknown") == ours.finish,
        "usage": ours.usage is None
        or ours.usage
        == (
            usage.input_tokens
            + (usage.cache_read_input_tokens or 0)
            + (usage.cache_creation_input_tokens or 0),
            usage.output_tokens,
            usage.cache_read_input_tokens or 0,
        ),
        "model": theirs.model == ours.model,
    }
    return [name for name, is_same in seen.items() if not is_same]


@each
@FORMS
async def test_a_quirk_ends_as_demanded(quirk: Quirk, stream: bool) -> None:
    got, demanded = await read(quirk, stream=stream), quirk.demanded(stream=stream)
    if isinstance(demanded, Says):
        assert isinstance(got, Says)
        assert compact(got) == compact(demanded)
        return
    assert isinstance(got, Fails)
    assert demanded.words in got.words
    assert replace(got, words="") == replace(demanded, words="")


# The official client's models say so when they hold another type than they promise.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@each
@FORMS
async def test_the_official_client_reads_the_same_or_we_say_why_not(
    quirk: Quirk, stream: bool
) -> None:
    demanded = quirk.demanded(stream=stream)
    try:
        theirs = await official(quirk, stream=stream)
        found = ["it succeeds"] if isinstance(demanded, Fails) else differences(theirs, demanded)
    except anthropic.AnthropicError as exc:
        found = [] if isinstance(demanded, Fails) else [repr(exc)]
    except Exception as exc:  # whatever it crashes with is how it differs
        found = [repr(exc)]
    assert bool(found) == bool(quirk.official(stream=stream)), found


def test_there_are_enough_quirks_and_each_is_told_from_the_others() -> None:
    names = [quirk.name for quirk in ANTHROPIC]
    assert len(names) >= 12
    assert len(set(names)) == len(names)
    assert all(quirk.source for quirk in ANTHROPIC)
