"""What goes over the wire and what comes back as an error; the server is real, on loopback."""

import asyncio
import gc
import json
import logging
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime

import anyio
import httpx2
import pytest

from hermes.core.chat import UserMessage
from hermes.errors import ConfigError, ModelError
from hermes.models import ModelRequest, OpenAIModel
from hermes.models.http import endpoint
from hermes.testing import FakeClock
from tests.providers.server import Object, ProviderServer

KEY = "sk-verysecret-0123456789"
ASK = ModelRequest(messages=[UserMessage(text="hi")])


@asynccontextmanager
async def served(
    *script: Object, key: str | None = KEY, timeout_s: float = 5.0, clock: FakeClock | None = None
) -> AsyncGenerator[tuple[ProviderServer, OpenAIModel]]:
    async with ProviderServer("openai", script, in_order=True) as server:
        model = OpenAIModel(
            "m-1", base_url=server.url, api_key=key, timeout_s=timeout_s, clock=clock
        )
        try:
            yield server, model
        finally:
            await model.aclose()


async def fault(model: OpenAIModel, *, stream: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        if stream:
            async for _ in model.stream(ASK):
                pass
        else:
            await model.reply(ASK)
    return caught.value


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/", "http://h:1/v1/chat/completions"),
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        (" https://h/v1/chat/completions/ ", "https://h/v1/chat/completions"),
        (
            "https://open.bigmodel.cn/api/paas/v4",
            "https://open.bigmodel.cn/api/paas/v4/chat/completions",
        ),
        ("https://h/v1?api-version=2", "https://h/v1/chat/completions"),
        ("https://user:word@h/v1", "https://h/v1/chat/completions"),
    ],
)
def test_any_form_of_base_url_leads_to_chat_completions(base_url: str, url: str) -> None:
    assert endpoint(base_url, suffix="/chat/completions", default_prefix="/v1").url == url


@pytest.mark.parametrize(
    "base_url", ["localhost:8000/v1", "ftp://h/v1", "http://", "h", "http://h:x"]
)
def test_what_is_no_http_address_is_refused_with_the_settings_name(base_url: str) -> None:
    with pytest.raises(ConfigError, match="API_BASE"):
        OpenAIModel("m", base_url=base_url)


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ä", "sk a"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigError, match="API_KEY cannot be sent") as caught:
        OpenAIModel("m", base_url="http://h", api_key=key)
    assert key not in str(caught.value)


async def test_a_key_is_sent_as_a_bearer_token() -> None:
    async with served({"text": "a"}, key=f" {KEY}\n") as (server, model):
        await model.reply(ASK)
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["content-type"] == "application/json"


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_without_a_key_no_authorization_is_sent(key: str | None) -> None:
    async with served({"text": "a"}, key=key) as (server, model):
        assert (await model.reply(ASK)).text == "a"
    assert "authorization" not in server.headers[0]


