"""Tools that look for files and for words in them; group `files`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hermes.core.json import as_object, dumps, loads
from hermes.errors import ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool
from hermes.tools.processes import ProcessTimeout, run_process
from hermes.tools.threads import call_in_thread

from .files_find import Survey, entries
from .files_match import LINE_CHARS, Search
from .files_text import Encoding, decoded
from .files_workspace import Workspace
from .options import BuiltinOptions

REGEX_TIMEOUT_S = 10.0
MAX_SEARCHED_BYTES = 32 * 1024 * 1024
_OUTPUT_BYTES = 4_000_000
_NAMED = 5
_PROGRAM = str(Path(__file__).with_name("files_match.py"))


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What a search went over, and what it left out."""

    survey: Survey = field(default_factory=Survey)
    files: int = 0
    size: int = 0
    skipped: list[str] = field(default_factory=list[str])
    is_whole: bool = True

    def told(self) -> dict[str, object]:
        data: dict[str, object] = {"files_searched": self.files}
        if self.skipped:
            data["skipped"] = [*self.skipped[:_NAMED]]
            if len(self.skipped) > _NAMED:
                data["skipped_files"] = len(self.skipped)
        if self.survey.unread:
            data["unreadable_folders"] = self.survey.unread[:_NAMED]
        if not (self.is_whole and self.survey.is_whole):
            data["incomplete"] = (
                f"stopped after {self.survey.visited:,} entries and {self.size:,} bytes; narrow "
                "path or pattern"
            )
        return data


