"""The four tools of the log report: read an nginx error log, sum it up, write, send."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, cast

import httpx2
from nginx_log import ErrorGroup, Filter, Order, Scan
from report import Language, render

from hermes import NotDone, ToolError, tool

_MAX_LINES = 2_000
_MAX_GROUPS = 100
_REPLY_BYTES = 64_000
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Records of one day and level.

    Attributes:
        total: How many the whole file has; `lines` holds the first `returned` of them.
        unparsed: Lines that are no record of their own: continuations, cut off, or foreign.
    """

    date: str
    level: str
    total: int
    returned: int
    unparsed: int
    lines: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All records of one day and level, by kind.

    Attributes:
        total: Lines of all kinds.
        kinds: How many kinds there are; `groups` holds the first of them.
        unparsed: As in `LogLines`.
    """

    date: str
    level: str
    total: int
    kinds: int
    unparsed: int
    groups: list[ErrorGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A written report: where it lies, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message that the webhook took; `duplicate` if it says that it had it already."""

    message_id: str
    status: int
    duplicate: bool


@tool(effect="read", timeout_s=300)
def read_error_logs(
    log_path: Path, date: str, level: str = "error", max_lines: int = 200
) -> LogLines:
    """Read lines of an nginx error log: one day, one level and everything more severe.

    Returns the first `max_lines` of them in file order, and how many there are in all. To count
    or to find the worst, use summarise_errors, which looks at every line.

    Args:
        log_path: The log file.
        date: The day, such as 2026-11-29 or 2026/11/29.
        level: emerg, alert, crit (or critical), error, warn (or warning), notice, info or debug.
        max_lines: At most so many lines come back, 1 to 2000.
    """
    if not 1 <= max_lines <= _MAX_LINES:
        raise ToolError(f"max_lines is {max_lines}; allowed: 1 to {_MAX_LINES}", code="argument")
    scan = _scan(date, level)
    with _opened(log_path) as file:
        lines = scan.first_records(file, max_lines)
    return LogLines(
        date=scan.filter.day,
        level=scan.filter.level,
        total=scan.total,
        returned=len(lines),
        unparsed=scan.unparsed,
        lines=lines,
    )


@tool(effect="read", timeout_s=300)
def summarise_errors(
    log_path: Path, date: str, level: str = "error", order: Order = "count", top: int = 20
) -> Summary:
    """Count the errors of one day in an nginx error log by kind, over the whole file.

    Returns kinds with severity, count, first and last time and a sample line; severe kinds
    first, all connection resets as one kind.

    Args:
        log_path: The log file.
        date: The day, such as 2026-11-29 or 2026/11/29.
        level: The least severe level that counts: emerg, alert, crit (or critical), error,
            warn (or warning), notice, info or debug.
        order: Within a severity by count (most first) or by time (earliest first).
        top: At most so many kinds come back, 1 to 100.
    """
    if not 1 <= top <= _MAX_GROUPS:
        raise ToolError(f"top is {top}; allowed: 1 to {_MAX_GROUPS}", code="argument")
    scan = _scan(date, level)
    with _opened(log_path) as file:
        groups = scan.groups(file, order)
    return Summary(
        date=scan.filter.day,
        level=scan.filter.level,
        total=scan.total,
        kinds=len(groups),
        unparsed=scan.unparsed,
        groups=groups[:top],
    )


@tool(effect="idempotent")
def write_report(
    path: Path,
    title: str,
    groups: list[ErrorGroup],
    total: int | None = None,
    lang: Language = "en",
    top: int = 5,
) -> Report:
    """Write a short Markdown report about groups of errors to a file; returns path and text.

    The file appears whole or not at all, and replaces an older one.

    Args:
        path: The file to write, such as report.md; missing folders are made.
        title: The heading, in the language of the report.
        groups: What summarise_errors returned as groups, the worst first.
        total: What summarise_errors returned as total; the sum of the groups if not given.
        lang: en for English, zh for Chinese.
        top: So many groups are shown in detail, the others in one line.
    """
    count = sum(group.count for group in groups) if total is None else total
    text = render(groups, title=title, total=count, language=lang, top=max(top, 1))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as exc:
        raise ToolError(f"cannot write {path}: {exc.strerror or exc}", code="file") from exc
    return Report(path=str(path), text=text)


@tool(effect="idempotent", timeout_s=60)
async def send_webhook(url: str, message_id: str, text: str, timeout_s: float = 10.0) -> Delivery:
    """Post a message to a webhook as JSON, {"message_id": …, "text": …}.

    The receiver takes each message_id once, so the same call may be made again.

    Args:
        url: Where to, http or https.
        message_id: The same for the same message, such as nginx-report-2026-11-29.
        text: The message.
        timeout_s: Seconds to wait for each step of the exchange.
    """
    target = _target(url)
    body = {"message_id": message_id, "text": text}
    headers = {"Idempotency-Key": message_id}
    try:
        async with (
            httpx2.AsyncClient(timeout=timeout_s) as client,
            client.stream("POST", url, json=body, headers=headers) as response,
        ):
            reply = await _beginning(response)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
        raise NotDone(
            f"cannot connect to {target}", hint="is the receiver running at this address?"
        ) from exc
    except httpx2.HTTPError as exc:
        name = type(exc).__name__
        raise ToolError(
            f"no answer from {target} ({name})", code="no_answer", retryable=True
        ) from exc
    if not response.is_success:
        code = response.status_code
        raise ToolError(
            f"{target} answered {code} {response.reason_phrase}",
            code=f"http_{code}",
            retryable=code == HTTPStatus.TOO_MANY_REQUESTS or response.is_server_error,
        )
    refusal = reply.get("errcode")
    if refusal:
        said = str(reply.get("errmsg", ""))[:200]
        raise ToolError(f"{target} refused the message: {refusal} {said}", code="refused")
    return Delivery(
        message_id=message_id,
        status=response.status_code,
        duplicate=reply.get("duplicate") is True,
    )


def _scan(date: str, level: str) -> Scan:
    try:
        return Scan(Filter.of(date, level))
    except ValueError as exc:
        raise ToolError(str(exc), code="argument") from exc


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    # A pipe or a device would never end.
    if path.exists() and not path.is_file():
        raise ToolError(f"{path} is no regular file; name the log file itself", code="file")
    try:
        with path.open("rb") as file:
            if file.read(2) == _GZIP:
                raise ToolError(f"{path} is compressed; unpack it first", code="file")
            file.seek(0)
            yield file
    except OSError as exc:
        hint = "" if path.is_absolute() else f"looked in {Path.cwd()}"
        raise ToolError(
            f"cannot read {path}: {exc.strerror or exc}", code="file", hint=hint
        ) from exc


def _replace(path: Path, text: str) -> None:
    """Write beside the file and rename, so that nobody ever reads half a report."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _target(url: str) -> str:
    """Scheme and host, to name in errors: path and query of a webhook may be its password."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError) as exc:
        raise ToolError("url is no valid address; write http://host/path", code="argument") from exc
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ToolError("url must begin with http:// or https:// and name a host", code="argument")
    port = f":{parsed.port}" if parsed.port else ""
    return f"{parsed.scheme}://{parsed.host}{port}"


async def _beginning(response: httpx2.Response) -> dict[str, object]:
    """The object that the first bytes of an answer hold; empty if they hold something else.

    Chat services answer 200 and say `{"errcode": 93000, "errmsg": …}` when they refuse.
    """
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _REPLY_BYTES:
            return {}
    try:
        reply: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, object]", reply) if isinstance(reply, dict) else {}
