"""Which calls need a person's leave, and which tools are never offered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import SplitResult, urlsplit

from hermes.core.json import as_list, as_object, dumps
from hermes.core.problems import did_you_mean
from hermes.errors import ConfigError

from .base import Tool
from .failures import described
from .registry import ToolRegistry
from .runner import Prepared

_SOURCES = ("url", "uri", "address", "path", "file", "file_path", "source", "mailbox", "host")
_SOURCE_CHARS = 200
_SHOWN_ORIGINS = 3
_LINE_CHARS = 800
_ENTRY = re.compile(r"([\w-]+)(?::([\w-]+)=(.+))?", re.DOTALL)
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_SLASH = r"(?:[/\\]|%2f|%5c)"
_UP = re.compile(rf"(?:^|{_SLASH})(?:\.|%2e){{2}}(?:{_SLASH}|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """An entry of an allow-list: a tool, or its calls with a fitting argument.

    Attributes:
        argument: "" where any call is allowed.
        pattern: `*` stands for any text.
    """

    name: str
    argument: str = ""
    pattern: str = ""

    @classmethod
    def of(cls, text: str, *, where: str) -> Self:
        """Read `NAME` or `NAME:ARGUMENT=PATTERN`.

        Args:
            text: The entry.
            where: Names the list, for the error.

        Raises:
            ConfigError: It is neither.
        """
        found = _ENTRY.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{where}: {text!r:.120} is neither NAME nor NAME:ARGUMENT=PATTERN",
                hint="for example `send_mail:to=*@example.com`",
            )
        return cls(name=found[1], argument=found[2] or "", pattern=found[3] or "")

    def fits(self, arguments: Mapping[str, object]) -> bool:
        """Whether a call with these arguments is meant; of a list, each item has to fit."""
        if not self.argument:
            return True
        if self.argument not in arguments:
            return False
        value = arguments[self.argument]
        values = as_list(cast("object", value)) if isinstance(value, list) else [value]
        return bool(values) and all(
            _matches(item if isinstance(item, str) else dumps(item), self.pattern)
            for item in values
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What calls may do without a person once content from outside was read.

    Attributes:
        allow: Calls that need no leave for that reason.
    """

    allow: tuple[Allowed, ...] = ()

    def allows(self, prepared: Prepared) -> bool:
        """Whether a call is on the allow-list."""
        return any(
            entry.name == prepared.tool.name and entry.fits(prepared.arguments)
            for entry in self.allow
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a call waits for a person's leave.

    Attributes:
        because: One line for each reason.
        origin: Of the content from outside, if that is one; "" if not.
    """

    because: tuple[str, ...]
    origin: str = ""


def stop_of(policy: Policy, prepared: Prepared, outside: Mapping[str, str]) -> Stop | None:
    """Whether a call needs leave, and why; None if it does not.

    Args:
        policy: In force.
        prepared: The call.
        outside: Origins of what the model had read from outside, by the path of the call.
    """
    because = _declared(prepared)
    origin = ""
    if outside and acts(prepared.tool) and not policy.allows(prepared):
        origin = origins_line(outside)
        because = (*because, f"content from outside was read before: {origin}")
    return Stop(because=because, origin=origin) if because else None


def acts(tool: Tool) -> bool:
    """Whether a call changes or sends something; reading at home does not."""
    return tool.outbound or tool.effect in ("unsafe", "reconcile", "idempotent")


def _declared(prepared: Prepared) -> tuple[str, ...]:
    asks = prepared.tool.requires_approval
    if not callable(asks):
        return ("this tool always asks",) if asks else ()
    try:
        return ("this tool asks before such a call",) if asks(dict(prepared.arguments)) else ()
    except Exception as exc:  # the tool's author wrote it; in doubt a person is asked
        return (f"requires_approval could not tell: {described(exc)}",)


def origin_of(prepared: Prepared) -> str:
    """Where the result of a call comes from, in one line, if that is outside; "" if not."""
    tool = prepared.tool
    if not tool.untrusted:
        return ""
    given = (prepared.arguments.get(name) for name in _SOURCES)
    source = next((text for text in given if isinstance(text, str) and text.strip()), "")
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\]\[]", " ", source).split())
    if len(line) > _SOURCE_CHARS:
        line = line[: _SOURCE_CHARS - 1] + "…"
    return f"{tool.name} {line}".rstrip()


def origins_line(origins: Mapping[str, str]) -> str:
    """Origins with their paths, the first ones, in one line."""
    shown = [f"{text} ({path})" if path else text for path, text in origins.items()]
    more = len(shown) - _SHOWN_ORIGINS
    line = "; ".join(shown[:_SHOWN_ORIGINS])
    if len(line) > _LINE_CHARS:  # tasks below tasks tell of what those above them had read
        line = line[: _LINE_CHARS - 1] + "…"
    return line + (f"; and {more} more" if more > 0 else "")


def read_allowed(entries: Iterable[str], *, where: str) -> tuple[Allowed, ...]:
    """Read an allow-list.

    Raises:
        ConfigError: An entry has another form.
    """
    return tuple(Allowed.of(entry, where=where) for entry in entries)


def check_allowed(entries: Iterable[Allowed], known: Mapping[str, Tool], *, where: str) -> None:
    """Refuse entries that no call can fit.

    Raises:
        ConfigError: There is no such tool, or it has no such argument.
    """
    for entry in entries:
        check_known([entry.name], known, where=where)
        tool = known[entry.name]
        names = list(as_object(tool.parameters.get("properties")) or {})
        if entry.argument and entry.argument not in names:
            there = f"its arguments: {', '.join(names) or 'none'}"
            raise ConfigError(
                f"{where}: {entry.name} has no argument {entry.argument!r}",
                hint=did_you_mean(entry.argument, names) or there,
            )


def check_known(names: Iterable[str], known: Mapping[str, Tool], *, where: str) -> None:
    """Refuse names of tools that do not exist: what was meant would not be protected.

    Raises:
        ConfigError: One does not.
    """
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{where} names {name!r}, which is no tool",
                hint=did_you_mean(name, known) or f"there are: {', '.join(sorted(known))}",
            )


def without(registry: ToolRegistry, denied: Sequence[str]) -> ToolRegistry:
    """The tools but those that are never offered."""
    if not denied:
        return registry
    return ToolRegistry(tool for tool in registry if tool.name not in denied)


def _matches(text: str, pattern: str) -> bool:
    """Whether a value fits a pattern; an address by its parts, so that no other host does."""
    if "*" not in pattern:
        return text == pattern
    if _UP.search(text):
        return False
    if "://" not in pattern:
        return _fits(text, pattern)
    wanted, given = _address(pattern), _address(text)
    if wanted is None or given is None or _ODD.search(text) or "@" in given.netloc:
        return False
    return (
        given.scheme == wanted.scheme
        and _fits(given.netloc.lower(), wanted.netloc.lower())
        and _fits(_rest(given), _rest(wanted))
    )


def _fits(text: str, pattern: str) -> bool:
    words = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(words, text, re.DOTALL) is not None


def _address(text: str) -> SplitResult | None:
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _rest(address: SplitResult) -> str:
    query = f"?{address.query}" if address.query else ""
    return f"{address.path or '/'}{query}"
