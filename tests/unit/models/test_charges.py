"""A reply that breaks off is estimated, since its provider may charge it; errors say what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes.core.chat import Usage, UserMessage, estimate_tokens
from hermes.errors import ModelError
from hermes.models import Model, ModelRequest, OpenAIModel
from hermes.models.anthropic import AnthropicModel
from hermes.models.charges import charge_of
from hermes.models.profiles import Prices, Profile
from hermes.models.retrying import RetryingModel
from tests.web import Reply, Web

ASK = ModelRequest(messages=[UserMessage(text="hi")])
PROFILE = Profile(name="m", prices=Prices(prompt=1.0, completion=2.0))
WORDS = "half an answer that nobody will ever read to its end"
SSE, JSON = {"content-type": "text/event-stream"}, {"content-type": "application/json"}
CHAT = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{WORDS}"}}}}]}}\n\n'
BEGUN = (
    'data: {"type":"message_start","message":{"usage":{"input_tokens":70,"output_tokens":1}}}\n\n'
    'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\n\n'
    'data: {"type":"content_block_delta","index":0,'
    f'"delta":{{"type":"text_delta","text":"{WORDS}"}}}}\n\n'
)
WHOLE = (
    '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}'
)
MESSAGE = '{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]}'
Open = Callable[[str], Model]


def chat(url: str) -> Model:
    return OpenAIModel("m", base_url=f"{url}/v1", profile=PROFILE)


def messages(url: str) -> Model:
    return AnthropicModel("m", base_url=url, profile=PROFILE)


async def failing(
    opened: Open, reply: Reply, *, is_streamed: bool = True
) -> tuple[ModelError, Web]:
    """The error that a reply ends in, and the server that gave it; no time passes between tries."""

    async def no_wait(_: float) -> None: ...

    async with Web(lambda _: reply) as web:
        model = RetryingModel(opened(web.url), sleep=no_wait)
        with pytest.raises(ModelError) as caught:
            if is_streamed:
                assert [part async for part in model.stream(ASK)]
            else:
                await model.reply(ASK)
        await model.aclose()
    return caught.value, web


def cut(body: str, kind: dict[str, str]) -> Reply:
    """A reply that ends before it is whole."""
    return Reply(headers={**kind, "content-length": "100000"}, body=body.encode())


@pytest.mark.parametrize(
    ("opened", "body"), [(chat, CHAT), (messages, BEGUN)], ids=["chat", "messages"]
)
async def test_a_stream_that_breaks_in_the_middle_is_charged_by_an_estimate(
    opened: Open, body: str
) -> None:
    error, web = await failing(opened, cut(body, SSE))
    asked = 70 if opened is messages else estimate_tokens(web.seen[0].body.decode())
    written = estimate_tokens(WORDS)
    assert charge_of(error) == Usage(
        prompt_tokens=asked,
        completion_tokens=written,
        cost_nano=(asked + 2 * written) * 1000,
        estimated=True,
    )
    assert (error.partial_text, len(web.seen)) == (WORDS, 1)
    assert "what had come is kept; do the task anew with `hermes retry`" in error.hint


async def test_a_whole_reply_that_breaks_off_is_charged_too() -> None:
    error, web = await failing(chat, cut(WHOLE[:40], JSON), is_streamed=False)
    usage = charge_of(error)
    assert usage.prompt_tokens == estimate_tokens(web.seen[0].body.decode())
    assert (usage.completion_tokens, usage.estimated, len(web.seen)) == (10, True, 5)
    assert usage.cost_nano


async def test_a_reply_that_its_provider_broke_off_is_charged_too() -> None:
    body = WHOLE.replace('"stop"', '"network_error"')
    error, _ = await failing(chat, Reply(headers=JSON, body=body.encode()), is_streamed=False)
    assert charge_of(error).completion_tokens == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=500, body=b"{}"),
        cut("", SSE),
        cut("\n \n", JSON),
        Reply(headers=SSE, body=b'data: {"error":{"message":"overloaded","code":503}}\n\n'),
    ],
    ids=["refused", "nothing came", "only kept alive", "an error first"],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_had_not_begun_is_not_charged(reply: Reply, *, is_streamed: bool) -> None:
    if is_streamed or b"data" not in reply.body:
        error, _ = await failing(chat, reply, is_streamed=is_streamed)
        assert charge_of(error) == Usage()


@pytest.mark.parametrize(
    ("opened", "body", "hint"),
    [
        (messages, WHOLE, "set MODEL_NAME=m, without `anthropic:`"),
        (messages, CHAT, "set MODEL_NAME=m, without `anthropic:`"),
        (chat, MESSAGE, "set MODEL_NAME=anthropic:m"),
        (chat, BEGUN, "set MODEL_NAME=anthropic:m"),
    ],
    ids=["chat as messages", "its stream", "messages as chat", "their stream"],
)
async def test_a_server_of_the_other_api_is_asked_once_and_named(
    opened: Open, body: str, hint: str
) -> None:
    is_streamed = body.startswith("data")
    reply = Reply(headers=SSE if is_streamed else JSON, body=body.encode())
    error, web = await failing(opened, reply, is_streamed=is_streamed)
    assert "answered in the form of" in error.message
    assert (error.code, error.retryable, error.hint, len(web.seen)) == ("bad_reply", False, hint, 1)


@pytest.mark.parametrize(
    ("opened", "hint"),
    [(messages, "MODEL_NAME=m, without `anthropic:`"), (chat, "MODEL_NAME=anthropic:m")],
    ids=["messages", "chat"],
)
async def test_a_404_is_asked_once_and_says_how_the_other_api_is_named(
    opened: Open, hint: str
) -> None:
    error, web = await failing(opened, Reply(status=404, body=b'{"detail":"Not Found"}'))
    assert (hint in error.hint, len(web.seen)) == (True, 1)


@pytest.mark.parametrize(
    ("reply", "hint"),
    [
        (Reply(status=429), "HERMES_MODEL_RPM"),
        (
            Reply(status=429, body=b'{"error":{"message":"x","code":"insufficient_quota"}}'),
            "the balance",
        ),
        (Reply(status=500), "do the task anew with `hermes retry`"),
        (Reply(status=408), "do the task anew with `hermes retry`"),
        (Reply(headers=JSON, body=b"{}"), "speaks chat completions"),
        (Reply(headers=JSON, body=b'{"error":{"type":"server_error"}}'), "HERMES_MODEL_FALLBACK"),
    ],
    ids=["429", "spent", "500", "408", "no choice", "error in 200"],
)
async def test_what_is_given_up_says_what_to_do_next(reply: Reply, hint: str) -> None:
    error, _ = await failing(chat, reply, is_streamed=False)
    assert hint in error.hint


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7.0),
        ("1e300", 1e9),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2001 00:00:00", None),
        ("-1", None),
        ("nan", None),
        ("soon", None),
    ],
)
async def test_a_wait_is_read_or_there_is_none(told: str, seconds: float | None) -> None:
    body = b'{"error":{"message":"insufficient_quota"}}'
    error, _ = await failing(chat, Reply(status=429, headers={"retry-after": told}, body=body))
    assert error.retry_after_s == seconds
