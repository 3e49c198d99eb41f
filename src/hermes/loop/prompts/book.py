"""Which texts an agent is given: its language, and the parts that a user overrides."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from hermes.core.problems import did_you_mean
from hermes.errors import ConfigError

from .template import LANGUAGES, Language, Prompts, check_part, shipped

LanguageChoice = Literal["auto", "en", "zh"]

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_FILE = re.compile(r"system\.(en|zh)\.toml")

Overrides = Mapping[Language, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBook:
    """The texts in all languages, with what a user has given.

    Attributes:
        choice: The language, or `auto` for that of an agent and its goal.
        overrides: Checked parts by language.
        source: Where they came from, for people.
    """

    choice: LanguageChoice = "auto"
    overrides: Overrides = field(default_factory=dict[Language, Mapping[str, str]])
    source: str = ""

    def of(self, language: Language) -> Prompts:
        """All texts in one language."""
        given = self.overrides.get(language, {})
        return shipped(language).overriding(given) if given else shipped(language)

    def choose(self, *texts: str) -> Prompts:
        """All texts in the language that is set, else in that of these texts.

        Args:
            texts: The agent's role and instructions, and the goal.
        """
        return self.of(language_of(texts) if self.choice == "auto" else self.choice)


def language_of(texts: Sequence[str]) -> Language:
    """`zh` for texts with more Chinese characters than words of other scripts, else `en`."""
    text = "\n".join(texts)
    han = len(_HAN.findall(text))
    is_japanese = len(_KANA.findall(text)) * 10 > han
    return "zh" if han > len(_WORD.findall(text)) and not is_japanese else "en"


def read_overrides(path: Path) -> Overrides:
    """The parts that a user gives, checked.

    Args:
        path: A TOML file with parts for every language, or in tables `[en]` and `[zh]` for one; or
            a folder with `system.en.toml` or `system.zh.toml` or both.

    Raises:
        ConfigError: It cannot be read, or a part is wrong; the message names file and part.
    """
    if not path.is_dir():
        return _of_file(path, _table(path))
    found: dict[Language, Mapping[str, str]] = {}
    for file in sorted(path.glob("*.toml")):
        name = _FILE.fullmatch(file.name)
        if name is None:
            names = [f"system.{language}.toml" for language in LANGUAGES]
            hint = did_you_mean(file.name, names) or f"files are: {', '.join(names)}"
            raise ConfigError(f"{path}: there is no prompt file `{file.name}`", hint=hint)
        found[cast("Language", name[1])] = _parts(_table(file), where=str(file))
    if not found:
        raise ConfigError(
            f"{path}: no prompt file in this folder", hint="write system.en.toml or system.zh.toml"
        )
    return found


def _of_file(path: Path, table: Mapping[str, object]) -> Overrides:
    for_all = {name: text for name, text in table.items() if name not in LANGUAGES}
    found: dict[Language, Mapping[str, str]] = {}
    for language in LANGUAGES:
        own = table.get(language, {})
        if not isinstance(own, dict):
            raise ConfigError(f"{path}: `{language}` is no table of prompt parts")
        where = f"{path} [{language}]"
        parts = _parts(for_all, where=str(path))
        parts |= _parts(cast("dict[str, object]", own), where=where)
        if parts:
            found[language] = parts
    return found


def _parts(table: Mapping[str, object], *, where: str) -> dict[str, str]:
    return {name: check_part(name, text, where=where) for name, text in table.items()}


def _table(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(
            f"{path}: cannot be read: {exc.strerror}",
            hint="HERMES_PROMPTS names a TOML file, or a folder with system.en.toml",
        ) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: not TOML: {exc}") from exc
