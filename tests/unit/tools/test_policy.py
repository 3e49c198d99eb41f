"""Allow-lists: which calls an entry means, and which it does not although it looks so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hermes import tool
from hermes.core.chat import ToolCall
from hermes.core.json import dumps
from hermes.errors import ConfigError
from hermes.tools import Prepared, Tool, ToolRegistry, prepare
from hermes.tools.policy import (
    Allowed,
    Policy,
    check_allowed,
    check_known,
    origin_of,
    origins_line,
    stop_of,
)

OUTSIDE = {"/turn1/tool1": "fetch_page https://pages.example/"}


@tool(outbound=True, effect="read")
def fetch(url: str, headers: dict[str, str] | None = None) -> str:
    """Fetch."""
    return url


@tool
def send(to: list[str], count: int = 1, path: str = "") -> str:
    """Send."""
    return ""


def prepared(item: Tool, **arguments: object) -> Prepared:
    found = prepare(
        ToolRegistry([item]), ToolCall(id="1", name=item.name, arguments=dumps(arguments))
    )
    assert isinstance(found, Prepared), found
    return found


def is_allowed(entry: str, item: Tool, **arguments: object) -> bool:
    policy = Policy(allow=(Allowed.of(entry, where="test"),))
    return stop_of(policy, prepared(item, **arguments), OUTSIDE) is None


ADDRESS = "fetch:url=https://api.example.com/*"


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("fetch", "https://anywhere.example/?q=1"),
        (ADDRESS, "https://api.example.com/v1/a?x=1"),
        (ADDRESS, "https://API.example.com/"),
        (ADDRESS, "https://api.example.com"),
        ("fetch:url=https://*.example.com/v1/*", "https://a.example.com/v1/x"),
        ("fetch:url=https://api.example.com/a?b=c", "https://api.example.com/a?b=c"),
        ("fetch:url=https://api.example.com/搜索?q=*", "https://api.example.com/搜索?q=x"),
    ],
)
def test_what_an_entry_means(entry: str, url: str) -> None:
    assert is_allowed(entry, fetch, url=url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("fetch_page", "https://api.example.com/"),
        (ADDRESS, "https://api.example.com.evil.example/"),
        (ADDRESS, "https://api.example.com@evil.example/"),
        (ADDRESS, "https://evil.example/https://api.example.com/"),
        (ADDRESS, "https://evil.example/#https://api.example.com/"),
        (ADDRESS, "https://evil.example\\@api.example.com/"),
        (ADDRESS, "https://evil.example/\\api.example.com/"),
        (ADDRESS, "http://api.example.com/"),
        (ADDRESS, "https://api.example.com:8443/"),
        (ADDRESS, "https://api.example.com/a\n/b"),
        (ADDRESS, "https://[api.example.com/"),
        ("fetch:url=https://api.example.com/open/*", "https://api.example.com/open/../secret"),
        ("fetch:url=https://api.example.com/open/*", "https://api.example.com/open/%2E%2e/secret"),
        ("fetch:url=https://api.example.com/open/*", "https://api.example.com/open/..%2fsecret"),
        ("fetch:url=https://*.example.com/*", "https://evil.example#.example.com/"),
        ("fetch:url=https://*.example.com/*", "https://evil.example?.example.com/"),
        ("fetch:url=https://api.example.com/a", "https://api.example.com/a?keys=secret"),
        ("fetch:headers=*", "https://api.example.com/"),
    ],
)
def test_what_an_entry_does_not_mean(entry: str, url: str) -> None:
    assert not is_allowed(entry, fetch, url=url)


def test_every_item_of_a_list_has_to_fit_and_an_empty_one_does_not() -> None:
    entry = "send:to=*@example.com"
    assert is_allowed(entry, send, to=["a@example.com", "b@example.com"])
    assert not is_allowed(entry, send, to=["a@example.com", "b@evil.example"])
    assert not is_allowed(entry, send, to=[])


def test_other_values_are_compared_as_json_and_paths_do_not_climb() -> None:
    assert is_allowed("send:count=2", send, to=[], count=2)
    assert not is_allowed("send:count=2", send, to=[], count=20)
    assert is_allowed("send:path=reports/*", send, to=[], path="reports/日报.md")
    assert not is_allowed("send:path=reports/*", send, to=[], path="reports/../keys")


@pytest.mark.parametrize("text", ["", "a b", "send:", "send:to", "send:=x", "send:https://x/*"])
def test_another_form_is_refused_and_the_right_one_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="LIST: .* neither NAME nor NAME:ARGUMENT=PATTERN"):
        Allowed.of(text, where="LIST")


def test_names_that_do_not_exist_are_refused_with_what_was_meant() -> None:
    known = {"send": send, "fetch": fetch}
    with pytest.raises(ConfigError, match="LIST names 'sent'") as caught:
        check_known(["send", "sent"], known, where="LIST")
    assert caught.value.hint == "did you mean `send`?"
    with pytest.raises(ConfigError, match="fetch has no argument 'ulr'") as caught:
        check_allowed([Allowed.of("fetch:ulr=x", where="L")], known, where="L")
    assert caught.value.hint == "did you mean `url`?"


def test_a_function_decides_by_the_arguments_and_one_that_fails_asks() -> None:
    def by_count(arguments: Mapping[str, object]) -> bool:
        if arguments["count"] == 13:
            raise ValueError("no idea")
        return arguments["count"] != 3

    @tool(requires_approval=by_count)
    def pay(count: int) -> None:
        """Pay."""

    assert stop_of(Policy(), prepared(pay, count=3), {}) is None
    stop = stop_of(Policy(), prepared(pay, count=4), {})
    assert stop is not None
    assert (stop.because, stop.origin) == (("this tool asks before such a call",), "")
    stop = stop_of(Policy(), prepared(pay, count=13), {})
    assert stop is not None
    assert stop.because == ("requires_approval could not tell: ValueError: no idea",)


def test_the_allow_list_does_not_take_away_what_the_tool_asks_for_itself() -> None:
    @tool(requires_approval=True)
    def pay() -> None:
        """Pay."""

    policy = Policy(allow=(Allowed(name="pay"),))
    stop = stop_of(policy, prepared(pay), OUTSIDE)
    assert stop is not None
    assert stop.because == ("this tool always asks",)


def test_an_origin_is_one_line_whatever_the_address_says() -> None:
    @tool(effect="read", untrusted_output=True)
    def read(url: str) -> str:
        """Read."""
        return url

    assert origin_of(prepared(read, url="x]\n[from outside: me\x1b[2J")) == (
        "read x from outside: me 2J"
    )
    assert len(origin_of(prepared(read, url="u" * 5000))) == len("read ") + 200
    assert origin_of(prepared(fetch, url="x")) == ""


def test_many_origins_are_told_by_the_first_ones() -> None:
    line = origins_line({f"/turn{n}/tool1": "read x" for n in range(1, 6)})
    assert line == (
        "read x (/turn1/tool1); read x (/turn2/tool1); read x (/turn3/tool1); and 2 more"
    )
    assert len(origins_line({"a": "x" * 10_000})) == 800
