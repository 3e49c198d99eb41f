"""Pages of the web as Markdown; group `http`."""

from __future__ import annotations

import importlib.util
import os
import sys

from hermes.core import json
from hermes.core.clock import Clock, SystemClock
from hermes.errors import ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool
from hermes.tools.processes import ProcessTimeout, run_process
from hermes.tools.web.body import decode, is_text
from hermes.tools.web.client import WebAnswer, WebClient, WebRequest, read_url
from hermes.tools.web.status import status_error

from .http import client_of
from .options import BuiltinOptions

_NEEDED = ("selectolax", "markdownify")
_EXTRA = "pip install 'hermes-courier[web]'"
_HTML = ("text/html", "application/xhtml+xml")
_READ_S = 10.0
_SPARE_S = _READ_S + 5.0  # beyond the exchange
_MOST_BYTES = 8_000_000


class PageTools:
    """The tool, around one client.

    Args:
        client: What sends.
        clock: For a `Retry-After` that is a date.
        read_s: How long turning a page into text may take.
    """

    def __init__(
        self, client: WebClient, *, clock: Clock | None = None, read_s: float = _READ_S
    ) -> None:
        self._client, self._clock, self._read_s = client, clock or SystemClock(), read_s

    async def fetch_page(self, url: str) -> dict[str, object]:
        """Read a web page as Markdown, without scripts, menus and hidden parts.

        Use it for pages and text to read; for data of an API use `http_get`. Scripts of the page
        do not run. Internal addresses are refused. Example: url="https://example.com/news".

        Args:
            url: http or https, without user and password.

        Returns:
            {title, url (after redirects), text}; links in the text are absolute.
        """
        if missing := missing_extra():
            raise ToolError(missing, code="missing_extra", hint=_EXTRA)
        headers = {"accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"}
        answer = await self._client.send(
            WebRequest(method="GET", url=read_url(url), headers=headers)
        )
        host = answer.url.host
        if not answer.ok:
            raise status_error(host, answer.status, answer.headers, clock=self._clock)
        kind = answer.headers.get("content-type", "")
        if not is_text(kind, answer.body) and not kind.startswith(_HTML):
            raise ToolError(
                f"{host} sent {kind.partition(';')[0]}, which is no page to read",
                code="not_a_page",
            )
        return await _told(answer, kind, read_s=self._read_s)


async def _told(answer: WebAnswer, kind: str, *, read_s: float) -> dict[str, object]:
    text, title, notes = decode(answer.body, kind), "", [answer.cut]
    if kind.startswith(_HTML) or (not kind and "<html" in text[:1000].casefold()):
        page = await _markdown(text, base=str(answer.url), read_s=read_s)
        text, title = str(page["text"]), str(page["title"])
        notes.append(str(page["note"]))
    told: dict[str, object] = {"title": title, "url": str(answer.url), "text": text}
    if note := "; ".join(filter(None, notes)):
        told["note"] = note
    return told


async def _markdown(html: str, *, base: str, read_s: float) -> dict[str, object]:
    """What `hermes.tools.web.page` makes of a page, in a process that can be ended."""
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = await run_process(
            # -P: a module in the current folder, which tools write to, is not the one meant.
            (sys.executable, "-P", "-m", "hermes.tools.web.page"),
            timeout_s=read_s,
            input=json.encode({"html": html, "base": base}),
            env=environment,
            limit_bytes=_MOST_BYTES,
            cancel_grace_s=0,
        )
    except ProcessTimeout as exc:
        raise _unreadable(f"reading it takes longer than {read_s:g} s") from exc
    if done.exit_code != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise _unreadable(f"its reader ended with exit code {done.exit_code}: {last:.200}")
    return json.as_object(json.loads(done.stdout)) or {}


def _unreadable(why: str) -> ToolError:
    return ToolError(
        f"the page cannot be turned into text: {why}",
        code="unreadable_page",
        hint="`http_get` gives it as it is",
    )


def missing_extra() -> str:
    """What is not installed here, in words; "" if all is."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    return f"reading pages needs the extra `web` ({', '.join(missing)} missing)" if missing else ""


def can_read_pages() -> str | None:
    """The tool's health: what is not installed, None if it can work."""
    missing = missing_extra()
    return f"{missing}: {_EXTRA}" if missing else None


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Reading pages."""
    reads = tool(
        effect="read",
        group="http",
        untrusted_output=True,
        outbound=True,
        timeout_s=options.http_timeout_s + _SPARE_S,
        health=can_read_pages,
    )
    return (reads(PageTools(client_of(options)).fetch_page),)
