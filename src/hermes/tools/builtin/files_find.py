"""What there is in the workspace, by name patterns; links are listed and never followed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import translate
from functools import lru_cache

from hermes.errors import ToolError

from .files_paths import fault, is_protected, os_fault
from .files_workspace import MAX_DEPTH, Spot, Workspace, kind_of, reopened, up_to

MAX_VISITED = 50_000
_MAX_STARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a folder.

    Attributes:
        path: Relative to the workspace.
        inner: Relative to the folder that was listed; what a pattern is held against.
        folder: Descriptor of the folder it is in, open until the next entry is asked for.
    """

    path: str
    inner: str
    info: os.stat_result
    folder: int

    @property
    def kind(self) -> str:
        """As `Spot.kind`."""
        return kind_of(self.info.st_mode)

    def read(self, max_bytes: int) -> bytes:
        """All of a file.

        Raises:
            ToolError: It is no file any more, cannot be opened, or is larger.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        try:
            file = os.open(self.path.rpartition("/")[2], flags, dir_fd=self.folder)
        except OSError as exc:
            raise os_fault(self.path, exc) from exc
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise fault(self.path, "it is no file any more", code="not_a_file")
            raw = up_to(file, max_bytes + 1)
        except OSError as exc:
            raise os_fault(self.path, exc) from exc
        finally:
            os.close(file)
        if len(raw) > max_bytes:
            raise fault(self.path, f"it has more than {max_bytes:,} bytes", code="too_large")
        return raw

    def as_data(self) -> dict[str, object]:
        """What a list shows of it."""
        changed = datetime.fromtimestamp(int(self.info.st_mtime), UTC)
        data: dict[str, object] = {"path": self.path, "kind": self.kind, "changed": changed}
        return {**data, "size_bytes": self.info.st_size} if self.kind == "file" else data


@dataclass(slots=True, kw_only=True)
class Survey:
    """What was met on the way through folders.

    Attributes:
        limit: Entries to look at before it stops.
        is_deep: Everything below is meant, not only so many levels.
        visited: Entries looked at.
        hidden: Protected ones, passed over.
        unread: Folders that could not be opened.
        is_whole: Whether everything was looked at that is meant.
    """

    limit: int = MAX_VISITED
    is_deep: bool = False
    visited: int = 0
    hidden: list[str] = field(default_factory=list[str])
    unread: list[str] = field(default_factory=list[str])
    is_whole: bool = True


def entries(workspace: Workspace, path: str, pattern: str, survey: Survey) -> Iterator[Entry]:
    """What a folder holds and a pattern matches, in order of names; links are not followed.

    Args:
        workspace: Where.
        path: The folder.
        pattern: As in `matches`; one without `/` and `**` is for the folder alone.
        survey: Gets what was met.
    """
    wanted = Pattern(pattern)
    survey.is_deep = wanted.is_deep
    with workspace.listing(path) as (folder, spot):
        prefix = "" if spot.path == "." else f"{spot.path}/"
        for entry in _below(folder, prefix, "", wanted.depth, survey):
            if wanted.fits(entry.inner):
                yield entry


def tree(spot: Spot, *, limit: int) -> Iterator[Entry]:
    """All that a folder holds; raises at the end if some of it must not or cannot be touched.

    Raises:
        ToolError: It holds something protected, a folder that cannot be opened, or too much.
    """
    survey = Survey(limit=limit, is_deep=True)
    with reopened(spot, os.O_RDONLY | os.O_DIRECTORY) as folder:
        yield from _below(folder, f"{spot.path}/", "", MAX_DEPTH, survey)
    if survey.hidden:
        raise ToolError(
            f"{spot.path!r} holds {survey.hidden[0]!r}, which is protected", code="protected"
        )
    if survey.unread:
        raise ToolError(
            f"{spot.path!r} holds {survey.unread[0]!r}, which cannot be opened", code="permission"
        )
    if not survey.is_whole:
        raise ToolError(
            f"{spot.path!r} holds more than {limit:,} entries, or very deep folders",
            code="too_large",
            hint="go through its folders one by one",
        )


class Pattern:
    """A file pattern: `*`, `?` and `[…]` within a name, `**` for any folders.

    Raises:
        ToolError: It has more stars than any pattern needs.
    """

    def __init__(self, text: str) -> None:
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if text.count("*") > _MAX_STARS or len(parts) > MAX_DEPTH:
            raise ToolError(f"the pattern {text[:80]!r} is too long", code="bad_pattern")
        self._parts = tuple(parts) or ("*",)
        self.is_deep = "**" in self._parts
        self.depth = MAX_DEPTH if self.is_deep else len(self._parts)

    def fits(self, path: str) -> bool:
        """Whether it matches a whole relative path."""
        return _fits(self._parts, tuple(path.split("/")))


def _fits(pattern: Sequence[str], names: Sequence[str]) -> bool:
    # One row of a table: which beginnings of the pattern match the names so far.
    row = [True] + [False] * len(pattern)
    for n, part in enumerate(pattern):
        row[n + 1] = row[n] and part == "**"
    for name in names:
        new = [False] * len(row)
        for n, part in enumerate(pattern):
            if part == "**":
                new[n + 1] = row[n + 1] or new[n]
            else:
                new[n + 1] = row[n] and _name_pattern(part).match(name) is not None
        row = new
    return row[-1]


@lru_cache(maxsize=256)
def _name_pattern(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


def _below(folder: int, prefix: str, inner: str, depth: int, survey: Survey) -> Iterator[Entry]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as exc:
        raise os_fault(prefix or ".", exc) from exc
    for name in names:
        if is_protected(name):
            survey.hidden.append(f"{prefix}{name}")
            continue
        if survey.visited >= survey.limit:
            survey.is_whole = False
            return
        survey.visited += 1
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # it has just gone
            continue
        yield Entry(path=f"{prefix}{name}", inner=f"{inner}{name}", info=info, folder=folder)
        if not stat.S_ISDIR(info.st_mode):
            continue
        if depth > 1:
            yield from _into(folder, name, prefix, inner, depth - 1, survey)
        elif survey.is_deep:
            survey.is_whole = False


def _into(
    folder: int, name: str, prefix: str, inner: str, depth: int, survey: Survey
) -> Iterator[Entry]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        below = os.open(name, flags, dir_fd=folder)
    except OSError:
        survey.unread.append(f"{prefix}{name}")
        return
    try:
        yield from _below(below, f"{prefix}{name}/", f"{inner}{name}/", depth, survey)
    finally:
        os.close(below)
