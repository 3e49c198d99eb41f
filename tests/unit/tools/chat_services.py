"""One HTTP server that plays what chat services document of their group bots.

Source:
    WeCom "群机器人配置说明": {"errcode": 0, "errmsg": "ok"}; 93000 for a wrong key, 45009 beyond
    20 messages a minute, 40058 for a text over 2048 bytes.
    Feishu "自定义机器人使用指南": {"code": 0, "msg": "success", "data": {}}; 19021 for a wrong
    signature, 11232 beyond the rate, 9499 for a body it cannot read.
    DingTalk "自定义机器人接入", "自定义机器人安全设置": {"errcode": 0, "errmsg": "ok"}; 310000 for
    a wrong signature, 130101 beyond 20 messages a minute, 300001 for a wrong token.
    Slack "Sending messages using incoming webhooks": `ok` as text; 400 invalid_payload, 403
    action_prohibited, 404 no_service, 429 with Retry-After.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs, urlsplit

KEY = "633a31f6-7f9c-4bc4-97a0-0ec1eefa5898"
SECRET = "SECab12cd34ef56"

Answer = tuple[int, dict[str, str], str]


class ChatServices(ThreadingHTTPServer):
    """Answers POST at the paths of the four services, and at `/hook`.

    Attributes:
        taken: The texts that were taken, in order; the whole body for `/hook`.
        headers: Of each request.
        next: Answers that come before the documented ones; an empty text drops the connection.
        now_s: The services' clock.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.next: list[Answer] = []
        self.now_s = 0.0

    def url(self, service: str) -> str:
        base = f"http://127.0.0.1:{self.server_port}"
        return {
            "wecom": f"{base}/cgi-bin/webhook/send?key={KEY}",
            "feishu": f"{base}/open-apis/bot/v2/hook/{KEY}",
            "dingtalk": f"{base}/robot/send?access_token={KEY}",
            "slack": f"{base}/services/T00000000/B00000000/{KEY}",
            "webhook": f"{base}/hook?token={KEY}",
        }[service]

    def answer(self, path: str, body: dict[str, object], raw: bytes) -> Answer:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path.split("/")[1]:
            case "cgi-bin":
                return self._wecom(query, body)
            case "open-apis":
                return self._feishu(body, raw)
            case "robot":
                return self._dingtalk(query, body, raw)
            case "services":
                return self._slack(parts.path, body)
            case _:
                self.taken.append(json.dumps(body, ensure_ascii=False))
                return 200, {}, '{"code": 0}'

    def _wecom(self, query: dict[str, str], body: dict[str, object]) -> Answer:
        if query.get("key") != KEY:
            said = f"invalid webhook url, hint: [1], key {query.get('key')}"
            return _code("errcode", 93000, "errmsg", said)
        kind = str(body["msgtype"])
        content = cast("dict[str, str]", body[kind])["content"]
        if len(content.encode()) > (2048 if kind == "text" else 4096):
            return _code("errcode", 40058, "errmsg", "content exceed max length")
        self.taken.append(content)
        return _code("errcode", 0, "errmsg", "ok")

    def _feishu(self, body: dict[str, object], raw: bytes) -> Answer:
        timestamp = str(body.get("timestamp", ""))
        signed = hmac.new(f"{timestamp}\n{SECRET}".encode(), digestmod=hashlib.sha256)
        if body.get("sign") != base64.b64encode(signed.digest()).decode():
            said = "sign match fail or timestamp is not within one hour from current time"
            return _code("code", 19021, "msg", said)
        if len(raw) > 20 * 1024:
            return _code("code", 9499, "msg", "Bad Request")
        if body["msg_type"] == "text":
            self.taken.append(cast("dict[str, str]", body["content"])["text"])
        else:
            card = cast("dict[str, list[dict[str, str]]]", body["card"])
            self.taken.append(card["elements"][0]["content"])
        return (
            200,
            {},
            '{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}',
        )

    def _dingtalk(self, query: dict[str, str], body: dict[str, object], raw: bytes) -> Answer:
        if query.get("access_token") != KEY:
            return _code("errcode", 300001, "errmsg", "token is not exist")
        timestamp = query.get("timestamp", "0")
        signed = hmac.new(SECRET.encode(), f"{timestamp}\n{SECRET}".encode(), hashlib.sha256)
        is_late = abs(int(timestamp) / 1000 - self.now_s) > 3600
        if is_late or query.get("sign") != base64.b64encode(signed.digest()).decode():
            return _code("errcode", 310000, "errmsg", "sign not match")
        if len(raw) > 20_000:
            return _code("errcode", 460101, "errmsg", "message too long")
        kind = str(body["msgtype"])
        content = cast("dict[str, str]", body[kind])
        self.taken.append(content["content" if kind == "text" else "text"])
        return _code("errcode", 0, "errmsg", "ok")

    def _slack(self, path: str, body: dict[str, object]) -> Answer:
        if path.rpartition("/")[2] != KEY:
            return 404, {}, "no_service"
        text = str(body.get("text", ""))
        if not text:
            return 400, {}, "no_text"
        self.taken.append(text)
        return 200, {}, "ok"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("ChatServices", self.server)
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        server.headers.append({name.lower(): value for name, value in self.headers.items()})
        body = json.loads(raw)
        server.bodies.append(body)
        status, headers, text = (
            server.next.pop(0) if server.next else server.answer(self.path, body, raw)
        )
        if not text:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def finish(self) -> None:
        if not self.connection._closed:
            super().finish()

    def log_message(self, format: str, *args: object) -> None: ...


def _code(name: str, code: int, word: str, said: str) -> Answer:
    return 200, {}, json.dumps({name: code, word: said})


@contextmanager
def serving() -> Generator[ChatServices]:
    """A server that answers until the block ends."""
    server = ChatServices()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
