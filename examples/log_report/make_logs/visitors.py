"""The clients of the nginx of make_logs.py: well-behaved, clumsy and hostile ones."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from random import Random

from backends import reset

WEB_SERVER = "10.20.0.5"
_SCANNED = (
    "wp-login.php",
    "xmlrpc.php",
    ".env",
    ".git/config",
    "phpmyadmin/index.php",
    "vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
    "cgi-bin/luci",
    "actuator/health",
    "backup.zip",
    "config.json",
    "admin.php",
    "owa/auth/logon.aspx",
)
_LOST = ("img/banner-2025.jpg", "favicon-old.ico", "css/site.min.css.map", "手册/尺码表.pdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitors:
    """Sends requests from many addresses of the documentation networks (RFC 5737)."""

    random: Random

    def shopper(self) -> str:
        """An address of a customer."""
        network = self.random.choice(("203.0.113", "198.51.100"))
        return f"{network}.{self.random.randint(2, 250)}"

    def scanner(self) -> str:
        """An address of one of the few hosts that look for holes."""
        return f"192.0.2.{self.random.choice((13, 66, 66, 66, 181))}"

    def get(self, path: str, *, host: str = "shop.example", source: str | None = None) -> None:
        """Ask for one path and read the whole answer."""
        referrer = self.random.choice(("", "", "Referer: https://shop.example/\r\n"))
        self._send(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{referrer}Connection: close\r\n\r\n", source
        )

    def scan(self) -> None:
        """One probe for a file that a shop does not have."""
        self.get("/" + self.random.choice(_SCANNED), source=self.scanner())

    def lost(self) -> None:
        """A file that a page still links to but nobody deployed."""
        host = self.random.choice(("shop.example", "img.shop.example"))
        self.get("/" + self.random.choice(_LOST), host=host)

    def call_api(self) -> None:
        """A request that an application server has to answer."""
        area = self.random.choice(("orders", "orders", "products", "basket"))
        self.get(f"/api/{area}/{self.random.randint(1000, 99999)}")

    def search_fast(self) -> None:
        """A script that searches far quicker than the limit allows."""
        source = self.scanner()
        sockets = [_connect(source, 80) for _ in range(8)]
        for number, connection in enumerate(sockets):
            page = self.random.randint(1, 400) + number
            connection.sendall(
                f"GET /search?q=shoes&page={page} HTTP/1.1\r\nHost: shop.example\r\n"
                "Connection: close\r\n\r\n".encode()
            )
        for connection in sockets:
            _drain(connection)

    def upload(self, size_bytes: int = 40_000) -> None:
        """A picture for a product review."""
        head = f"POST /upload HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {size_bytes}\r\n"
        self._send(head + "Connection: close\r\n\r\n" + "x" * size_bytes)

    def upload_too_much(self) -> None:
        """A file over the limit; nginx refuses it by its announced size."""
        size_bytes = self.random.randint(300_000, 9_000_000)
        head = f"POST /upload HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {size_bytes}\r\n"
        self._send(head + "Connection: close\r\n\r\n")

    def guess_password(self) -> None:
        """A wrong user or password for the staff pages."""
        # "admin:letmein" and "editor:letmein": only editor exists.
        token = self.random.choice(("YWRtaW46bGV0bWVpbg==", "ZWRpdG9yOmxldG1laW4="))
        self._send(
            "GET /admin/ HTTP/1.1\r\nHost: shop.example\r\n"
            f"Authorization: Basic {token}\r\nConnection: close\r\n\r\n",
            self.scanner(),
        )

    def leave_early(self) -> None:
        """A phone that loses its network in the middle of a request."""
        connection = _connect(self.shopper(), 80)
        connection.sendall(b"GET /api/orders/1 HTTP/1.1\r\nHost: shop.ex")
        reset(connection)

    def stall(self) -> None:
        """A client that opens a connection, says half a line and waits."""
        connection = _connect(self.shopper(), 80)
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        _drain(connection)

    def send_nonsense(self) -> None:
        """Bytes that are no HTTP."""
        noise = self.random.choice(
            ("\x16\x03\x01 hello", "SSH-2.0-Go", "GET / HTTP/1.1\r\nHo st: x\r\n")
        )
        self._send(noise + "\r\n\r\n", self.scanner())

    def plain_to_tls(self) -> None:
        """Plain HTTP sent to the TLS port."""
        self._send("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", self.scanner(), port=443)

    def distrust(self) -> None:
        """A client that refuses the shop's certificate."""
        self._handshake(ssl.create_default_context())

    def speak_old_tls(self) -> None:
        """A client that knows only TLS 1.1."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.minimum_version = ssl.TLSVersion.TLSv1
        self._handshake(context)

    def bad_key_share(self) -> None:
        """A scanner's TLS 1.3 hello whose key share is malformed."""
        connection = _connect(self.scanner(), 443)
        connection.sendall(_hello_with_bad_key_share(self.random))
        _drain(connection)

    def crowd(self, count: int) -> None:
        """Many silent connections at once, more than the workers may hold."""
        sockets = [_connect(self.shopper(), 80) for _ in range(count)]
        for connection in sockets:
            _drain(connection)

    def _send(self, text: str, source: str | None = None, *, port: int = 80) -> None:
        connection = _connect(source or self.shopper(), port)
        with contextlib.suppress(OSError):  # nginx may refuse a body before it is all sent
            connection.sendall(text.encode("utf-8", "surrogateescape"))
        _drain(connection)

    def _handshake(self, context: ssl.SSLContext) -> None:
        connection = _connect(self.shopper(), 443)
        with connection, contextlib.suppress(OSError):
            context.wrap_socket(connection, server_hostname="shop.example").close()


def _connect(source: str, port: int) -> socket.socket:
    return socket.create_connection((WEB_SERVER, port), timeout=3, source_address=(source, 0))


def _drain(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while connection.recv(65536):
            pass


def _hello_with_bad_key_share(random: Random) -> bytes:
    def block(data: bytes, width: int = 2) -> bytes:
        return len(data).to_bytes(width, "big") + data

    # RFC 8446, 4.1.2 and 4.2: an x25519 share must have 32 bytes; this one is all zeros.
    share = b"\x00\x1d" + block(bytes(32))
    extensions = b"".join(
        kind + block(data)
        for kind, data in (
            (b"\x00\x2b", block(b"\x03\x04", 1)),  # supported_versions
            (b"\x00\x0a", block(b"\x00\x1d")),  # supported_groups
            (b"\x00\x0d", block(b"\x08\x04\x04\x01")),  # signature_algorithms
            (b"\x00\x33", block(share)),  # key_share
        )
    )
    hello = (
        b"\x03\x03" + random.randbytes(32) + block(b"", 1) + block(b"\x13\x01") + b"\x01\x00"
    ) + block(extensions)
    return b"\x16\x03\x01" + block(b"\x01" + block(hello, 3))
