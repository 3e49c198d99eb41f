"""Bytes into files of the workspace: whole or not at all, and never over what was not meant.

A crash half-way may leave a file `.hermes-tmp-…` beside the one that was to be written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
from contextlib import suppress

from hermes.errors import NotDone, ToolError

from .files_paths import os_fault
from .files_text import encoded
from .files_workspace import Spot, reopened

_RENAME_NOREPLACE = 1
_TEMPORARY = ".hermes-tmp-"
_PERMISSIONS = 0o7777


def write(spot: Spot, data: bytes) -> None:
    """Put a file where the spot is: under another name first, so that nobody sees half of it.

    Raises:
        ToolError: It cannot be written; what was there is untouched.
        NotDone: Somebody made a file there in between.
    """
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    folder = spot.folder
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        try:
            _fill(file, data, like=spot.info)
            if spot.info is None:
                rename_new(temporary, spot.name, folder, folder)
            else:
                os.rename(temporary, spot.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    except FileExistsError as exc:
        raise _appeared(spot) from exc
    except OSError as exc:
        raise os_fault(spot.path, exc) from exc
    _make_durable(spot)


def added(
    spot: Spot, text: str, encoding: str, *, on_new_line: bool, limit: int
) -> dict[str, object]:
    """Add text to the end of a file, or make it; what `append_file` tells.

    Raises:
        ToolError: It cannot be added, or the file would be too large.
        NotDone: Somebody made a file there in between.
    """
    if spot.info is None:
        data = encoded(text, encoding, path=spot.path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            file = os.open(spot.name, flags, 0o666, dir_fd=spot.folder)
        except FileExistsError as exc:
            raise _appeared(spot) from exc
        except OSError as exc:
            raise os_fault(spot.path, exc) from exc
        with os.fdopen(file, "wb"):
            return _appended(spot, file, data)
    if spot.info.st_nlink > 1:
        raise ToolError(
            f"{spot.path!r} has {spot.info.st_nlink} names (hard links), and the others may stand "
            "outside of the workspace",
            code="hard_link",
            hint="write_file gives it a text of its own",
        )
    with reopened(spot, os.O_RDWR | os.O_APPEND) as file:
        plain = encoding.removesuffix("-sig") if spot.info.st_size else encoding
        if plain == "utf-16" and spot.info.st_size:
            plain = _order(file)
        line_break = encoded("\n", plain, path=spot.path)
        data = encoded(text, plain, path=spot.path)
        size = os.fstat(file).st_size
        if (
            on_new_line
            and size
            and os.pread(file, 4, max(0, size - 4))[-len(line_break) :] != (line_break)
        ):
            data = line_break + data
        if size + len(data) > limit:
            raise ToolError(
                f"{spot.path!r} would have {size + len(data):,} bytes, more than {limit:,}",
                code="too_large",
                hint="go on in a new file",
            )
        return _appended(spot, file, data)


def rename_new(old: str, new: str, old_folder: int, new_folder: int) -> None:
    """Rename, unless something has the new name already; both in one step.

    Raises:
        FileExistsError: Something has it.
        OSError: As `os.rename`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(old), os.fsencode(new)
    if not libc.renameat2(old_folder, names[0], new_folder, names[1], _RENAME_NOREPLACE):
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number))
    if stat.S_ISDIR(os.stat(old, dir_fd=old_folder, follow_symlinks=False).st_mode):
        # Of what could have appeared there, only an empty folder would be replaced.
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
        return
    os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)
    os.unlink(old, dir_fd=old_folder)


def _appended(spot: Spot, file: int, data: bytes) -> dict[str, object]:
    before = os.fstat(file).st_size
    try:
        _write_all(file, data)
        os.fsync(file)
    except OSError as exc:
        added_bytes = os.fstat(file).st_size - before
        raise ToolError(
            f"{spot.path!r}: {exc.strerror}; {added_bytes:,} of {len(data):,} bytes were added",
            code="incomplete",
            hint="read the end of the file before you go on",
        ) from exc
    size = os.fstat(file).st_size
    return {"path": spot.path, "added_bytes": len(data), "size_bytes": size}


def _fill(file: int, data: bytes, *, like: os.stat_result | None) -> None:
    try:
        _write_all(file, data)
        if like is not None:
            own = os.fstat(file)
            if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
                with suppress(PermissionError):  # only root may give files away
                    os.fchown(file, like.st_uid, like.st_gid)
            os.fchmod(file, like.st_mode & _PERMISSIONS)
        os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _make_durable(spot: Spot) -> None:
    """Have the new name survive a power cut.

    Raises:
        ToolError: The file is there, but the file system could not promise that.
    """
    try:
        fd = os.open(f"/proc/self/fd/{spot.folder}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as exc:
        raise ToolError(
            f"{spot.path!r} was written, but may be lost in a power cut: {exc.strerror}",
            code="not_durable",
            hint="the disk may be failing; a person has to look",
        ) from exc


def _order(file: int) -> str:
    return "utf-16-be" if os.pread(file, 2, 0) == b"\xfe\xff" else "utf-16-le"


def _appeared(spot: Spot) -> NotDone:
    return NotDone(
        f"{spot.path!r} appeared while it was to be made; nothing was written",
        code="changed",
        hint="read it, then decide",
    )
