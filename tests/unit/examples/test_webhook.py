import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import cast

import pytest

from examples.log_report import tools
from examples.log_report.receiver import Inbox, Receiver
from hermes import NotDone, ToolError


@contextmanager
def serving(server: HTTPServer) -> Generator[None]:
    """Answer requests in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(status: int, body: bytes = b"{}") -> Generator[str]:
    """The address of a server that answers every POST alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}/hook?key=secret"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "received.jsonl"


@pytest.fixture
def receiver(inbox: Path) -> Generator[str]:
    server = Receiver(0, Inbox(inbox))
    with serving(server):
        yield server.address


def lines_of(path: Path) -> list[dict[str, object]]:
    text = path.read_text(encoding="utf-8")
    return [cast("dict[str, object]", json.loads(line)) for line in text.splitlines()]


async def test_a_message_arrives_as_it_was_sent(receiver: str, inbox: Path) -> None:
    sent = await tools.send_webhook(receiver, "nginx-report-2026-11-29", "五类错误\n2×")

    assert (sent.status, sent.duplicate) == (200, False)
    assert lines_of(inbox) == [
        {"message_id": "nginx-report-2026-11-29", "text": "五类错误\n2×", "duplicate": False}
    ]


async def test_a_repeated_message_is_known_even_to_a_receiver_that_began_anew(inbox: Path) -> None:
    for is_known in (False, True):
        server = Receiver(0, Inbox(inbox))
        with serving(server):
            sent = await tools.send_webhook(server.address, "one", "text")
        assert sent.duplicate is is_known

    assert [line["duplicate"] for line in lines_of(inbox)] == [False, True]


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(500, True), (503, True), (429, True), (400, False), (404, False), (301, False)],
)
async def test_a_refusal_says_whether_to_try_again(status: int, retryable: bool) -> None:
    with answering(status) as url:
        with pytest.raises(ToolError, match=f"http://127.0.0.1:\\d+ answered {status}") as caught:
            await tools.send_webhook(url, "one", "text")

    assert caught.value.retryable is retryable
    assert caught.value.code == f"http_{status}"
    assert "secret" not in str(caught.value)


async def test_a_refusal_inside_a_good_answer_is_a_refusal() -> None:
    body = b'{"errcode": 93000, "errmsg": "invalid webhook url"}'
    with answering(200, body) as url:
        with pytest.raises(ToolError, match="refused the message: 93000 invalid webhook url"):
            await tools.send_webhook(url, "one", "text")


@pytest.mark.parametrize("body", [b"", b"ok", b"[1]", b"\xff", b'{"errcode": 0}', b"x" * 100_000])
async def test_any_other_good_answer_is_a_delivery(body: bytes) -> None:
    with answering(200, body) as url:
        sent = await tools.send_webhook(url, "one", "text")

    assert not sent.duplicate


async def test_a_refused_connection_had_no_effect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = cast("int", server.getsockname()[1])

    with pytest.raises(NotDone, match=f"cannot connect to http://127.0.0.1:{port}") as caught:
        await tools.send_webhook(f"http://127.0.0.1:{port}/hook?key=secret", "one", "text")

    assert "secret" not in str(caught.value)


async def test_a_server_that_does_not_answer_in_time_may_be_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = cast("int", server.getsockname()[1])
        with pytest.raises(ToolError, match=f"no answer from http://127.0.0.1:{port}") as caught:
            await tools.send_webhook(f"http://127.0.0.1:{port}/", "one", "text", timeout_s=0.05)

    assert caught.value.retryable
    assert not isinstance(caught.value, NotDone)


@pytest.mark.parametrize("url", ["", "ops webhook", "ftp://host/", "http://", "http://[::1"])
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="url") as caught:
        await tools.send_webhook(url, "one", "text")

    assert caught.value.code == "argument"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("Content-Length: 3", "[1]", 400),
        ("Content-Length: 4", "oops", 400),
        ("Content-Length: 99999999", "", 413),
        ("Content-Length: many", "", 413),
    ],
)
def test_the_receiver_refuses_what_is_no_message(
    receiver: str, inbox: Path, head: str, body: str, status: int
) -> None:
    port = int(receiver.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
        reply = connection.recv(1000).decode()

    assert reply.split()[1] == str(status)
    assert not inbox.exists()
