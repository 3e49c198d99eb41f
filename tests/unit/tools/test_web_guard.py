import ipaddress

import pytest

from hermes.errors import ConfigError, NotDone, ToolError
from hermes.tools.web.guard import WebPolicy, checked_addresses, literal, special

INTERNAL = [
    *("0.0.0.0", "10.0.0.5", "100.64.0.1", "127.0.0.1", "127.255.0.3", "168.63.129.16"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.0.1"),
    *("198.18.0.1", "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::10.0.0.5", "::ffff:10.0.0.5", "::ffff:8.8.8.8", "64:ff9b::a00:5"),
    *("64:ff9b:1::1", "2001::1", "2001:db8::1", "2002:a00:5::1", "fc00::1", "fd12::1"),
    *("fe80::1", "fec0::1", "ff02::1", "4000::1", "100::1", "3fff::1"),
]


async def nothing(host: str, port: int) -> list[str]:
    raise OSError(f"{host}:{port} was looked up")


@pytest.mark.parametrize("text", INTERNAL)
def test_an_internal_address_is_special(text: str) -> None:
    assert special(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"])
def test_a_public_address_is_not(text: str) -> None:
    assert special(ipaddress.ip_address(text)) == ""


@pytest.mark.parametrize(
    ("entry", "host", "port", "address"),
    [
        ("10.0.0.5", "10.0.0.5", 80, "10.0.0.5"),
        ("10.0.0.5:8080", "any.example", 8080, "10.0.0.5"),
        ("10.0.0.0/8", "any.example", 5432, "10.9.9.9"),
        ("[::1]:8080", "::1", 8080, "::1"),
        ("::1", "::1", 80, "::1"),
        ("fd00::/8", "any.example", 80, "fd12::1"),
        ("wiki", "wiki", 80, "10.0.0.5"),
        ("Wiki.Corp.Example", "wiki.corp.example.", 80, "192.168.0.9"),
        ("wiki.corp.example:8443", "wiki.corp.example", 8443, "127.0.0.1"),
        ("*.corp.example", "a.b.corp.example", 80, "100.64.0.1"),
        ("169.254.169.254", "169.254.169.254", 80, "169.254.169.254"),
        ("mail.example:25", "mail.example", 25, "8.8.8.8"),
    ],
)
def test_an_entry_opens_what_it_names(entry: str, host: str, port: int, address: str) -> None:
    assert WebPolicy(allow=[entry]).fault(host, port, ipaddress.ip_address(address)) == ""
    assert WebPolicy().fault(host, port, ipaddress.ip_address(address)) != ""


@pytest.mark.parametrize(
    ("entry", "host", "port", "address"),
    [
        ("10.0.0.5:8080", "10.0.0.5", 80, "10.0.0.5"),
        ("10.0.0.0/24", "10.0.1.5", 80, "10.0.1.5"),
        ("wiki.corp.example", "wiki.corp.example.evil.example", 80, "10.0.0.5"),
        ("*.corp.example", "corp.example", 80, "10.0.0.5"),
        ("*.corp.example", "evilcorp.example", 80, "10.0.0.5"),
        ("wiki.corp.example", "wiki.corp.example", 80, "169.254.169.254"),
        ("wiki.corp.example", "wiki.corp.example", 80, "fe80::1"),
        ("wiki.corp.example", "wiki.corp.example", 80, "0.0.0.0"),
        ("10.0.0.0/8", "::ffff:10.0.0.5", 80, "::ffff:10.0.0.5"),
    ],
)
def test_and_nothing_else(entry: str, host: str, port: int, address: str) -> None:
    assert WebPolicy(allow=[entry]).fault(host, port, ipaddress.ip_address(address))


def test_what_is_denied_stays_so() -> None:
    address = ipaddress.ip_address("10.0.0.5")
    policy = WebPolicy(allow=["10.0.0.0/8"], deny=["10.0.0.5", "*.ads.example"])
    assert "denied" in policy.fault("10.0.0.5", 80, address)
    assert "denied" in policy.fault("x.ads.example", 443, ipaddress.ip_address("8.8.8.8"))
    assert policy.fault("10.0.0.6", 80, ipaddress.ip_address("10.0.0.6")) == ""


def test_a_star_denies_all_that_is_not_allowed() -> None:
    policy = WebPolicy(allow=["api.example"], deny=["*"])
    public = ipaddress.ip_address("8.8.8.8")
    assert policy.fault("api.example", 443, public) == ""
    assert "not in HERMES_HTTP_ALLOW" in policy.fault("other.example", 443, public)


@pytest.mark.parametrize("port", [22, 25, 79, 81, 1023])
def test_only_ports_of_the_web_and_free_ones_are_open(port: int) -> None:
    public = ipaddress.ip_address("8.8.8.8")
    assert f"port {port}" in WebPolicy().fault("x.example", port, public)
    assert WebPolicy().fault("x.example", 1024, public) == ""


@pytest.mark.parametrize(
    "entry", ["http://wiki/", "wiki:", "wiki:x", "wiki:0", "wiki:70000", "", "a b", "10.0.0.0/40"]
)
def test_an_entry_that_cannot_be_read_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match="HERMES_HTTP_ALLOW"):
        WebPolicy(allow=[entry])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1."],
)
async def test_every_spelling_of_an_address_is_seen_without_a_look_up(host: str) -> None:
    assert literal(host) == ipaddress.ip_address("127.0.0.1")
    with pytest.raises(ToolError, match="127.0.0.1 is no public address: it is loopback"):
        await checked_addresses(WebPolicy(), host, 80, resolve=nothing)


async def test_one_bad_address_of_a_name_refuses_it() -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "192.168.0.1"]

    with pytest.raises(ToolError) as caught:
        await checked_addresses(WebPolicy(), "both.example", 80, resolve=both)
    assert caught.value.code == "refused_address"
    assert "HERMES_HTTP_ALLOW" in caught.value.hint


async def test_a_name_that_does_not_exist_is_surely_not_done() -> None:
    with pytest.raises(NotDone, match=r"nowhere\.example cannot be resolved; nothing was sent"):
        await checked_addresses(WebPolicy(), "nowhere.example", 80, resolve=nothing)


@pytest.mark.parametrize("host", ["exa%20mple.com", "a..b", "-x", "x" * 254, "fe80::1%25eth0"])
async def test_what_is_no_host_is_never_looked_up(host: str) -> None:
    with pytest.raises(ToolError, match="is no host name"):
        await checked_addresses(WebPolicy(), host, 80, resolve=nothing)
