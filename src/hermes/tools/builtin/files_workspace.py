"""One folder that paths of tools are bound to: each path is walked by hand and never leaves it.

A path is opened folder by folder, each relative to the one before and without following links;
what a link says is walked the same way. So it is the place that is bound, not the text: a link
that is swapped in while a call runs leads nowhere else, since nothing is looked up twice.

Two things this cannot see: a hard link to a file outside (the kernel shows only a file with more
than one name), and another file system that somebody mounted inside.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hermes.errors import ToolError

from .files_paths import checked, fault, os_fault, outside, refuse_protected

MAX_DEPTH = 64
MAX_LINKS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a path leads; its descriptors are open as long as the block that gave it.

    Attributes:
        path: Relative to the workspace, links resolved; "." for the workspace itself.
        folder: Descriptor of the folder that holds it.
        name: Its name in there; "" for the workspace itself.
        info: What is there; None if nothing is.
        handle: Descriptor of exactly that, good for `reopened`; -1 if nothing is there.
    """

    path: str
    folder: int
    name: str
    info: os.stat_result | None
    handle: int

    @property
    def kind(self) -> str:
        """`file`, `folder`, `link`, `nothing`, or what else it is."""
        return "nothing" if self.info is None else kind_of(self.info.st_mode)

    @property
    def size(self) -> int:
        """Bytes; 0 if nothing is there."""
        return 0 if self.info is None else self.info.st_size


class Workspace:
    """The folder, opened anew for each call.

    Args:
        root: The folder; a link to one is followed, since the user gave it.
    """

    def __init__(self, root: Path) -> None:
        self._given = root

    @property
    def root(self) -> Path:
        """The folder's absolute path; a relative one is of the present folder."""
        return self._given.absolute()

    @contextmanager
    def spot(
        self, path: str, *, follow: bool = True, make_folders: bool = False
    ) -> Generator[Spot]:
        """Where a path leads.

        Args:
            path: Relative to the workspace, or absolute and inside of it.
            follow: If its last part is a link, where that leads; the link itself if not.
            make_folders: Make folders that are missing on the way.

        Raises:
            ToolError: It leads outside, is protected, or cannot be walked.
        """
        walk = _Walk(self._opened(), self.root, path, make_folders=make_folders)
        try:
            spot = walk.to_end(self._parts(path), follow=follow)
            if path.endswith("/") and spot.kind != "folder":
                raise fault(path, "it ends as a folder does, and is none", code="not_a_folder")
            yield spot
        finally:
            walk.close()

    @contextmanager
    def file(self, path: str) -> Generator[tuple[int, Spot]]:
        """A descriptor to read a file with, and where the file stands.

        Raises:
            ToolError: As `spot`; or there is none, or it is no regular file.
        """
        with self.spot(path) as spot:
            with reopened(must_be(spot, "file"), os.O_RDONLY) as file:
                yield file, spot

    @contextmanager
    def listing(self, path: str) -> Generator[tuple[int, Spot]]:
        """A descriptor to list a folder with, and where the folder stands.

        Raises:
            ToolError: As `spot`; or there is none, or it is no folder.
        """
        with self.spot(path) as spot:
            with reopened(must_be(spot, "folder"), os.O_RDONLY | os.O_DIRECTORY) as folder:
                yield folder, spot

    def _opened(self) -> int:
        try:
            return os.open(self.root, os.O_PATH | os.O_DIRECTORY)
        except OSError as exc:
            raise ToolError(
                f"the workspace {str(self.root)!r} cannot be opened: {exc.strerror}",
                code="no_workspace",
                hint="HERMES_WORKSPACE names a folder that must exist",
            ) from exc

    def _parts(self, path: str) -> list[str]:
        parts = PurePosixPath(checked(path)).parts
        is_absolute = parts[:1] in (("/",), ("//",))
        own = inside(parts, self.root, path) if is_absolute else [*parts]
        if len(own) > MAX_DEPTH + 1:
            raise fault(path, f"it is deeper than {MAX_DEPTH} folders", code="too_long")
        return own


