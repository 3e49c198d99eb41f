"""Moving and deleting files of the workspace; group `files`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from hermes.errors import NotDone, ToolError
from hermes.tools.base import NOT_DONE, Tool
from hermes.tools.function import tool

from .files_find import tree
from .files_paths import os_fault
from .files_workspace import Spot, Workspace
from .files_write import rename_new
from .options import BuiltinOptions

MAX_DELETED = 10_000


class Changes:
    """Tools over one workspace; links themselves are moved and deleted, never what they lead to."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)

    def move_file(self, path: str, to: str, overwrite: bool = False) -> dict[str, object]:
        """Move or rename a file, link or folder of the workspace; folders on the way are made.

        Use it to rename or to tidy up. Not to copy, and not across file systems, which it
        refuses. It takes place as a whole or not at all.

        Args:
            path: What to move, relative to the workspace.
            to: Its new path, with its name; not the folder alone.
            overwrite: Replace a file that is there; refused without. A folder is never replaced.

        Returns:
            `path` as it is now, and `replaced_bytes` where a file was replaced.

        Example:
            move_file(path="drafts/周报.md", to="reports/2026-11-30.md")
        """
        with ExitStack() as stack:
            old = stack.enter_context(self._workspace.spot(path, follow=False))
            if old.info is None:
                raise _missing(old)
            new = stack.enter_context(self._workspace.spot(to, follow=False, make_folders=True))
            self._check_move(old, new, overwrite=overwrite)
            try:
                if new.info is None:
                    rename_new(old.name, new.name, old.folder, new.folder)
                else:
                    os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)
            except FileExistsError as exc:
                raise NotDone(f"{new.path!r} appeared in between", code="exists") from exc
            except OSError as exc:
                raise os_fault(f"{old.path} → {new.path}", exc) from exc
            moved: dict[str, object] = {"path": new.path}
            return moved if new.info is None else {**moved, "replaced_bytes": new.size}

    def shown_move(self, path: str, to: str, overwrite: bool = False) -> str:
        """What `move_file` would do."""
        with self._workspace.spot(path, follow=False) as old:
            try:
                with self._workspace.spot(to, follow=False) as new:
                    self._check_move(old, new, overwrite=overwrite)
                    over = f", replacing {new.size:,} bytes" if new.info else ""
            except ToolError as exc:
                if exc.code != "not_found":
                    raise
                over = ", making folders for it"
            return f"move the {old.kind} {old.path!r} to {to!r}{over}"

    def moved(self, _key: str, arguments: Mapping[str, object]) -> object:
        """Whether a `move_file` whose outcome is unknown took place.

        Raises:
            ToolError: Nothing is at either place, so nobody can tell.
        """
        path, to = str(arguments["path"]), str(arguments["to"])
        if self._is_there(path):
            return NOT_DONE
        if self._is_there(to):
            return {"path": to}
        raise ToolError(f"neither {path!r} nor {to!r} is there", code="not_found")

    def delete_file(self, path: str, recursive: bool = False) -> dict[str, object]:
        """Delete a file, a link or a folder of the workspace for good. A person is asked first.

        Use it only where something must go. Not to replace a file (`write_file` with overwrite),
        and never to tidy up unasked. A folder that holds something protected (`.git`, `.env`) or
        more than 10,000 entries is refused as a whole. A link is deleted, not what it leads to.
        If deleting a folder fails half-way, the rest of it stays.

        Args:
            path: What to delete, relative to the workspace.
            recursive: Delete a folder with all that it holds; an empty one goes without.

        Returns:
            `deleted`: the path, and how many files, folders and bytes that was.

        Example:
            delete_file(path="drafts/old.md")
        """
        with self._workspace.spot(path, follow=False) as spot:
            amount = self._amount(spot, recursive=recursive)
            try:
                if spot.kind == "folder":
                    shutil.rmtree(spot.name, dir_fd=spot.folder)
                else:
                    os.unlink(spot.name, dir_fd=spot.folder)
            except OSError as exc:
                raise os_fault(spot.path, exc) from exc
            return {"deleted": spot.path, **amount.as_data()}

    def shown_delete(self, path: str, recursive: bool = False) -> dict[str, object]:
        """What `delete_file` would do."""
        with self._workspace.spot(path, follow=False) as spot:
            amount = self._amount(spot, recursive=recursive)
            return {"would_delete": spot.path, "kind": spot.kind, **amount.as_data()}

    def _check_move(self, old: Spot, new: Spot, *, overwrite: bool) -> None:
        if old.info is None:
            raise _missing(old)
        if not old.name or not new.name:
            raise ToolError("the workspace itself stays where it is", code="workspace")
        if new.path.startswith(f"{old.path}/"):
            raise ToolError(f"{old.path!r} cannot be moved into itself", code="same")
        if new.info is None:
            return
        if os.path.samestat(old.info, new.info):
            raise ToolError(f"{old.path!r} and {new.path!r} are the same", code="same")
        if "file" != new.kind or old.kind == "folder":
            raise ToolError(
                f"{new.path!r} is there already, a {new.kind}",
                code="exists",
                hint=f"to move into it, give the whole new path, as {new.path}/{old.name}",
            )
        if not overwrite:
            raise ToolError(
                f"{new.path!r} is there already ({new.size:,} bytes)",
                code="exists",
                hint="overwrite=true replaces it, or choose another name",
            )

    def _amount(self, spot: Spot, *, recursive: bool) -> _Amount:
        if spot.info is None:
            raise _missing(spot)
        if not spot.name:
            raise ToolError("the workspace itself is not deleted", code="workspace")
        if spot.kind != "folder":
            return _Amount(files=1, size=spot.size)
        amount = _counted(spot)
        if not recursive and amount.files + amount.folders > 1:
            raise ToolError(
                f"the folder {spot.path!r} holds {amount.files} files and "
                f"{amount.folders - 1} folders",
                code="not_empty",
                hint="recursive=true deletes it with all that it holds",
            )
        return amount

    def _is_there(self, path: str) -> bool:
        try:
            with self._workspace.spot(path, follow=False) as spot:
                return spot.info is not None
        except ToolError as exc:
            if exc.code != "not_found":
                raise
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    """What a deletion takes away."""

    files: int = 0
    folders: int = 0
    size: int = 0

    def as_data(self) -> dict[str, object]:
        return {"files": self.files, "folders": self.folders, "size_bytes": self.size}


def _counted(spot: Spot) -> _Amount:
    files = size = 0
    folders = 1
    for entry in tree(spot, limit=MAX_DELETED):
        if entry.kind == "folder":
            folders += 1
        else:
            files += 1
            size += entry.info.st_size
    return _Amount(files=files, folders=folders, size=size)


def _missing(spot: Spot) -> ToolError:
    return ToolError(
        f"{spot.path!r} is not there", code="not_found", hint="list_files shows what there is"
    )


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Moving and deleting in the workspace."""
    changes = Changes(options)
    return (
        tool(reconcile=changes.moved, group="files", preview=changes.shown_move)(changes.move_file),
        tool(
            effect="unsafe",
            group="files",
            preview=changes.shown_delete,
            requires_approval=True,
        )(changes.delete_file),
    )
