"""Proxies and certificates: a real proxy and a real TLS server, on loopback."""

import asyncio
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest

from hermes.core.chat import UserMessage
from hermes.errors import ConfigError, ModelError
from hermes.models import ClientPool, ModelRequest, OpenAIModel
from tests.certificates import tls
from tests.servers import let_in
from tests.web import Reply, Seen, Web

ASK = ModelRequest(messages=[UserMessage(text="hi")])
SECRET = "hunter2hunter2"
ANSWER = b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}'


def chat(_: Seen) -> Reply:
    return Reply(headers={"content-type": "application/json"}, body=ANSWER)


class Proxy:
    """Lets everything through to one port, whatever host was asked for.

    Attributes:
        heads: The first lines and headers of the requests to the proxy itself.
    """

    def __init__(self, to: int, *, status: int = 200) -> None:
        self._to, self._status = to, status
        self.heads: list[str] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._open: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await let_in()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://user:{SECRET}@127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            if self._status != 200:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
            self._open.add(far_writer)
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far_writer.write(head)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            self._open.discard(writer)
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # one side has gone
    finally:
        writer.close()


@asynccontextmanager
async def asked(url: str, **options: object) -> AsyncGenerator[OpenAIModel]:
    pool = ClientPool(timeout_s=5, **options)  # pyright: ignore[reportArgumentType]  # the options of each test
    try:
        yield OpenAIModel("m", base_url=url, api_key="sk-verysecret", client=pool)
    finally:
        await pool.aclose()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_the_environment_names_a_proxy(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async with Web(chat) as web, Proxy(web.port) as proxy:
        monkeypatch.setenv(name, proxy.url)
        async with asked("http://models.test:8000/v1?key=in-the-query") as model:
            assert (await model.reply(ASK)).text == "hello"

    first = proxy.heads[0].splitlines()[0]
    assert first.startswith("POST http://models.test:8000/v1/chat/completions?key=in-the-query ")


async def test_no_proxy_of_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Web(chat) as web, Proxy(web.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        async with asked(web.url) as model:
            assert (await model.reply(ASK)).text == "hello"

    assert proxy.heads == []


@pytest.mark.parametrize("through", ["the proxy", "no proxy"])
async def test_no_cookie_is_kept_and_no_redirect_followed(through: str) -> None:
    replies = [
        Reply(headers={"content-type": "application/json", "set-cookie": "who=me"}, body=ANSWER),
        Reply(status=302, headers={"location": "http://127.0.0.1:9/elsewhere"}),
    ]
    async with Web(lambda _: replies.pop(0)) as web, Proxy(web.port) as proxy:
        here, there = (web.url, None), ("http://models.test/v1", proxy.url)
        url, by = there if through == "the proxy" else here
        async with asked(url, proxy=by) as model:
            await model.reply(ASK)
            with pytest.raises(ModelError, match="302"):
                await model.reply(ASK)

    assert len(web.seen) == 2
    assert "cookie" not in web.seen[1].headers


async def test_an_https_server_is_reached_through_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    async with Web(chat, tls=tls(certificate)) as web, Proxy(web.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with asked("https://models.test/v1", ca_file=certificate) as model:
            assert (await model.reply(ASK)).text == "hello"

    assert proxy.heads[0].startswith("CONNECT models.test:443 ")
    assert "sk-verysecret" not in proxy.heads[0]
    assert web.seen[0].headers["authorization"] == "Bearer sk-verysecret"


async def test_the_proxy_that_is_set_holds_but_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with Web(chat) as web, Proxy(web.port) as proxy:
        async with asked("http://models.test/v1", proxy=proxy.url) as model:
            assert (await model.reply(ASK)).text == "hello"
        assert len(proxy.heads) == 1
        async with asked(web.url, proxy=proxy.url) as model:
            assert (await model.reply(ASK)).text == "hello"

    assert len(proxy.heads) == 1


async def test_a_proxy_that_refuses_is_told_without_its_password(certificate: Path) -> None:
    async with Proxy(1, status=407) as proxy:
        async with asked("https://models.test/v1", proxy=proxy.url) as model:
            with pytest.raises(ModelError) as caught:
                await model.reply(ASK)

    assert caught.value.code == "unreachable"
    assert "the proxy does not let through" in str(caught.value)
    assert "HERMES_PROXY" in caught.value.hint
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("proxy", [f"ftp://user:{SECRET}@h", f"user:{SECRET}", "", "http://"])
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(ConfigError, match="HERMES_PROXY cannot be used") as caught:
        ClientPool(proxy=proxy)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_server_of_one_s_own_authority_is_trusted_by_its_file(certificate: Path) -> None:
    async with Web(chat, tls=tls(certificate)) as web:
        url = f"https://localhost:{web.port}/v1"
        async with asked(url, ca_file=certificate) as model:
            assert (await model.reply(ASK)).text == "hello"


async def test_without_the_file_the_server_is_refused_and_the_setting_named(
    certificate: Path,
) -> None:
    async with Web(chat, tls=tls(certificate)) as web:
        async with asked(f"https://localhost:{web.port}/v1") as model:
            with pytest.raises(ModelError, match="not trusted") as caught:
                await model.reply(ASK)

    assert "HERMES_CA_FILE" in caught.value.hint
    assert not caught.value.retryable
    assert web.seen == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"HERMES_CA_FILE: .*ca\.pem"):
        ClientPool(ca_file=path)
