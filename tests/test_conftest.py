"""The guards in conftest.py do guard."""

import os
import socket
from collections.abc import Callable

import anyio
import pytest
from anyio.abc import SocketAttribute

from tests.conftest import NetworkRefusedError, is_loopback, told

# An address set aside for documentation (RFC 5737): nobody ever answers there.
ELSEWHERE = "192.0.2.1"


def test_a_connection_beyond_loopback_is_refused_and_remembered(
    refused_hosts: list[object],
) -> None:
    with socket.socket() as sock, pytest.raises(NetworkRefusedError, match="192.0.2.1"):
        sock.connect((ELSEWHERE, 80))

    assert refused_hosts == [ELSEWHERE]
    refused_hosts.clear()


def test_a_name_is_not_even_looked_up(refused_hosts: list[object]) -> None:
    with pytest.raises(NetworkRefusedError, match="model.example"):
        socket.create_connection(("model.example", 443))

    refused_hosts.clear()


async def test_async_connections_are_refused_too(refused_hosts: list[object]) -> None:
    with pytest.RaisesGroup(NetworkRefusedError, flatten_subgroups=True):
        await anyio.connect_tcp(ELSEWHERE, 80)

    assert refused_hosts == [ELSEWHERE]
    refused_hosts.clear()


async def test_a_server_on_loopback_can_be_reached() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        host, port = listener.extra(SocketAttribute.local_address)
        async with await anyio.connect_tcp(str(host), int(port)) as stream:
            assert stream.extra(SocketAttribute.remote_port) == port
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("host", [None, "", "localhost", b"localhost", "127.0.0.1", "::1"])
def test_this_machine_is_loopback(host: object) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "model.example", "fe80::1%eth0", b"\xff", 7])
def test_everything_else_is_not(host: object) -> None:
    assert not is_loopback(host)


def test_what_a_test_tells_is_kept_with_its_result(
    tell: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    tell("b: 2 points")
    tell("a: 1 point")

    reports = [
        pytest.TestReport("x", ("x", 1, "x"), {}, "passed", None, when, user_properties=properties)
        for when in ("setup", "call", "teardown")
        if (properties := [*request.node.user_properties, ("other", "line")])
    ]
    assert told(reports) == ["a: 1 point", "b: 2 points"]
    request.node.user_properties.clear()


def test_no_setting_of_the_developer_reaches_a_test() -> None:
    assert "MODEL_NAME" not in os.environ
    assert not [name for name in os.environ if name.startswith(("HERMES_", "OPENAI_"))]
