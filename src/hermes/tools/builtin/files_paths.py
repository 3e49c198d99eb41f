"""Paths as text: what they mean, what they hide, and what is left alone."""

from __future__ import annotations

import errno
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from hermes.errors import ToolError

_MAX_NAME_BYTES = 255
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They turn the direction of writing, so that a name looks like another one."""
_MAX_PATH_BYTES = 4_000
_SHOWN_CHARS = 120
_PROTECTED = frozenset({".hermes", ".git", ".env", "hermes.toml"})
_OPENLY = frozenset({".env.example"})
_RELATIVE = "give a path relative to the workspace, as `reports/today.md`"


def is_protected(name: str) -> bool:
    """Whether tools leave a file of this name alone: keys, settings, journal, repository."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return plain in _PROTECTED or (plain.startswith(".env.") and plain not in _OPENLY)


def os_fault(path: str, exc: OSError) -> ToolError:
    """An error of the operating system, as the model reads it."""
    code = {errno.EACCES: "permission", errno.EPERM: "permission", errno.ENOENT: "not_found"}
    reason = exc.strerror or type(exc).__name__
    return fault(path, reason[:1].lower() + reason[1:], code=code.get(exc.errno or 0, "failed"))


def checked(path: str) -> str:
    """A path as text, if it is one that means what it seems to.

    Raises:
        ToolError: It is not; the message says why.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise fault(path, "it holds half a character") from None
    if not path.strip():
        raise fault(path, "it is empty", hint="`.` is the workspace itself")
    if any(char < " " or char == "\x7f" or char in _TURNING for char in path):
        raise fault(path, "it holds a control character")
    if "\\" in path:
        raise fault(path, "it holds a backslash", hint="`/` stands between folders")
    if "://" in path:
        raise fault(path, "it is an address, not a path", hint=_RELATIVE)
    parts = path.split("/")
    if parts[0].startswith("~"):
        raise fault(path, "`~` has no meaning here", hint=_RELATIVE)
    if size > _MAX_PATH_BYTES or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise fault(
            path,
            f"a name has at most {_MAX_NAME_BYTES} bytes (85 Chinese characters), "
            f"a path {_MAX_PATH_BYTES}",
            code="too_long",
        )
    if any("\0" in form or _climbs(form) > _climbs(path) for form in _other_forms(path)):
        raise fault(path, "it hides `..` or a zero byte in other characters", code="outside")
    return path


def _other_forms(path: str) -> Iterator[str]:
    """What somebody else might make of a path."""
    form = path
    for _ in range(4):  # encoded twice, and once more
        form = unquote(form)
        yield unicodedata.normalize("NFKC", form)


def _climbs(form: str) -> int:
    return form.replace("\\", "/").split("/").count("..")


def refuse_protected(name: str, path: str) -> None:
    """Refuse a way that goes through a protected name.

    Raises:
        ToolError: It is one.
    """
    if is_protected(name):
        raise fault(
            path,
            f"{name!r} is protected: it may hold keys, settings or the journal",
            code="protected",
            hint="a person has to look at it or change it",
        )


def outside(path: str) -> ToolError:
    """The error of a path that leads out."""
    return fault(path, "it leads outside the workspace", code="outside", hint=_RELATIVE)


def fault(path: str, text: str, *, code: str = "bad_path", hint: str = "") -> ToolError:
    """An error that names a path."""
    shown = path if len(path) <= _SHOWN_CHARS else f"{path[: _SHOWN_CHARS - 1]}…"
    return ToolError(f"{shown!r}: {text}", code=code, hint=hint)
