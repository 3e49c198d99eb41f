"""A scratch copy of a folder to run tools in, and how it looks afterwards."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from hermes.errors import ConfigError

from .crash import SQLiteGround
from .scenario import Place

LEFT_OUT = frozenset(
    {".git", ".hermes", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache"}
)
Content = tuple[str, ...] | str

MAX_BYTES = 256 * 2**20
_MAX_LINES_BYTES = 2**20


class ScratchGround:
    """Gives each run a copy of a folder, and knows what was done to the files of interest.

    Args:
        source: The folder; version control, environments and caches are left out of the copies.
        folder: Where the copies are made.
        effects: Files outside of it that only ever grow; what a run appends is its effect.

    Raises:
        ConfigError: The folder is too large to be copied for each run, or cannot be read; or an
            effect is no file.
    """

    def __init__(self, source: Path, folder: Path, *, effects: Sequence[Path] = ()) -> None:
        self._source, self._effects = source, tuple(effects)
        seed = folder / "seed"
        for path in effects:
            _check_effect(path)
        _check_size(source)
        try:
            shutil.copytree(source, seed, symlinks=True, ignore=_left_out)
        except (OSError, shutil.Error) as exc:
            raise ConfigError(
                f"{source} cannot be copied for the runs: {_first_reason(exc)}",
                hint="start in a folder that holds the agent and little else",
            ) from exc
        self._before = {name: _content(path) for name, path in _files(seed)}
        self._inner = SQLiteGround(folder / "runs", seed=seed)
        self._sizes: dict[Path, int] = {}
        self._unsteady: set[str] = set()

    def fresh(self) -> Place:
        """A new copy."""
        self._sizes = {path: _size(path) for path in self._effects}
        return self._inner.fresh()

    def clear(self, place: Place) -> None:
        """Remove the copy."""
        self._inner.clear(place)

    def measure(self, folder: Path) -> dict[str, object]:
        """What the run changed: file to lines, sorted, or to a digest where it is large or binary.

        Of a file that differs between runs without a crash, such as one with times in it, only
        the number of lines counts.
        """
        found: dict[str, object] = {}
        for name, path in _files(folder):
            content = _content(path)
            if content != self._before.get(name):
                found[name] = self._counted(name, content)
        for path in self._effects:
            appended = path.read_bytes()[self._sizes.get(path, 0) :] if path.exists() else b""
            found[str(path)] = self._counted(str(path), _lines(appended))
        return found

    def compare(self, first: object, second: object) -> list[str]:
        """Find the files in which two runs without a crash differ; from now on they count less."""
        one, other = _as_table(first), _as_table(second)
        self._unsteady |= {name for name in {*one, *other} if one.get(name) != other.get(name)}
        return sorted(self._unsteady)

    def _counted(self, name: str, content: Content) -> object:
        if name not in self._unsteady:
            return content
        return f"{len(content)} lines" if isinstance(content, tuple) else "changed"


def _as_table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value)  # of `measure`


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not LEFT_OUT & set(inner.parts):
            yield str(inner), path


def _content(path: Path) -> Content:
    raw = path.read_bytes()
    return _lines(raw) if len(raw) <= _MAX_LINES_BYTES else hashlib.sha256(raw).hexdigest()[:16]


def _lines(raw: bytes) -> Content:
    try:
        return tuple(sorted(raw.decode().splitlines()))
    except UnicodeDecodeError:
        return hashlib.sha256(raw).hexdigest()[:16]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Names that are not copied, among them pipes, sockets and devices, which cannot be."""
    paths = {name: Path(folder, name) for name in names}
    return {
        name
        for name, path in paths.items()
        if name in LEFT_OUT or not (path.is_symlink() or path.is_file() or path.is_dir())
    }


def _first_reason(exc: OSError) -> str:
    """What went wrong with the first file; `shutil` gathers all of them."""
    if isinstance(exc, shutil.Error):
        return str(cast("list[tuple[str, str, str]]", exc.args[0])[0][2])
    return str(exc)


def _check_effect(path: Path) -> None:
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(
            f"--effects {path}: is {'a folder' if path.is_dir() else 'in no folder that exists'}",
            hint="give the file to which the tools append",
        )


def _check_size(source: Path) -> None:
    total = 0
    for _, path in _files(source):
        total += path.stat().st_size
        if total > MAX_BYTES:
            raise ConfigError(
                f"{source} holds more than {MAX_BYTES // 2**20} MiB, too much to copy for each run",
                hint="start in a folder that holds the agent and little else",
            )
