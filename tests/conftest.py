"""What every test stands on: no network, clean settings, one event loop, one Hypothesis profile."""

import ipaddress
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

# Names that Hermes reads its settings from; whatever the developer has set must not leak in.
SETTINGS = frozenset({"MODEL_NAME", "API_BASE", "API_KEY", "AGENT_MAX_ITERATIONS"})
SETTINGS_PREFIXES = ("HERMES_", "OPENAI_", "TOOL_")

TOLD = "told"

# Host and port first on the internet; a path for a Unix socket.
Address = tuple[object, ...] | str | bytes

settings.register_profile(
    "hermes",
    deadline=None,  # two busy cores say nothing about a rule
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("hermes")


class NetworkRefusedError(RuntimeError):
    """A test tried to leave this machine.

    Not an `OSError`, so that code under test does not take it for a server that is down.
    """

    def __init__(self, host: object) -> None:
        super().__init__(
            f"a test asked for {host!r}: tests reach nothing beyond loopback; "
            "start a server on 127.0.0.1 instead"
        )


def is_loopback(host: object) -> bool:
    """Whether `host` (a name, an address, or None for this machine) stays on this machine."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in (None, "", "localhost"):
        return True
    if not isinstance(host, str):
        return False
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True)
def refused_hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Refuse every connection and name look-up beyond loopback, and fail the test that tried.

    Yields:
        The hosts refused so far. The test fails at its end when there are any, since a boundary
        in the code under test may have swallowed the error itself.
    """
    refused: list[object] = []
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    getaddrinfo = socket.getaddrinfo

    def check(host: object) -> None:
        if not is_loopback(host):
            refused.append(host)
            raise NetworkRefusedError(host)

    def check_address(sock: socket.socket, address: Address) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            check(address[0])

    def guarded_connect(sock: socket.socket, address: Address) -> None:
        check_address(sock, address)
        connect(sock, address)

    def guarded_connect_ex(sock: socket.socket, address: Address) -> int:
        check_address(sock, address)
        return connect_ex(sock, address)

    def guarded_getaddrinfo(
        host: bytes | str | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> object:
        check(host)
        return getaddrinfo(host, port, family, type, proto, flags)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
    yield refused
    assert not refused, f"this test asked for hosts beyond loopback: {refused}"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every setting of Hermes out of the environment; a test sets what it needs."""
    for name in list(os.environ):
        if name in SETTINGS or name.startswith(SETTINGS_PREFIXES):
            monkeypatch.delenv(name)


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Print a line at the end of the whole run, passed or failed, from any of its processes."""
    return partial(record_property, TOLD)


def told(reports: Iterable[object]) -> list[str]:
    """The lines that tests have told, in their order by text."""
    return sorted(
        str(value)
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == TOLD
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was told."""
    lines = told(report for reports in terminalreporter.stats.values() for report in reports)
    if lines:
        terminalreporter.section("crash and chaos in numbers")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one: no `hermes.toml`, `.env` or `.hermes` in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that Hermes runs on."""
    return "asyncio"
