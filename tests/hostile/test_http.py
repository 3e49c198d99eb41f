"""Addresses that must not be reached, each as a file: what is asked, and what may happen at most.

`code` is that of the error, or "" where the request goes through; `requests` arrive at the one
public address; whatever else is connected to is an escape.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

import pytest

from hermes.errors import ToolError
from hermes.tools.web.client import WebRequest, read_url
from tests.web import PUBLIC, Reply, Seen, Web

CASES = sorted((Path(__file__).parent / "http").glob("*.json"))


class Case(TypedDict):
    why: str
    url: str
    names: Mapping[str, Sequence[Sequence[str]]]
    redirects: Mapping[str, str]
    allow: Sequence[str]
    requests: int
    code: str


def read(path: Path) -> Case:
    return cast("Case", json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
async def test_nothing_but_the_public_web_is_connected_to(path: Path) -> None:
    case = read(path)

    def answer(seen: Seen) -> Reply:
        target = case["redirects"].get(seen.path)
        return Reply(status=302, headers={"location": target}) if target else Reply(body=b"page")

    code = ""
    async with Web(answer, names=case["names"]) as web:
        client = web.client(allow=case["allow"])
        try:
            await client.send(WebRequest(method="GET", url=read_url(case["url"])))
        except ToolError as exc:
            code = exc.code
        assert web.escapes == []
        assert web.connected == [PUBLIC] * case["requests"]
        assert len(web.seen) == case["requests"]
        assert code == case["code"]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 30