class Finding:
    """Tools over one workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)
        self._max_bytes = options.files_max_bytes

    def list_files(
        self,
        path: str = ".",
        pattern: Annotated[str, Field(min_length=1, max_length=200)] = "*",
        limit: Annotated[int, Field(ge=1, le=1_000)] = 200,
    ) -> dict[str, object]:
        """List files and folders of the workspace, by name.

        Use it to find out what there is. Not for what files say (`search_files`). Links are shown
        and not followed; what may hold keys, settings or the journal is not shown. It looks at
        50,000 entries at most.

        Args:
            path: The folder, relative to the workspace.
            pattern: `*.csv` for the folder itself, `**/*.csv` for all below it too. `*` and `?`
                do not match `/`.
            limit: Entries to show.

        Returns:
            `entries` with path, kind (file, folder, link), size in bytes and time of the last
            change (UTC); `found` in all; `incomplete` if not everything was looked at.

        Example:
            list_files(path="reports", pattern="**/*.md")
        """
        survey = Survey()
        shown: list[dict[str, object]] = []
        found = 0
        for entry in entries(self._workspace, path, pattern, survey):
            found += 1
            if len(shown) < limit:
                shown.append(entry.as_data())
        data: dict[str, object] = {"entries": shown, "found": found}
        if survey.unread:
            data["unreadable_folders"] = survey.unread[:_NAMED]
        if not survey.is_whole:
            data["incomplete"] = f"stopped after {survey.visited:,} entries; narrow the path"
        return data

    async def search_files(
        self,
        text: Annotated[str, Field(min_length=1, max_length=500)],
        ctx: ToolContext,
        path: str = ".",
        pattern: Annotated[str, Field(min_length=1, max_length=200)] = "**",
        regex: bool = False,
        ignore_case: bool = False,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
        encoding: Encoding = "utf-8",
    ) -> dict[str, object]:
        """Find lines in text files of the workspace.

        Use it to find where something is said. Not to read a file (`read_file`), nor to count in
        tables (`query_data`). It goes over 32 MiB at most, skips binary and very large files
        and says so, and searches the first 10,000 characters of a line. A regular expression has
        10 seconds.

        Args:
            text: What a line must hold.
            path: The folder, relative to the workspace.
            pattern: Which files, as `**/*.md`; `*.md` for the folder itself alone.
            regex: `text` is a regular expression, as in Python.
            ignore_case: Take upper and lower case for the same.
            limit: Lines to show.
            encoding: How the files' bytes are read; files that are in another are skipped.
            ctx: Says when to stop.

        Returns:
            `matches` with path, line number (from 1) and text; `found` in all, `files_searched`,
            and what was skipped.

        Example:
            search_files(text="退款", path="tickets", pattern="**/*.md")
        """
        flags = "(?i)" if ignore_case else ""
        seen = _Seen()
        if regex:
            wanted = f"{flags}{text}" if flags else text

            def texts() -> Iterator[tuple[str, str]]:
                return self._texts(path, pattern, encoding, seen, ctx)

            return await _by_regex(wanted, limit, texts, seen)
        search = Search(f"{flags}{re.escape(text)}", limit=limit)

        def work() -> list[dict[str, object]]:
            files = self._texts(path, pattern, encoding, seen, ctx)
            return [match for name, content in files for match in search.matches(name, content)]

        matches = await call_in_thread(work)
        return _result(matches, search.summary(), seen)

    def _texts(
        self, path: str, pattern: str, encoding: str, seen: _Seen, ctx: ToolContext
    ) -> Iterator[tuple[str, str]]:
        for entry in entries(self._workspace, path, pattern, seen.survey):
            if entry.kind != "file":
                continue
            if ctx.cancelled:
                raise ToolError("the search was stopped", code="stopped")
            if entry.info.st_size > self._max_bytes:
                seen.skipped.append(f"{entry.path}: too large")
                continue
            if seen.size + entry.info.st_size > MAX_SEARCHED_BYTES:
                seen.is_whole = False
                return
            try:
                raw = entry.read(self._max_bytes)
                text = decoded(raw, encoding, path=entry.path).text
            except ToolError as exc:
                seen.skipped.append(exc.message[:200])
                continue
            seen.size += len(raw)
            seen.files += 1
            # A name need not be UTF-8.
            yield entry.path.encode("utf-8", "backslashreplace").decode(), text


async def _by_regex(
    wanted: str, limit: int, texts: Callable[[], Iterator[tuple[str, str]]], seen: _Seen
) -> dict[str, object]:
    """The search in a process of its own, which can be ended."""

    def gather() -> bytes:
        header: dict[str, object] = {"pattern": wanted, "limit": limit}
        lines = [dumps(header), *(dumps({"path": n, "text": text}) for n, text in texts())]
        return "\n".join(lines).encode()

    data = await call_in_thread(gather)
    assert isinstance(data, bytes)
    command = (sys.executable, "-I", "-S", "-X", "utf8", _PROGRAM)
    try:
        ended = await run_process(
            command, timeout_s=REGEX_TIMEOUT_S, input=data, limit_bytes=_OUTPUT_BYTES
        )
    except ProcessTimeout as exc:
        raise ToolError(
            f"the pattern {wanted[:80]!r} did not come to an end within {REGEX_TIMEOUT_S:g} s",
            code="slow_pattern",
            hint="avoid repeats within repeats, as `(a+)+`, or search for plain text",
        ) from exc
    *matches, last = [as_object(loads(line)) for line in ended.check().stdout.splitlines()]
    if last is None or "error" in last:
        reason = last["error"] if last else "no answer"
        raise ToolError(f"{wanted[:80]!r} is no pattern: {reason}", code="bad_pattern")
    return _result(matches, last, seen)


def _result(matches: object, summary: dict[str, object], seen: _Seen) -> dict[str, object]:
    data: dict[str, object] = {"matches": matches, "found": summary["found"], **seen.told()}
    if summary["cut"]:
        data["long_lines"] = (
            f"{summary['cut']} lines were searched in their first {LINE_CHARS:,} characters alone"
        )
    return data


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Looking around in the workspace."""
    finding = Finding(options)
    foreign = not options.files_trusted
    return (
        tool(effect="read", group="files", untrusted_output=foreign)(finding.list_files),
        tool(effect="read", group="files", untrusted_output=foreign, concurrency=4, timeout_s=60.0)(
            finding.search_files
        ),
    )
