"""A mail server for trying things out: prints its address, keeps every message in a folder.

It takes mail for everybody on a loopback port, and sends nothing on.

Usage: python mailbox.py [--port 0] [--folder inbox]
"""

from __future__ import annotations

import argparse
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

_MAX_MESSAGE_BYTES = 20_000_000


class Inbox(socketserver.ThreadingTCPServer):
    """Speaks as much SMTP as a client needs to hand a message over."""

    daemon_threads = True

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(("127.0.0.1", port), _Session)
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """What HERMES_SMTP_URL is set to."""
        return f"smtp://127.0.0.1:{self.server_address[1]}"

    def keep(self, message: bytes) -> None:
        """Write a message to the next file, 1.eml and so on."""
        with self._lock:
            number = sum(1 for _ in self._folder.iterdir()) + 1
            (self._folder / f"{number}.eml").write_bytes(message)


class _Session(socketserver.StreamRequestHandler):
    timeout = 30

    def handle(self) -> None:
        self._say("220 mailbox")
        for line in iter(lambda: self.rfile.readline(2_000), b""):
            verb = line[:4].strip().upper()
            if verb == b"QUIT":
                self._say("221 bye")
                return
            if verb == b"DATA":
                self._say("354 go on, end with a dot")
                self._take()
            elif verb in (b"EHLO", b"HELO", b"MAIL", b"RCPT", b"RSET", b"NOOP"):
                self._say("250 ok")
            else:
                self._say("502 not known here")

    def _take(self) -> None:
        message = b"".join(self._lines())
        if len(message) > _MAX_MESSAGE_BYTES:
            self._say("552 too large")
            return
        assert isinstance(self.server, Inbox)
        self.server.keep(message)
        self._say("250 kept")

    def _lines(self) -> Iterator[bytes]:
        size = 0
        for line in iter(lambda: self.rfile.readline(10_000), b""):
            if line == b".\r\n":
                return
            size += len(line)
            if size <= _MAX_MESSAGE_BYTES + 10_000:
                yield line.removeprefix(b".") if line.startswith(b"..") else line

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("inbox"))
    options = parser.parse_args()
    with Inbox(options.port, options.folder) as server:
        print(server.address, flush=True)
        server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
