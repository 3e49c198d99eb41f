"""What providers do in truth, over real HTTP; and what the official client makes of the same."""

from __future__ import annotations

import openai
import pytest
from openai.types.chat import ChatCompletion

from hermes.core.chat import UserMessage
from hermes.errors import ModelError
from hermes.models import OpenAIModel
from hermes.models.base import ModelReply, ModelRequest, ReasoningDelta, StreamPart, TextDelta
from hermes.testing import FakeClock
from tests.providers.quirks import MODEL, Fails, Quirk, QuirkServer, Says
from tests.providers.quirks_calls import CALLS
from tests.providers.quirks_errors import ERRORS
from tests.providers.quirks_text import TEXTS
from tests.providers.quirks_usage import USAGES
from tests.providers.quirks_wire import WIRES

QUIRKS = [*CALLS, *TEXTS, *USAGES, *WIRES, *ERRORS]
FORMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
OURS = ("stop", "tool_calls", "length", "content_filter")

each = pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)


async def read(quirk: Quirk, *, stream: bool) -> Says | Fails:
    """What Hermes makes of a quirk."""
    async with QuirkServer([quirk.wire(stream=stream)]) as server:
        model = OpenAIModel(MODEL, base_url=server.url, timeout_s=20, clock=FakeClock())
        try:
            return said(await ask(model, stream=stream, late=quirk.late))
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


async def ask(model: OpenAIModel, *, stream: bool, late: bool = False) -> ModelReply:
    request = ModelRequest(messages=[UserMessage(text="2+2?")])
    if not stream:
        return await model.reply(request)
    parts: list[StreamPart] = [part async for part in model.stream(request)]
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    if not late:
        assert "".join(p.text for p in parts if isinstance(p, TextDelta)) == reply.text
        thoughts = "".join(p.text for p in parts if isinstance(p, ReasoningDelta))
        assert thoughts.strip() == reply.reasoning
    return reply


def said(reply: ModelReply) -> Says:
    usage = reply.usage
    if usage.estimated:
        # The budget still bites: an estimate is never nothing.
        assert usage.prompt_tokens > 0
        assert usage.completion_tokens > 0 or not (reply.text or reply.reasoning or reply.calls)
    figures = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    return Says(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple((call.id, call.name, call.arguments) for call in reply.calls),
        finish=reply.finish_reason,
        usage=None if usage.estimated else figures,
        model=reply.model,
    )


async def official(quirk: Quirk, *, stream: bool) -> ChatCompletion:
    """What the official client makes of a quirk."""
    async with (
        QuirkServer([quirk.wire(stream=stream)]) as server,
        openai.AsyncOpenAI(
            base_url=server.url, api_key="none", max_retries=0, timeout=20
        ) as client,
    ):
        if not stream:
            return await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "2+2?"}]
            )
        try:
            async with client.chat.completions.stream(
                model=MODEL,
                messages=[{"role": "user", "content": "2+2?"}],
                stream_options={"include_usage": True},
            ) as chunks:
                return await chunks.get_final_completion()
        except openai.LengthFinishReasonError as exc:
            return exc.completion


def differences(theirs: ChatCompletion, ours: Says) -> list[str]:
    """In what the official client reads a reply differently."""
    choice, usage = theirs.choices[0], theirs.usage
    message = choice.message
    calls = [
        (call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
        if call.type != "custom"
    ]
    if legacy := message.function_call:
        calls.append(("", legacy.name, legacy.arguments))
    word = str(choice.finish_reason) if choice.finish_reason else "unknown"
    figures = (usage.prompt_tokens, usage.completion_tokens) if usage else None
    seen = {
        "text": (message.content or "") + (message.refusal or "") == ours.text,
        "calls": tuple(calls) == ours.calls,
        "finish": word == ours.finish or word not in (*OURS, "unknown"),
        "usage": ours.usage is None or figures == ours.usage[:2],
        "model": (theirs.model or MODEL) == ours.model,
    }
    return [name for name, is_same in seen.items() if not is_same]


@each
@FORMS
async def test_a_quirk_ends_as_demanded(quirk: Quirk, stream: bool) -> None:
    got, demanded = await read(quirk, stream=stream), quirk.demanded(stream=stream)
    if isinstance(demanded, Says):
        assert got == demanded
        return
    assert isinstance(got, Fails)
    assert demanded.words in got.words
    assert (got.code, got.retryable, got.partial, got.wait_s) == (
        demanded.code,
        demanded.retryable,
        demanded.partial,
        demanded.wait_s,
    )


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
    except openai.OpenAIError as exc:
        found = [] if isinstance(demanded, Fails) else [repr(exc)]
    except Exception as exc:  # whatever it crashes with is how it differs
        found = [repr(exc)]
    assert bool(found) == bool(quirk.official(stream=stream)), found


def test_there_are_enough_quirks_and_each_is_told_from_the_others() -> None:
    names = [quirk.name for quirk in QUIRKS]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert all(quirk.source for quirk in QUIRKS)
    unexplained = [quirk.name for quirk in QUIRKS if quirk.demand_whole and not quirk.why_not]
    assert unexplained == []


@pytest.mark.parametrize("number", ["R001", "R003", "R008", "R009", "R010", "R011", "R012"])
def test_the_reports_on_calls_each_have_a_quirk(number: str) -> None:
    assert any(quirk.name.startswith(number) for quirk in QUIRKS)


@pytest.mark.parametrize("number", ["R013", "R014", "R015", "R021", "R058", "R059", "R060", "R086"])
def test_the_reports_on_replies_each_have_a_quirk(number: str) -> None:
    assert any(quirk.name.startswith(number) for quirk in QUIRKS)
