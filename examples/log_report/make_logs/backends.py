"""The servers behind the nginx of make_logs.py, which misbehave when told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Mood = Literal["ok", "reset", "reset_late", "silent", "hang_up", "bad_header", "big_header"]

_LINGER_ZERO = struct.pack("ii", 1, 0)
_PHP_TROUBLE = (
    b'PHP message: PHP Warning:  Undefined array key "sku" in /srv/shop/php/cart.php on line 88\n'
    b"PHP message: PHP Fatal error:  Uncaught TypeError: price(): Argument #1 must be of type"
    b" string, null given in /srv/shop/php/price.php:17\n"
    b"Stack trace:\n"
    b"#0 /srv/shop/php/cart.php(91): price(NULL)\n"
    b"#1 {main}\n"
    b"  thrown in /srv/shop/php/price.php on line 17"
)


def reset(connection: socket.socket) -> None:
    """Close with a RST segment, as a dying process with unread data does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    connection.close()


class Backend:
    """One application server; `mood` says how it treats the next requests."""

    def __init__(self, address: tuple[str, int] | str, *, php: bool = False) -> None:
        self.mood: Mood = "ok"
        self._address = address
        self._serve: Callable[[socket.socket], None] = self._serve_php if php else self._serve_http
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Listen; while stopped, the kernel refuses connections."""
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self._address)
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening at once."""
        if self._listener is not None:
            # close() alone would leave the thread in accept() and the port open.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            if isinstance(self._address, str):
                Path(self._address).unlink()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # stop() closed the listener
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        # nginx may leave first: a broken connection is an expected end here.
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            self._serve(connection)

    def _serve_http(self, connection: socket.socket) -> None:
        connection.recv(65536)
        match self.mood:
            case "ok":
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            case "reset":
                reset(connection)
            case "reset_late":
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 900\r\n\r\nhalf")
                threading.Event().wait(0.02)  # lets nginx read the header before the RST
                reset(connection)
            case "silent":
                connection.recv(1)  # returns when nginx has given up
            case "hang_up":
                connection.shutdown(socket.SHUT_RDWR)
            case "bad_header":
                connection.sendall(b"Warning: cannot open session store\r\n\r\n")
            case "big_header":
                cookie = b"Set-Cookie: basket=" + b"x" * 6000
                connection.sendall(b"HTTP/1.0 200 OK\r\n" + cookie + b"\r\n\r\nok")

    def _serve_php(self, connection: socket.socket) -> None:
        connection.recv(65536)
        if self.mood == "silent":
            connection.recv(1)
            return
        # FastCGI 1.0 records: 7 is STDERR, 6 STDOUT, 3 END_REQUEST.
        reply = _record(6, b"Status: 500 Internal Server Error\r\n\r\nSorry\n")
        connection.sendall(
            _record(7, _PHP_TROUBLE) + reply + _record(6, b"") + _record(3, bytes(8))
        )


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack(">BBHHBB", 1, kind, 1, len(data), 0, 0) + data