class _Walk:
    """One way through the workspace: every folder on it stays open until its end."""

    def __init__(self, root: int, root_path: Path, path: str, *, make_folders: bool) -> None:
        self._folders, self._names = [root], [""]
        self._opened = [root]
        self._root_path, self._path, self._make = root_path, path, make_folders
        self._links = 0

    def close(self) -> None:
        for fd in self._opened:
            os.close(fd)

    def to_end(self, parts: list[str], *, follow: bool) -> Spot:
        todo = deque(parts)
        while todo:
            part = todo.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                self._up()
                continue
            refuse_protected(part, self._path)
            handle = self._open(part, [*todo])
            if handle < 0:
                return self._leaf(part, None, -1)
            info = os.fstat(handle)
            if stat.S_ISLNK(info.st_mode) and (follow or todo):
                todo.extendleft(reversed(self._link(handle)))
            elif stat.S_ISDIR(info.st_mode):
                self._into(part, handle)
            elif todo:
                raise fault(self._path, f"{part!r} on its way is no folder", code="not_a_folder")
            else:
                return self._leaf(part, info, handle)
        here = self._folders[-1]
        above = self._folders[-2] if len(self._folders) > 1 else here
        path = "/".join(self._names[1:]) or "."
        name = self._names[-1]
        return Spot(path=path, folder=above, name=name, info=os.fstat(here), handle=here)

    def _leaf(self, name: str, info: os.stat_result | None, handle: int) -> Spot:
        path = "/".join([*self._names[1:], name])
        return Spot(path=path, folder=self._folders[-1], name=name, info=info, handle=handle)

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise outside(self._path)
        self._folders.pop()
        self._names.pop()

    def _into(self, name: str, folder: int) -> None:
        if len(self._folders) > MAX_DEPTH:
            raise fault(self._path, f"it is deeper than {MAX_DEPTH} folders")
        self._folders.append(folder)
        self._names.append(name)

    def _open(self, name: str, rest: list[str]) -> int:
        for _ in range(3):  # somebody else may make or remove it in between
            try:
                handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._folders[-1])
            except FileNotFoundError:
                if not rest:
                    return -1
                if not self._make or ".." in rest:
                    raise fault(
                        self._path,
                        f"there is no folder {name!r}",
                        code="not_found",
                        hint="list_files shows what there is",
                    ) from None
                for later in rest:  # before anything is made
                    refuse_protected(later, self._path)
                self._make_folder(name)
            except OSError as exc:
                raise os_fault(self._path, exc) from exc
            else:
                self._opened.append(handle)
                return handle
        raise fault(self._path, f"the folder {name!r} comes and goes", code="changed")

    def _make_folder(self, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=self._folders[-1])
        except FileExistsError:
            return
        except OSError as exc:
            raise os_fault(self._path, exc) from exc

    def _link(self, handle: int) -> list[str]:
        self._links += 1
        if self._links > MAX_LINKS:
            raise fault(self._path, "its links lead in a circle", code="loop")
        target = PurePosixPath(os.readlink("", dir_fd=handle))
        if not target.is_absolute():
            return [*target.parts]
        parts = inside(target.parts, self._root_path, self._path)
        del self._folders[1:], self._names[1:]
        return parts


def inside(parts: tuple[str, ...], root: Path, path: str) -> list[str]:
    """The rest of an absolute path after the workspace's own, compared part by part.

    Raises:
        ToolError: It is not one.
    """
    for known in (root, Path(os.path.realpath(root))):
        if parts[: len(known.parts)] == known.parts:
            return [*parts[len(known.parts) :]]
    raise outside(path)


def must_be(spot: Spot, kind: str) -> Spot:
    """The spot itself, if that kind of thing is there.

    Raises:
        ToolError: Something else is there, or nothing.
    """
    if spot.kind == kind:
        return spot
    if spot.info is None:
        raise fault(
            spot.path, f"there is no such {kind}", code="not_found", hint="list_files shows what is"
        )
    raise fault(spot.path, f"it is a {spot.kind}, not a {kind}", code=f"not_a_{kind}")


@contextmanager
def reopened(spot: Spot, flags: int) -> Generator[int]:
    """A descriptor of exactly what the walk found, with other flags; never waits for a peer."""
    try:
        fd = os.open(f"/proc/self/fd/{spot.handle}", flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as exc:
        raise os_fault(spot.path, exc) from exc
    try:
        yield fd
    finally:
        os.close(fd)


def read_all(file: int, spot: Spot, max_bytes: int) -> bytes:
    """What a descriptor reads, from its present place on.

    Raises:
        ToolError: It is more than `max_bytes`.
    """
    try:
        raw = up_to(file, max_bytes + 1)
    except OSError as exc:
        raise os_fault(spot.path, exc) from exc
    if len(raw) > max_bytes:
        size = max(len(raw), os.fstat(file).st_size)
        raise fault(
            spot.path,
            f"it has {size:,} bytes, more than {max_bytes:,}",
            code="too_large",
            hint="query_data reads tables of any size; HERMES_FILES_MAX_BYTES is the bound",
        )
    return raw


def up_to(file: int, most: int) -> bytes:
    """What a descriptor reads, from its present place on, `most` bytes at the most."""
    # As large as the file: a buffer as large as the bound would have to be made for each file.
    size = min(os.fstat(file).st_size + 1, most)
    with os.fdopen(os.dup(file), "rb") as stream:
        raw = stream.read(size)
        return raw if len(raw) < size else raw + stream.read(most - len(raw))


def kind_of(mode: int) -> str:
    """What a file mode is, in a word."""
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
    }
    return kinds.get(stat.S_IFMT(mode), "device")
