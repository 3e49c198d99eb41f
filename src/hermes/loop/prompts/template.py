"""The texts that Hermes says to models: named parts, shipped in two languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from hermes.core import json
from hermes.core.problems import did_you_mean
from hermes.errors import ConfigError

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
SYSTEM = ("rules", "tool_rules", "fault_rules", "outside_rules", "finish", "answer")
"""Parts that make up the rules, in this order; each may be empty."""

_HOLE = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """All texts in one language.

    Attributes:
        version: Of the shipped texts that they are, or that they were made from.
        parts: Text of each part by its name; `{NAME}` stands for what is put in.
        overridden: Names of the parts that a user has given, in order.
    """

    language: Language
    version: int
    parts: Mapping[str, str]
    overridden: tuple[str, ...] = ()

    def text(self, part: str, **values: str) -> str:
        """One part with its values put in."""
        return _HOLE.sub(
            lambda hole: f"{{{hole[1]}}}" if hole[1] else values[hole[2]], self.parts[part]
        )

    @property
    def rules(self) -> str:
        """What every agent is told of how it works."""
        return "\n".join(filter(None, map(self.text, SYSTEM)))

    @property
    def digest(self) -> str:
        """Changes with any text."""
        return json.digest(dict(self.parts))

    @property
    def overrides_digest(self) -> str:
        """Changes with any text that a user has given; "" if there is none."""
        given = {name: self.parts[name] for name in self.overridden}
        return json.digest(given) if given else ""

    def overriding(self, given: Mapping[str, str]) -> Prompts:
        """These texts with some parts replaced, all of them checked before."""
        return Prompts(
            language=self.language,
            version=self.version,
            parts={**self.parts, **given},
            overridden=tuple(name for name in self.parts if name in given),
        )


@cache
def shipped(language: Language) -> Prompts:
    """The texts that come with Hermes."""
    file = files("hermes.loop.prompts") / f"system.{language}.toml"
    table = tomllib.loads(file.read_text("utf-8"))
    version = cast("int", table.pop("version"))
    parts = {name: str(text).strip("\n") for name, text in table.items()}
    return Prompts(language=language, version=version, parts=parts)


def check_part(name: str, text: object, *, where: str) -> str:
    """A part that a user gives, ready to be put in.

    Raises:
        ConfigError: There is no such part, it is no text, it is empty where it may not be, or its
            placeholders are not those of the shipped one.
    """
    known = shipped("en").parts
    if name not in known:
        hint = did_you_mean(name, known) or f"parts are: {', '.join(known)}"
        raise ConfigError(f"{where}: there is no prompt part `{name}`", hint=hint)
    if not isinstance(text, str):
        raise ConfigError(f"{where}: prompt part `{name}` is no text, but {text!r:.60}")
    text = text.strip("\n")
    if not text.strip() and name not in SYSTEM:
        raise ConfigError(
            f"{where}: prompt part `{name}` is empty",
            hint=f"only these may be empty: {', '.join(SYSTEM)}",
        )
    _check_holes(name, holes(known[name]), holes(text), where=where)
    return text


def holes(text: str) -> list[str]:
    """Names of the placeholders in a text, each once, in order."""
    return list(dict.fromkeys(hole[2] for hole in _HOLE.finditer(text) if hole[2]))


def _check_holes(name: str, wanted: Sequence[str], given: Sequence[str], *, where: str) -> None:
    for hole in given:
        if hole not in wanted:
            allowed = ", ".join(f"{{{each}}}" for each in wanted) or "none"
            hint = did_you_mean(hole, wanted) or f"placeholders of this part: {allowed}"
            raise ConfigError(
                f"{where}: prompt part `{name}` has an unknown placeholder {{{hole}}}",
                hint=f"{hint}; write {{{{{hole}}}}} for the braces themselves",
            )
    missing = [hole for hole in wanted if hole not in given]
    if missing:
        raise ConfigError(
            f"{where}: prompt part `{name}` lacks {{{missing[0]}}}",
            hint="a text without it would not tell the model what it has to know",
        )
