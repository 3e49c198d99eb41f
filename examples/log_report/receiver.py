"""A webhook for trying things out: prints its address, keeps every message in a file.

Usage: python receiver.py [--port 0] [--log received.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

_MAX_BODY_BYTES = 1_000_000


class Inbox:
    """Messages by `message_id`, one JSON line each in a file; safe for several threads.

    A message that comes again is kept too, marked `"duplicate": true`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._times: Counter[str] = Counter()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._times[str(json.loads(line)["message_id"])] += 1

    def take(self, message: dict[str, object]) -> dict[str, object]:
        """Keep a message on the disk; returns the answer for its sender."""
        message_id = str(message.get("message_id", ""))
        with self._lock:
            is_duplicate = self._times[message_id] > 0
            line = json.dumps(
                {**message, "message_id": message_id, "duplicate": is_duplicate},
                ensure_ascii=False,
            )
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
            self._times[message_id] += 1
            return {"duplicate": is_duplicate, "times": self._times[message_id]}


class Receiver(ThreadingHTTPServer):
    """Answers POST with JSON objects on any path of a loopback port."""

    daemon_threads = True

    def __init__(self, port: int, inbox: Inbox) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.inbox = inbox

    @property
    def address(self) -> str:
        """Where to post to."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _MAX_BODY_BYTES:
            self._answer(413, {"error": f"send Content-Length, at most {_MAX_BODY_BYTES}"})
            return
        try:
            message: object = json.loads(self.rfile.read(int(size)))
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self._answer(400, {"error": "the body is no JSON object"})
            return
        receiver = cast("Receiver", self.server)
        self._answer(200, receiver.inbox.take(cast("dict[str, object]", message)))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what came in stands in the file."""

    def _answer(self, status: int, reply: dict[str, object]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until interrupted; the first line of the output is the address."""
    parser = argparse.ArgumentParser(description="A webhook that keeps what it receives.")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--log", type=Path, default=Path("received.jsonl"))
    arguments = parser.parse_args()
    with Receiver(arguments.port, Inbox(arguments.log)) as receiver:
        print(receiver.address, flush=True)
        try:
            receiver.serve_forever()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