async def test_a_query_goes_to_the_server_and_a_user_becomes_a_header() -> None:
    async with ProviderServer("openai", [{"text": "a"}]) as server:
        base = server.url.replace("//", "//me:pass@") + "?api-version=3"
        model = OpenAIModel("m", base_url=base)
        await model.reply(ASK)
        await model.aclose()
    assert server.paths == ["/v1/chat/completions?api-version=3"]
    assert server.headers[0]["authorization"] == "Basic bWU6cGFzcw=="


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable", "words"),
    [
        (400, {"error": {"message": "bad thing"}}, "bad_request", False, "(400): bad thing"),
        (401, {"error": {"message": "no"}}, "auth", False, "refused the key (401): no"),
        (402, {"error": {"message": "Insufficient Balance"}}, "auth", False, "paid first (402)"),
        (403, "", "auth", False, "refused the key (403)"),
        (404, {"error": {"message": "model 'm-1' not found"}}, "unknown_model", False, "not found"),
        (404, "<html>nginx</html>", "bad_request", False, "at /v1/chat/completions (404)"),
        (408, "", "timeout", True, "(408)"),
        (413, "too big", "bad_request", False, "(413): too big"),
        (422, {"detail": [{"loc": ["body"]}]}, "bad_request", False, '[{"loc":["body"]}]'),
        (429, {"error": {"message": "slow"}}, "rate_limited", True, "(429): slow"),
        (
            429,
            {"error": {"message": "quota", "code": "insufficient_quota"}},
            "rate_limited",
            False,
            "quota [insufficient_quota]",
        ),
        (500, {"error": "oops"}, "server", True, "failed (500): oops"),
        (503, {"message": "loading", "object": "error"}, "server", True, "(503): loading"),
        (529, {"error": {"msg": "busy", "type": "over"}}, "server", True, "busy [over]"),
        (307, "", "bad_request", False, "redirect"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_refusal_says_what_and_where(
    status: int, body: object, code: str, retryable: bool, words: str, stream: bool
) -> None:
    async with served({"status": status, "body": body}) as (_, model):
        error = await fault(model, stream=stream)
    assert (error.code, error.retryable) == (code, retryable)
    assert words in error.message
    assert "127.0.0.1" in error.message


async def test_a_refused_key_names_model_host_and_variable() -> None:
    async with served({"status": 401, "body": ""}) as (server, model):
        error = await fault(model)
    host = server.url.removeprefix("http://").removesuffix("/v1")
    assert error.message == f"model 'm-1' at {host} refused the key (401)"
    assert "API_KEY" in error.hint


async def test_a_long_refusal_is_shortened() -> None:
    async with served({"status": 400, "body": "x" * 100_000}) as (_, model):
        assert len((await fault(model)).message) < 400


@pytest.mark.parametrize(
    ("header", "value", "seconds"),
    [
        ("retry-after", "7", 7.0),
        ("retry-after", "1.5", 1.5),
        ("retry-after-ms", "250", 0.25),
        ("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("retry-after", "Thu, 01 Jan 2026 00:00:30", None),
        ("retry-after", "Mon, 01 Jan 2024 00:00:00 GMT", 0.0),
        ("retry-after", "-3", None),
        ("retry-after", "nan", None),
        ("retry-after", "inf", None),
        ("retry-after-ms", "nan", None),
        ("retry-after", "1e30", 1e9),
        ("retry-after", "soon", None),
        ("x-other", "1", None),
    ],
)
async def test_retry_after_is_read_in_every_form(
    header: str, value: str, seconds: float | None
) -> None:
    refusal = {"status": 429, "body": "", "headers": {header: value}}
    async with served(refusal, clock=FakeClock(datetime(2026, 1, 1, tzinfo=UTC))) as (_, model):
        assert (await fault(model)).retry_after_s == seconds


async def test_a_page_of_html_with_status_200_is_no_reply() -> None:
    async with served({"raw": "<html>hello</html>", "kind": "text/html"}) as (_, model):
        error = await fault(model)
    assert (error.code, error.retryable) == ("bad_reply", False)
    assert "text/html" in error.message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_server_that_is_not_there(stream: bool) -> None:
    async with ProviderServer("openai", []) as server:
        url = server.url
    model = OpenAIModel("m", base_url=url)
    error = await fault(model, stream=stream)
    await model.aclose()
    assert (error.code, error.retryable) == ("unreachable", True)
    assert "API_BASE" in error.hint


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_silent_server_times_out(stream: bool) -> None:
    async with served({"wait": True}, timeout_s=0.05) as (_, model):
        error = await fault(model, stream=stream)
    assert (error.code, error.retryable) == ("timeout", True)
    assert "silent for 0.05 s" in error.message


async def test_a_whole_reply_that_is_cut_off_may_be_asked_for_again() -> None:
    async with served({"text": "abcdefgh", "cut_after": 50}) as (_, model):
        error = await fault(model)
    assert (error.code, error.retryable) == ("unreachable", True)


async def test_a_reply_that_does_not_end_is_given_up() -> None:
    async def flood(request: httpx2.Request) -> httpx2.Response:
        async def body() -> AsyncIterator[bytes]:
            while True:
                yield b" " * 2**20

        return httpx2.Response(200, content=body())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(flood)) as client:
        error = await fault(OpenAIModel("m", base_url="http://h", client=client))
    assert error.code == "bad_reply"
    assert "more than 32 MiB" in error.message


async def test_cancelling_a_request_leaves_the_model_usable() -> None:
    async with served({"wait": True}, {"text": "again"}) as (server, model):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.reply, ASK)
            while not server.requests:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert (await model.reply(ASK)).text == "again"


async def test_a_stream_may_be_left_in_the_middle() -> None:
    async with served({"text": "abcdefgh"}, {"text": "again"}) as (_, model):
        async with aclosing(model.stream(ASK)) as stream:
            await anext(stream)
        assert (await model.reply(ASK)).text == "again"


async def test_a_closed_model_opens_again() -> None:
    async with served({"text": "a"}, {"text": "b"}) as (_, model):
        await model.reply(ASK)
        await model.aclose()
        await model.aclose()
        assert (await model.reply(ASK)).text == "b"


# The first loop ends with its connection open: that is what happens to two `run_sync`.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_model_outlives_its_event_loop() -> None:
    models: list[OpenAIModel] = []

    async def once(port: int) -> int:
        async with ProviderServer("openai", [{"text": "a"}], port=port) as server:
            if not models:
                models.append(OpenAIModel("m", base_url=server.url))
            assert (await models[0].reply(ASK)).text == "a"
            return server.port

    port = asyncio.run(once(0))
    assert asyncio.run(once(port)) == port
    models.clear()
    gc.collect()


FAULTS: list[Object] = [
    {"status": 400, "body": {"error": {"message": f"bad {KEY} and querysecret1"}}},
    {"status": 401, "body": {"error": {"message": f"Incorrect API key provided: {KEY}"}}},
    {"status": 404, "body": f"nothing for {KEY}"},
    {"status": 503, "body": f"{KEY} is unavailable"},
    {"raw": f"<html>{KEY} querysecret1</html>"},
    {"raw": f'{{"error":{{"message":"{KEY}"}}}}'},
    {"raw": f"data: {KEY}\n\n"},
    {"text": "abcdefgh", "cut_after": 40},
    {"wait": True},
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("scripted", FAULTS)
async def test_no_secret_gets_into_errors_or_logs(
    scripted: Object, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with ProviderServer("openai", [scripted]) as server:
        base = server.url.replace("//", "//me:urlpassword1@") + "?key=querysecret1"
        model = OpenAIModel("m-1", base_url=base, api_key=KEY, timeout_s=0.2)
        error = await fault(model, stream=stream)
        await model.aclose()

    seen = "".join(traceback.format_exception(error)) + repr(error) + repr(model) + caplog.text
    chain: BaseException | None = error
    while chain is not None:
        seen += repr(chain) + repr(vars(chain))
        chain = chain.__cause__ or chain.__context__
    assert "127.0.0.1" in seen
    for secret in (KEY, "verysecret", "querysecret1", "urlpassword1"):
        assert secret not in seen


def test_importing_models_loads_no_http_client_and_no_template_engine() -> None:
    heavy = "{'httpx2', 'jinja2', 'yaml'}"
    program = f"import sys, hermes.models; print(sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 5000 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Range of input length should be [1, 30720]",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
async def test_a_request_that_is_too_long_names_the_setting_of_the_window(words: str) -> None:
    body = json.dumps({"error": {"message": words, "code": None}})
    async with served({"status": 400, "body": body}) as (_, model):
        error = await fault(model)
    assert (error.code, error.retryable) == ("context_length", False)
    assert "HERMES_CONTEXT_WINDOW" in error.hint
