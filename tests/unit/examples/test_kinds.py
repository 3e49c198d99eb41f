import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.log_report.kinds import KINDS, kind_of, template_of

CASES = {
    "recv() failed (104: Connection reset by peer) while reading response header from upstream":
        "connection reset",
    "SSL_read() failed (SSL: error:0A000126) (104: Connection reset by peer) while SSL handshaking":
        "connection reset",
    'unknown directive "proxy_pas" in /srv/shop/conf/nginx.conf:62': "broken configuration",
    '"root" directive is duplicate in /srv/shop/conf/nginx.conf:9': "broken configuration",
    "bind() to 0.0.0.0:80 failed (98: Address already in use)": "port taken",
    "worker process 1542 exited on signal 9": "worker died",
    'pwrite() "/srv/spool/0000000012" failed (28: No space left on device)': "disk full",
    "accept4() failed (24: Too many open files)": "too many open files",
    "1024 worker_connections are not enough": "out of worker connections",
    "connect() failed (111: Connection refused) while connecting to upstream": "upstream refused",
    "connect() to 10.0.0.9:80 failed (113: No route to host) while connecting to upstream":
        "upstream unreachable",
    "upstream timed out (110: Connection timed out) while connecting to upstream":
        "upstream timed out",
    "no live upstreams while connecting to upstream": "no live upstreams",
    "upstream prematurely closed connection while reading response header from upstream":
        "upstream closed early",
    "upstream sent too big header while reading response header from upstream":
        "bad upstream answer",
    "connect() to unix:/srv/run/php.sock failed (2: No such file or directory) while connecting":
        "upstream socket missing",
    "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number) while SSL"
    " handshaking to upstream": "upstream TLS failed",
    "SSL_do_handshake() failed (SSL: error:0A00006C:SSL routines::bad key share) while SSL"
    " handshaking": "TLS handshake failed",
    'open() "/srv/shop/a.css" failed (13: Permission denied)': "permission denied",
    'open() "/srv/shop/a.css" failed (2: No such file or directory)': "missing file",
    "client intended to send too large body: 3000000 bytes": "body too large",
    'limiting requests, excess: 4.640 by zone "search"': "rate limited",
    'delaying request, excess: 0.240, by zone "search"': "delayed by rate limit",
    "access forbidden by rule": "access forbidden",
    'user "editor": password mismatch': "failed login",
    'user "admin" was not found in "/srv/shop/conf/staff"': "failed login",
    'FastCGI sent in stderr: "PHP message: PHP Warning" while reading upstream':
        "application error",
    "upstream server temporarily disabled while connecting to upstream": "upstream taken out",
    "a client request body is buffered to a temporary file /srv/spool/body/0000000012":
        "buffered to disk",
    "client sent invalid method while reading client request line": "bad request",
    "client 203.0.113.9 closed keepalive connection": "client gone",
}  # fmt: skip


@pytest.mark.parametrize(("message", "name"), CASES.items(), ids=CASES.values())
def test_a_message_has_its_kind(message: str, name: str) -> None:
    kind = kind_of(template_of(message))

    assert kind is not None
    assert kind.name == name


def test_every_kind_has_a_case_and_both_languages() -> None:
    assert {kind.name for kind in KINDS} == set(CASES.values())
    assert all(kind.advice and kind.chinese and kind.chinese_advice for kind in KINDS)


def test_an_unknown_message_has_no_kind() -> None:
    assert kind_of(template_of("the moon is in the wrong place")) is None


SHAPES = (
    "connect() to {a} failed ({n}: No route to host) while connecting to upstream",
    "client {a} closed keepalive connection",
    "upstream timed out ({n}: Connection timed out) while reading response header from upstream",
    "client intended to send too large body: {n} bytes",
    'limiting requests, excess: {n}.{n} by zone "api{n}"',
    'open() "/srv/{n}/img-{n}.jpg" failed ({n}: No such file or directory)',
    "worker process {n} exited on signal {n}",
    "a request {n} from {a} met the trouble {n} that nobody has named",
    "no resolver defined to resolve host{n}, order {n}/{n}, id {u}",
    "recv() failed ({n}: Connection reset by peer), client: {a}, server: shop{n}, host: {a}",
)
numbers = st.integers(0, 10**18).map(str)
addresses = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=4).map(lambda address: f"{address}:8080"),
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]:443"),
)


@st.composite
def filled_twice(draw: st.DrawFn) -> tuple[str, str]:
    """One message with two sets of numbers, addresses and ids."""
    shape = draw(st.sampled_from(SHAPES))

    def fill() -> str:
        text = shape
        for slot, values in (("{n}", numbers), ("{a}", addresses), ("{u}", st.uuids().map(str))):
            while slot in text:
                text = text.replace(slot, draw(values), 1)
        return text

    return fill(), fill()


@given(filled_twice())
def test_another_number_or_address_does_not_change_the_group(messages: tuple[str, str]) -> None:
    one, other = messages

    assert template_of(one) == template_of(other)


@given(st.text())
def test_any_text_has_a_template(text: str) -> None:
    template = template_of(text)

    assert template == template.strip()


@pytest.mark.parametrize(
    "path", ["/srv/a.css", "/srv/手册/尺码表.pdf", '/srv/a"b', "/srv/with space", ""]
)
def test_the_quoted_path_does_not_matter(path: str) -> None:
    message = f'open() "{path}" failed (2: No such file or directory), client: 203.0.113.7'

    assert template_of(message) == 'open() "…" failed (N: No such file or directory)'


def test_a_quote_that_is_never_closed_reaches_to_the_end() -> None:
    assert template_of('open() "/srv/shop/html/very-lo') == 'open() "…"'
