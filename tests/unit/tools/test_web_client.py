import gzip
import shutil
import ssl
import subprocess
import zlib
from pathlib import Path

import anyio
import httpx2
import pytest

from hermes.errors import NotDone, ToolError
from hermes.tools.web.client import WebAnswer, WebClient, WebRequest, read_url
from hermes.tools.web.guard import WebPolicy
from tests.web import PUBLIC, Reply, Seen, Web

NAMES = {"one.example": [[PUBLIC]], "two.example": [[PUBLIC]]}


def get(url: str, **headers: str) -> WebRequest:
    return WebRequest(method="GET", url=read_url(url), headers=headers)


async def answered(reply: Reply, **bounds: float) -> WebAnswer:
    """What a client makes of one reply."""
    async with Web(lambda _: reply, names=NAMES) as web:
        client = web.client(
            timeout_s=bounds.get("timeout_s", 5), max_bytes=int(bounds.get("max_bytes", 1000))
        )
        return await client.send(get("http://one.example/"))


async def test_the_name_goes_to_the_server_and_the_checked_address_is_connected_to() -> None:
    async with Web(lambda _: Reply(body=b"here"), names=NAMES) as web:
        answer = await web.client().send(get("http://one.example:8080/a?q=中#part"))
    assert (answer.status, answer.body, answer.cut) == (200, b"here", "")
    assert web.seen[0].headers["host"] == "one.example:8080"
    assert web.seen[0].target == "/a?q=%E4%B8%AD"
    assert (web.asked, web.connected) == (["one.example"], [PUBLIC])


