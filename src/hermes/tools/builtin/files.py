"""Reading and writing text files of the workspace; group `files`."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Annotated

from pydantic import Field

from hermes.errors import ToolError
from hermes.tools.base import NOT_DONE, Tool
from hermes.tools.function import tool

from .files_text import Encoding, decoded, encoded, marked_encoding, page
from .files_workspace import Spot, Workspace, must_be, read_all, reopened
from .files_write import added, write
from .options import BuiltinOptions

WRITE_CHARS = 1_000_000
WRITE_BYTES = 4 * WRITE_CHARS + 4


class Files:
    """Tools over one workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)
        self._max_bytes = options.files_max_bytes

    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Field(ge=-1_000_000)] = 1,
        max_lines: Annotated[int, Field(ge=1, le=2_000)] = 500,
        start_char: Annotated[int, Field(ge=1)] = 1,
        encoding: Encoding = "utf-8",
    ) -> dict[str, object]:
        """Read a text file of the workspace, a page of lines at a time.

        Use it to see what a file says. Not for searching many files (`search_files`), for tables
        (`query_data`), or for images and documents, which it refuses. It reads files up to a
        size that is set (10 MiB by default), and shows 12,000 characters at most at a time.

        Args:
            path: Relative to the workspace, as `reports/today.md`; list_files shows what there is.
            start_line: First line, counted from 1; negative numbers count from the end: -20 is
                for the last 20 lines.
            max_lines: Lines to show.
            start_char: First character within the first line, from 1; for very long lines.
            encoding: How its bytes are read. A byte order mark is stronger.

        Returns:
            `text` to the letter, `lines` shown and in all, `encoding`, `size_bytes`, and `more`
            where there is more: with which arguments to go on.

        Example:
            read_file(path="reports/today.md", start_line=-20)
        """
        if start_line == 0:
            raise ToolError("start_line is 0: lines count from 1", code="bad_line")
        with self._workspace.file(path) as (file, spot):
            raw = read_all(file, spot, self._max_bytes)
        text = decoded(raw, encoding, path=spot.path)
        part = page(text.text, start_line=start_line, max_lines=max_lines, start_char=start_char)
        shown: dict[str, object] = {
            "path": spot.path,
            "text": part.text,
            "lines": f"{part.first} to {part.last} of {part.lines}",
            "size_bytes": len(raw),
            "encoding": text.encoding,
        }
        return {**shown, "more": part.more} if part.more else shown

    def write_file(
        self,
        path: str,
        text: Annotated[str, Field(max_length=WRITE_CHARS)],
        overwrite: bool = False,
        encoding: Encoding = "utf-8",
    ) -> dict[str, object]:
        r"""Write a whole text file of the workspace; folders on the way are made.

        Use it for a new file, or with `overwrite` to replace one. Not to add to a file
        (`append_file`). The file is there whole or not at all, also after a crash, and keeps its
        mode. A second name of the same file (a hard link) keeps the old text, and extended
        attributes are not carried over.

        Args:
            path: Relative to the workspace, as `reports/today.md`.
            text: All that the file shall say, to the letter; 1,000,000 characters at most.
            overwrite: Replace the text of a file that says something else; refused without.
            encoding: How it is written; `utf-8-sig` is what Excel takes for Chinese.

        Returns:
            `path`, `size_bytes`, and what was `done`: created, replaced or unchanged.

        Example:
            write_file(path="reports/today.md", text="# 日报\n", overwrite=true)
        """
        data = encoded(text, encoding, path=path)
        with self._workspace.spot(path, make_folders=True) as spot:
            if self._says(spot) == data:
                return {"path": spot.path, "size_bytes": len(data), "done": "unchanged"}
            if spot.info is not None and not overwrite:
                raise ToolError(
                    f"{spot.path!r} is there already ({spot.size:,} bytes)",
                    code="exists",
                    hint="overwrite=true replaces it; append_file adds to it",
                )
            write(spot, data)
            done = "created" if spot.info is None else "replaced"
            return {"path": spot.path, "size_bytes": len(data), "done": done}

    def shown_write(
        self, path: str, text: str, overwrite: bool = False, encoding: Encoding = "utf-8"
    ) -> str:
        """What `write_file` would do."""
        size = len(encoded(text, encoding, path=path))
        with self._looked_up(path) as spot:
            if spot is None or spot.info is None:
                return f"create {path!r} ({size:,} bytes)"
            was = must_be(spot, "file").size
            if not overwrite:
                return f"nothing: {spot.path!r} is there already ({was:,} bytes)"
            return f"replace {spot.path!r} ({was:,} bytes) by {size:,} bytes"

    def append_file(
        self,
        path: str,
        text: Annotated[str, Field(min_length=1, max_length=WRITE_CHARS)],
        on_new_line: bool = True,
        encoding: Encoding = "utf-8",
    ) -> dict[str, object]:
        r"""Add text to the end of a file of the workspace; a missing file is created.

        Use it for logs and lists that grow. Not to change what a file says (`write_file`). After
        a crash a part of the text may be there. A file with a second name (a hard link) is
        refused: that name may stand outside of the workspace.

        Args:
            path: Relative to the workspace, as `logs/decisions.md`.
            text: What to add, to the letter; end it with a line break if it is a line.
            on_new_line: Begin a new line first, if the file does not end with one.
            encoding: Must be the file's own.

        Returns:
            `path`, `added_bytes`, and `size_bytes` of the file as it is now.

        Example:
            append_file(path="logs/decisions.md", text="- 2026-11-30 退款已批准\n")
        """
        with self._workspace.spot(path, make_folders=True) as spot:
            if spot.info is not None:
                self._check_fits(must_be(spot, "file"), encoding)
            return added(spot, text, encoding, on_new_line=on_new_line, limit=self._max_bytes)

    def shown_append(
        self, path: str, text: str, on_new_line: bool = True, encoding: Encoding = "utf-8"
    ) -> str:
        """What `append_file` would do."""
        size = len(encoded(text, encoding, path=path))
        with self._looked_up(path) as spot:
            if spot is None or spot.info is None:
                return f"create {path!r} ({size:,} bytes)"
            return f"add {size:,} bytes to {spot.path!r} ({spot.size:,} bytes)"

    def wrote(self, _key: str, arguments: Mapping[str, object]) -> object:
        """Whether a `write_file` whose outcome is unknown took place: the file says it then.

        It is written whole or not at all. What somebody else has written since then counts as
        not done: the call is made again, and replaces it only if it may.
        """
        path, encoding = str(arguments["path"]), str(arguments.get("encoding", "utf-8"))
        data = encoded(str(arguments["text"]), encoding, path=path)
        with self._looked_up(path) as spot:
            if spot is None or spot.info is None or self._says(spot) != data:
                return NOT_DONE
            return {"path": spot.path, "size_bytes": len(data), "done": "written"}

    def _says(self, spot: Spot) -> bytes | None:
        """The bytes of a file; None if there is none, or it is larger than may be written."""
        if spot.info is None or must_be(spot, "file").size > WRITE_BYTES:
            return None
        with reopened(spot, os.O_RDONLY) as file:
            return read_all(file, spot, WRITE_BYTES)

    def _check_fits(self, spot: Spot, encoding: str) -> None:
        with reopened(spot, os.O_RDONLY) as file:
            marked = marked_encoding(os.read(file, 4))
        if marked and marked.removesuffix("-sig") != encoding.removesuffix("-sig"):
            raise ToolError(
                f"{spot.path!r} is {marked} by its byte order mark, not {encoding}",
                code="wrong_encoding",
                hint=f"say encoding={marked!r}",
            )

    @contextmanager
    def _looked_up(self, path: str) -> Generator[Spot | None]:
        """Where a path leads; None if even a folder on the way is missing."""
        with ExitStack() as stack:
            try:
                spot = stack.enter_context(self._workspace.spot(path))
            except ToolError as exc:
                if exc.code != "not_found":
                    raise
                spot = None
            yield spot


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Reading and writing in the workspace."""
    files = Files(options)
    foreign = not options.files_trusted
    return (
        tool(effect="read", group="files", untrusted_output=foreign)(files.read_file),
        tool(reconcile=files.wrote, group="files", preview=files.shown_write)(files.write_file),
        tool(effect="unsafe", group="files", preview=files.shown_append)(files.append_file),
    )
