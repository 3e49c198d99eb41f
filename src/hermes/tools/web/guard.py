"""Which addresses a request that somebody else chose may go to: the public web, and what is named.

A name is resolved here, every address that it has is judged, and the connection goes to one of
exactly these: nothing is looked up a second time, so a name server cannot change its answer.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from hermes.errors import ConfigError, NotDone, ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to the addresses it has, as texts; `OSError` if it has none."""

REFUSED = "refused_address"
SETTING = "HERMES_HTTP_ALLOW"

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?")
_NUMERIC = re.compile(r"[0-9A-Fa-fxX.]+")
_WEB_PORTS = (80, 443)
_FIRST_FREE_PORT = 1024

_LOOPBACK, _PRIVATE, _SHARED = "loopback", "private", "shared by a carrier (CGNAT)"
_BY_NAME = (_LOOPBACK, _PRIVATE, _SHARED)
"""What an allowed name opens; for the rest, the address itself has to be allowed."""

# Source: the IANA special-purpose address registries for IPv4 and IPv6.
_SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", _PRIVATE),
        ("100.64.0.0/10", _SHARED),
        ("127.0.0.0/8", _LOOPBACK),
        ("168.63.129.16/32", "a cloud's own"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", _PRIVATE),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documents"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", _PRIVATE),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documents"),
        ("203.0.113.0/24", "reserved for documents"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", _LOOPBACK),
        ("::/96", "an IPv4 address within IPv6"),
        ("::ffff:0:0/96", "an IPv4 address within IPv6"),
        ("64:ff9b::/96", "a translated IPv4 address (NAT64)"),
        ("64:ff9b:1::/48", "a translated IPv4 address (NAT64)"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "reserved for documents"),
        ("2002::/16", "an IPv4 address within IPv6 (6to4)"),
        ("3fff::/20", "reserved for documents"),
        ("fc00::/7", _PRIVATE),
        ("fe80::/10", "link-local"),
        ("fec0::/10", _PRIVATE),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One entry of a list.

    Attributes:
        name: A host in lower case, with a leading dot if it stands for all below it.
        port: None for any.
    """

    network: Network | None = None
    name: str = ""
    port: int | None = None

    def covers(self, host: str, port: int, address: Address) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address in self.network
        return host == self.name or (self.name.startswith(".") and host.endswith(self.name))


class WebPolicy:
    """Judges where a request may go.

    Args:
        allow: Opens what is internal: `host`, `*.domain`, an address or a network (`10.0.0.0/8`),
            each but a network also with `:port`. A name opens loopback, private and CGNAT
            addresses; link-local and other special ones have to be named themselves.
        deny: The same forms; it wins over `allow`. `*` alone denies all that is not allowed.

    Raises:
        ConfigError: An entry has none of these forms.
    """

    def __init__(self, *, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        self._allow = tuple(_rule(entry, SETTING) for entry in allow)
        self._only_allowed = "*" in deny
        named = [entry for entry in deny if entry != "*"]
        self._deny = tuple(_rule(entry, "HERMES_HTTP_DENY") for entry in named)

    def fault(self, host: str, port: int, address: Address) -> str:
        """Why this address of a host may not be connected to; "" if it may."""
        host = host.rstrip(".").casefold()
        if any(rule.covers(host, port, address) for rule in self._deny):
            return "it is denied by HERMES_HTTP_DENY"
        rules = [rule for rule in self._allow if rule.covers(host, port, address)]
        what = special(address)
        if any(rule.network is not None for rule in rules) or (rules and what in ("", *_BY_NAME)):
            return ""
        if what:
            return f"{address} is no public address: it is {what}"
        if self._only_allowed:
            return f"it is not in {SETTING}, and all else is denied"
        if port not in _WEB_PORTS and port < _FIRST_FREE_PORT:
            return f"port {port} is not one of the web"
        return ""


def special(address: Address) -> str:
    """What an address is if it is no public one; "" if it is."""
    for network, what in _SPECIAL:
        if address in network:
            return what
    return "" if address.version == 4 or address in _GLOBAL_V6 else "reserved"


async def checked_addresses(
    policy: WebPolicy, host: str, port: int, *, resolve: Resolve
) -> list[Address]:
    """The addresses of a host, all of which were judged; to connect to any other would be wrong.

    Raises:
        ToolError: The host is no host, or one of its addresses may not be connected to.
        NotDone: The name cannot be resolved at present.
    """
    if not 0 < port < 65536:
        raise ToolError(f"{port} is no port: a port is 1 to 65535", code="bad_url")
    found = literal(host)
    addresses = [found] if found is not None else await _resolved(host, port, resolve)
    for address in addresses:
        if fault := policy.fault(host, port, address):
            raise ToolError(
                f"requests to {host} are refused: {fault}; nothing was sent",
                code=REFUSED,
                hint=f"if it is meant to be reached, its operator has to add it to {SETTING}",
            )
    return addresses


def literal(host: str) -> Address | None:
    """The address that a host is in itself, in any of its spellings (`127.1`, `0x7f.1`)."""
    if "%" in host:  # a zone: only what is on the link has one
        return None
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    text = host.rstrip(".")
    if not _NUMERIC.fullmatch(text) or not text[0].isdigit():
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return None


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses that the system's resolver gives."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


async def _resolved(host: str, port: int, resolve: Resolve) -> list[Address]:
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise ToolError(
            f"{host!r:.80} is no host name", code="bad_url", hint="write https://HOST/PATH"
        )
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError) as exc:
        raise _unknown(host) from exc
    if not found:
        raise _unknown(host)
    # A zone (`%eth0`) only goes with link-local addresses.
    return [ipaddress.ip_address(text.partition("%")[0]) for text in found]


def _unknown(host: str) -> NotDone:
    return NotDone(
        f"the name {host} cannot be resolved; nothing was sent",
        code="unknown_host",
        hint="check the spelling of the host",
    )


def _rule(entry: str, setting: str) -> _Rule:
    text = entry.strip().casefold()
    try:
        return _Rule(network=ipaddress.ip_network(text))
    except ValueError:
        pass
    host, port = _split(text)
    found = literal(host.strip("[]"))
    if found is not None:
        return _Rule(network=ipaddress.ip_network(found), port=port)
    name = host[1:] if host.startswith("*.") else host
    if not _HOST.fullmatch(name.removeprefix(".")) or not (port is None or 0 < port < 65536):
        raise ConfigError(
            f"{setting}: {entry!r} is no entry",
            hint="an entry is HOST, HOST:PORT, *.DOMAIN, an address or a network as 10.0.0.0/8",
        )
    return _Rule(name=name.rstrip("."), port=port)


def _split(text: str) -> tuple[str, int | None]:
    """Host and port of an entry; port 0, which is none, where it cannot be read."""
    if text.startswith("[") and text.endswith("]"):
        return text, None
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, None
    return host, int(port) if port.isascii() and port.isdigit() else 0
