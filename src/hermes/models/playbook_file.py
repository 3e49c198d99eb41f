"""A playbook file, read and checked whole before anything starts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from pathlib import Path
from typing import cast

from hermes.core import json
from hermes.core.problems import did_you_mean
from hermes.core.tables import read_table
from hermes.errors import ConfigError
from hermes.models.templates import Expression, TemplateFault, TextTemplate, expression, template

GIVEN_NAMES = frozenset({"goal", "lang", "vars"})
"""Names that every template can use."""

_MAX_FILE_BYTES = 1024 * 1024

Filled = TextTemplate | Expression | object
"""A plain value in which any text may be a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Conditions on a goal; all that are given must hold.

    Attributes:
        all_of: Keywords, folded, that must all be there.
        any_of: Keywords, folded, of which one must be there.
        regex: Its named groups become variables.
    """

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    regex: re.Pattern[str] | None = None

    def match(self, goal: str) -> dict[str, object] | None:
        """The variables that the goal gives, or None where it does not fit.

        A group that took no part gives no variable.
        """
        folded = fold(goal)
        if not all(word in folded for word in self.all_of):
            return None
        if self.any_of and not any(word in folded for word in self.any_of):
            return None
        if self.regex is None:
            return {}
        found = self.regex.search(unicodedata.normalize("NFKC", goal))
        if found is None:
            return None
        return {name: text for name, text in found.groupdict().items() if text is not None}

    def __str__(self) -> str:
        parts = [f"all of {', '.join(map(repr, self.all_of))}"] if self.all_of else []
        if self.any_of:
            parts.append(f"any of {', '.join(map(repr, self.any_of))}")
        if self.regex is not None:
            parts.append(f"regex {self.regex.pattern!r}")
        return " and ".join(parts) or "anything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tool call, or one for each item of a list.

    Attributes:
        number: From 1 within its rule.
        nth: From 1 among the rule's steps with this tool: what a call that was made is known by,
            so that it keeps its step when others come or go.
        call: The tool's name.
        arguments: What it gets.
        condition: The step is skipped where this is false.
        foreach: Gives the list.
        item: The name of the present item.
        result_name: Name of the result for later templates, or empty.
        continues: A failed call is a result like any other.
    """

    number: int
    call: str
    arguments: Mapping[str, Filled]
    condition: Expression | None = None
    foreach: Expression | None = None
    item: str = "item"
    result_name: str = ""
    continues: bool = False
    nth: int = 1

    @property
    def name(self) -> str:
        """The tool's name, with a number from the second step with that tool on."""
        return self.call if self.nth == 1 else f"{self.call}#{self.nth}"

    def __str__(self) -> str:
        return f"step {self.number} ({self.call})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do about the goals that fit."""

    name: str
    when: When
    sets: Mapping[str, Filled]
    steps: tuple[Step, ...]
    answer: TextTemplate | Expression

    def __str__(self) -> str:
        return f"rule {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """Rules, the first that fits wins.

    Attributes:
        otherwise: The answer where none fits.
    """

    name: str
    rules: tuple[Rule, ...]
    otherwise: TextTemplate | Expression | None = None


def fold(text: str) -> str:
    """The form in which keywords are looked for: width, case and compatibility forms fall away."""
    return unicodedata.normalize("NFKC", text).casefold()


def load_playbook(path: str | Path) -> Playbook:
    """Read a playbook from a YAML or TOML file and check all of it.

    Raises:
        ConfigError: The file cannot be read or something in it is wrong; says where and what.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"cannot read playbook {str(path)!r}: {exc.strerror}") from exc
    if len(raw) > _MAX_FILE_BYTES:
        raise ConfigError(f"playbook {str(path)!r} is over {_MAX_FILE_BYTES // 2**20} MiB")
    document = read_table(raw, name=str(path))
    return _read_playbook(document, _Place(file=str(path)), name=path.stem)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where in a file something stands: `rules[0].steps[1].with`, and its names for people."""

    file: str
    path: str = ""
    label: str = ""

    def at(self, key: str | int) -> _Place:
        if isinstance(key, int):
            return replace(self, path=f"{self.path}[{key}]")
        return replace(self, path=f"{self.path}.{key}" if self.path else key)

    def labelled(self, label: str) -> _Place:
        return replace(self, label=f"{self.label}, {label}" if self.label else label)

    def fault(self, reason: str, *, hint: str = "") -> ConfigError:
        where = f"{self.path or 'the whole file'}" + (f" ({self.label})" if self.label else "")
        return ConfigError(f"{self.file}: {where}: {reason}", hint=hint)


def _read_playbook(document: object, place: _Place, *, name: str) -> Playbook:
    keys = _object(document, place, {"playbook", "name", "rules", "otherwise"})
    if keys.get("playbook") != 1:
        raise place.at("playbook").fault(
            f"the format version must be 1, got {keys.get('playbook')!r}",
            hint="begin the file with `playbook: 1`",
        )
    rules: list[Rule] = []
    for number, item in enumerate(_list(keys.get("rules"), place.at("rules"))):
        rule = _read_rule(item, place.at("rules").at(number))
        if any(rule.name == other.name for other in rules):
            raise place.at("rules").at(number).fault(f"a second rule has the name {rule.name!r}")
        if rules and rules[-1].when == When():
            raise (
                place.at("rules")
                .at(number)
                .fault(f"never reached: {rules[-1]} before it has no conditions and always fits")
            )
        rules.append(rule)
    otherwise = keys.get("otherwise")
    at = place.at("otherwise")
    return Playbook(
        name=_text(keys.get("name", name), place.at("name")),
        rules=tuple(rules),
        otherwise=None if otherwise is None else _template(otherwise, at, GIVEN_NAMES),
    )


def _read_rule(value: object, place: _Place) -> Rule:
    keys = _object(value, place, {"name", "when", "set", "steps", "answer"})
    name = _text(keys.get("name"), place.at("name"))
    place = place.labelled(f"rule {name!r}")
    when = _read_when(keys.get("when", {}), place.at("when"))
    known = set(GIVEN_NAMES)
    if when.regex is not None:
        known |= when.regex.groupindex.keys()
    sets: dict[str, Filled] = {}
    for key, item in _object(keys.get("set", {}), place.at("set")).items():
        sets[key] = _filled(item, place.at("set").at(key), known)
        known.add(_new_name(key, place.at("set").at(key)))
    steps: list[Step] = []
    items = _list(keys.get("steps", []), place.at("steps"), may_be_empty=True)
    for number, item in enumerate(items, start=1):
        step = _read_step(item, place.at("steps").at(number - 1), number, known)
        steps.append(replace(step, nth=1 + sum(step.call == other.call for other in steps)))
        known |= {step.result_name} - {""}
    answer = _template(keys.get("answer"), place.at("answer"), known)
    return Rule(name=name, when=when, sets=sets, steps=tuple(steps), answer=answer)


def _read_when(value: object, place: _Place) -> When:
    keys = _object(value, place, {"all", "any", "regex"})
    regex = None
    if "regex" in keys:
        pattern = _text(keys["regex"], place.at("regex"))
        try:
            regex = re.compile(pattern, re.IGNORECASE)
        except re.error as exc:
            raise place.at("regex").fault(f"not a regular expression: {exc}") from exc
        for name in regex.groupindex:
            _new_name(name, place.at("regex"))
    return When(
        all_of=_keywords(keys, "all", place), any_of=_keywords(keys, "any", place), regex=regex
    )


def _keywords(keys: Mapping[str, object], name: str, place: _Place) -> tuple[str, ...]:
    if name not in keys:
        return ()
    place = place.at(name)
    words = _list(keys[name], place)
    return tuple(fold(_text(word, place.at(number))) for number, word in enumerate(words))


def _read_step(value: object, place: _Place, number: int, known: Collection[str]) -> Step:
    allowed = {"call", "with", "if", "foreach", "item", "as", "on_error"}
    keys = _object(value, place, allowed)
    call = _text(keys.get("call"), place.at("call"))
    place = place.labelled(f"step {number} ({call})")
    item = _new_name(_text(keys.get("item", "item"), place.at("item")), place.at("item"))
    if "item" in keys and "foreach" not in keys:
        raise place.at("item").fault("`item` without `foreach`")
    inner = {*known, item} if "foreach" in keys else known
    arguments = _object(keys.get("with", {}), place.at("with"))
    on_error = keys.get("on_error", "stop")
    if on_error not in ("stop", "continue"):
        raise place.at("on_error").fault(f"must be `stop` or `continue`, got {on_error!r}")
    result = keys.get("as")
    return Step(
        number=number,
        call=call,
        arguments={
            key: _filled(part, place.at("with").at(key), inner) for key, part in arguments.items()
        },
        condition=_expression(keys["if"], place.at("if"), inner) if "if" in keys else None,
        foreach=_expression(keys["foreach"], place.at("foreach"), known)
        if "foreach" in keys
        else None,
        item=item,
        result_name="" if result is None else _new_name(_text(result, place.at("as")), place),
        continues=on_error == "continue",
    )


def _filled(value: object, place: _Place, known: Collection[str]) -> Filled:
    if isinstance(value, str):
        return _template(value, place, known) if "{" in value else value
    if isinstance(value, date | time):
        return value.isoformat()  # YAML and TOML have dates, JSON has not
    if isinstance(value, list):
        items = enumerate(json.as_list(cast("object", value)))
        return [_filled(item, place.at(number), known) for number, item in items]
    if isinstance(value, dict):
        found = _object(cast("object", value), place)
        return {key: _filled(item, place.at(key), known) for key, item in found.items()}
    if not (value is None or isinstance(value, int | float)) or not json.is_finite(value):
        raise place.fault(f"cannot be written as JSON: {value!r:.60}")
    return value


def _template(value: object, place: _Place, known: Collection[str]) -> TextTemplate | Expression:
    try:
        made = template(_text(value, place))
    except TemplateFault as exc:
        raise place.fault(exc.message, hint=exc.hint) from exc
    _check_names(made.names, place, known)
    return made


def _expression(value: object, place: _Place, known: Collection[str]) -> Expression:
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    try:
        made = expression(_text(value, place))
    except TemplateFault as exc:
        raise place.fault(exc.message, hint=exc.hint) from exc
    _check_names(made.names, place, known)
    return made


def _check_names(names: Iterable[str], place: _Place, known: Collection[str]) -> None:
    for name in sorted(names):
        if name not in known:
            hint = did_you_mean(name, known) or f"known here are {', '.join(sorted(known))}"
            raise place.fault(f"`{name}` is not defined", hint=hint)


def _new_name(name: str, place: _Place) -> str:
    if not name.isidentifier() or name in GIVEN_NAMES:
        reason = "is taken" if name in GIVEN_NAMES else "is not a name"
        raise place.fault(f"`{name}` {reason}", hint="use letters, digits and underscores")
    return name


def _object(
    value: object, place: _Place, allowed: Collection[str] | None = None
) -> Mapping[str, object]:
    found = json.as_object(value)
    if found is None or not all(
        isinstance(key, str) for key in cast("dict[object, object]", value)
    ):
        raise place.fault(f"must be a mapping with names, got {value!r:.60}")
    for key in found:
        if allowed is not None and key not in allowed:
            hint = did_you_mean(key, allowed) or f"allowed are {', '.join(sorted(allowed))}"
            raise place.at(key).fault("unknown key", hint=hint)
    return found


def _list(value: object, place: _Place, *, may_be_empty: bool = False) -> list[object]:
    if not isinstance(value, list) or not (value or may_be_empty):
        raise place.fault(f"must be a list{'' if may_be_empty else ' with at least one item'}")
    return cast("list[object]", value)


def _text(value: object, place: _Place) -> str:
    if value is None:
        raise place.fault("is missing")
    if not isinstance(value, str) or not value.strip():
        raise place.fault(f"must be a text, got {value!r:.60}", hint="put it in quotes")
    return value