async def test_tls_is_asked_for_in_the_name_and_not_in_the_address() -> None:
    names: list[object] = []

    class Stop(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            names.append((request.url.host, request.extensions["sni_hostname"]))
            raise httpx2.ConnectError("enough")

    async def resolve(host: str, port: int) -> list[str]:
        return [PUBLIC]

    client = WebClient(WebPolicy(), resolve=resolve, new_transport=lambda _: Stop())
    with pytest.raises(NotDone):
        await client.send(get("https://one.example./"))
    assert names == [(PUBLIC, "one.example")]


async def test_the_next_address_is_tried_when_one_cannot_be_reached() -> None:
    names = {"one.example": [["2606:4700::1", PUBLIC]]}
    async with Web(lambda _: Reply(body=b"here"), names=names) as web:
        answer = await web.client().send(get("http://one.example/"))
        assert answer.body == b"here"
    assert web.connected == ["2606:4700::1", PUBLIC]


async def test_a_credential_stays_with_its_host() -> None:
    def answer(seen: Seen) -> Reply:
        if seen.path == "/start":
            return Reply(status=307, headers={"location": "/same"})
        if seen.path == "/same":
            return Reply(status=301, headers={"location": "http://two.example/other"})
        return Reply(headers={"set-cookie": "a=1"})

    async with Web(answer, names=NAMES) as web:
        request = get("http://one.example/start", authorization="Bearer s", accept="text/html")
        final = await web.client().send(request)
    assert str(final.url) == "http://two.example/other"
    assert [seen.headers.get("authorization") for seen in web.seen] == ["Bearer s"] * 2 + [None]
    assert web.seen[-1].headers["accept"] == "text/html"


async def test_no_cookie_is_kept() -> None:
    def answer(seen: Seen) -> Reply:
        cookie = {"set-cookie": "session=1"}
        if seen.path == "/":
            return Reply(status=302, headers={"location": "/next", **cookie})
        return Reply(headers=cookie)

    async with Web(answer, names=NAMES) as web:
        client = web.client()
        await client.send(get("http://one.example/"))
        await client.send(get("http://one.example/next"))
    assert not any("cookie" in seen.headers for seen in web.seen)


async def test_a_request_that_changes_something_follows_no_redirect() -> None:
    reply = Reply(status=307, headers={"location": "http://two.example/"})
    async with Web(lambda _: reply, names=NAMES) as web:
        request = WebRequest(method="POST", url=read_url("http://one.example/"), content=b"x")
        assert (await web.client().send(request)).status == 307
    assert len(web.seen) == 1


@pytest.mark.parametrize("size", [999, 1000])
async def test_a_body_up_to_the_cap_is_whole(size: int) -> None:
    answer = await answered(Reply(body=b"x" * size))
    assert (len(answer.body), answer.cut) == (size, "")


async def test_a_longer_body_is_cut_and_the_rest_left_unread() -> None:
    endless = b"HTTP/1.1 200 X\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 5000
    answer = await answered(Reply(raw=endless, hang=True))
    assert (len(answer.body), answer.cut) == (1000, "only the first 1000 bytes were read")


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
async def test_a_compressed_body_is_read(encoding: str) -> None:
    body = zlib.compress(b"text") if encoding == "deflate" else gzip.compress(b"text", mtime=0)
    answer = await answered(Reply(headers={"content-encoding": encoding}, body=body))
    assert (answer.body, answer.cut) == (b"text", "")


async def test_a_small_body_that_unpacks_to_a_huge_one_is_cut() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    answer = await answered(
        Reply(headers={"content-encoding": "gzip"}, body=bomb), max_bytes=60_000
    )
    assert (len(answer.body), answer.cut) == (60_000, "only the first 60000 bytes were read")


@pytest.mark.parametrize(
    ("encoding", "body", "cut"),
    [
        ("br", b"abc", "its compression 'br' cannot be read here"),
        ("gzip, gzip", b"abc", "its compression 'gzip, gzip' cannot be read here"),
        ("gzip", b"plain", "its compression is broken"),
        ("gzip", gzip.compress(b"text", mtime=0)[:-9], "its compressed form ends too early"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_says_so(encoding: str, body: bytes, cut: str) -> None:
    answer = await answered(Reply(headers={"content-encoding": encoding}, body=body))
    assert (answer.status, answer.cut) == (200, cut)


async def test_two_packed_parts_in_a_row_are_both_read() -> None:
    body = gzip.compress(b"one ", mtime=0) + gzip.compress(b"two")
    answer = await answered(Reply(headers={"content-encoding": "gzip"}, body=body))
    assert (answer.body, answer.cut) == (b"one two", "")


async def test_a_server_that_falls_silent_within_the_body_costs_the_rest_of_it() -> None:
    half = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf"
    answer = await answered(Reply(raw=half, hang=True), timeout_s=1)
    assert (answer.body, answer.cut) == (b"half", "the rest did not come within 1 s")


async def test_a_connection_that_breaks_within_the_body_costs_the_rest_of_it() -> None:
    half = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf"
    answer = await answered(Reply(raw=half))
    assert (answer.body, answer.cut) == (b"half", "the connection broke before the rest came")


async def test_a_server_that_says_nothing_is_a_timeout() -> None:
    with pytest.raises(TimeoutError, match=r"^one\.example did not answer within 1 s$"):
        await answered(Reply(raw=b"HTTP/1.1 ", hang=True), timeout_s=1)


async def test_a_server_that_hangs_up_may_have_done_it() -> None:
    with pytest.raises(ConnectionError, match=r"one\.example broke the connection before"):
        await answered(Reply(raw=b""))


async def test_who_does_not_listen_has_surely_done_nothing() -> None:
    client = WebClient(WebPolicy(allow=["127.0.0.1"]), timeout_s=5)
    with pytest.raises(NotDone, match=r"cannot reach 127\.0\.0\.1:9: .*; nothing was sent"):
        await client.send(get("http://127.0.0.1:9/secret?key=secret"))


async def test_a_time_that_is_over_before_the_connection_stands_is_surely_not_done() -> None:
    async def forever(host: str, port: int) -> list[str]:
        await anyio.sleep_forever()
        return []

    client = WebClient(WebPolicy(), timeout_s=0.05, resolve=forever)
    with pytest.raises(NotDone, match="nothing was sent"):
        await client.send(get("http://one.example/"))


async def test_a_certificate_of_somebody_else_is_an_error_for_good() -> None:
    class Wrong(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectError("no match") from ssl.SSLCertVerificationError("no match")

    client = WebClient(None, new_transport=lambda _: Wrong())
    with pytest.raises(ToolError, match="certificate of one.example does not hold") as caught:
        await client.send(get("https://one.example/"))
    assert (caught.value.code, caught.value.retryable) == ("bad_certificate", False)


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Web(lambda _: Reply(body=b"here")) as web:
        client = WebClient(WebPolicy(allow=[f"127.0.0.1:{web.port}"]))
        assert (await client.send(get(web.url))).body == b"here"


@pytest.mark.parametrize(
    "text",
    ["", "x", "/path", "http://", "http:///x", "ftp://x/", "javascript:alert(1)", "http://u@x/"]
    + ["http://u:p@x/", "http://[::1", "http://x:y/", "HTTP ://x/", "data:text/html,x"],
)
def test_what_is_no_address_of_the_web_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_url(text)
    assert caught.value.code == "bad_url"
    assert "u:p" not in str(caught.value)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for one.example, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl here to make a certificate with")
    file = tmp_path / "one.pem"
    new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=one"
    names = "subjectAltName=DNS:one.example"
    words = [openssl, *new.split(), "-addext", names, "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    file.write_bytes((tmp_path / "cert.pem").read_bytes() + (tmp_path / "key.pem").read_bytes())
    return file


@pytest.mark.parametrize(("name", "is_known"), [("one.example", True), ("two.example", False)])
async def test_a_certificate_has_to_be_that_of_the_name(
    name: str, is_known: bool, certificate: Path
) -> None:
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate)
    theirs = ssl.create_default_context(cafile=certificate)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with Web(lambda _: Reply(body=b"safe"), tls=ours) as web:
        client = WebClient(
            WebPolicy(allow=[f"127.0.0.1:{web.port}"]),
            timeout_s=5,
            resolve=resolve,
            new_transport=lambda _: httpx2.AsyncHTTPTransport(verify=theirs),
        )
        request = get(f"https://{name}:{web.port}/")
        if is_known:
            assert (await client.send(request)).body == b"safe"
        else:
            with pytest.raises(ToolError, match="certificate of two.example"):
                await client.send(request)
    assert len(web.seen) == is_known
