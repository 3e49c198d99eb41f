"""Plain JSON made to fit a JSON Schema: exact conversions only, everything else is a problem.

A value that fits is never changed. One that does not fit is changed where exactly one reading of
it fits and nothing is lost:

- text that is a number in JSON's own spelling, spaces around it allowed → that number
- the words `true` and `false` in any case → that boolean (never 1, 0, "yes", "on" or "")
- a number or boolean where text is wanted → its JSON spelling, every digit kept
- text that equals one enum member after trimming and case folding → that member
- `null` for something that may be left out → left out (for `read` tools only)

What the schema can say beyond the keywords known here is checked by `jsonschema`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from hermes.core.effects import Effect
from hermes.core.json import as_list, as_object
from hermes.core.problems import did_you_mean

from .exact import (
    EXACT_FLOATS,
    SEEN_CHARS,
    Path,
    Repair,
    joined,
    kind_of,
    member_text,
    number_in,
    same,
    seen,
)
from .schema import Schema, followed

Spell = Callable[[Path], str | None]
"""The text of the number at a path, digit for digit; None if it is not known."""

_DATE_TIME = re.compile(r"\s*\d{4}-\d{2}-\d{2}.*", re.DOTALL)
# A comparison costs microseconds; unions within unions may need very many for one small value.
_MIN_VISITS, _MAX_VISITS = 5_000, 1_000_000
_VISITS_PER_CHARACTER = 4
_MAX_PROBLEMS = 8

_ANNOTATIONS = (
    "title description default examples example format deprecated readOnly writeOnly "
    "$comment $schema $defs definitions discriminator"
)
_KNOWN = frozenset(
    f"{_ANNOTATIONS} type enum const anyOf oneOf $ref properties required additionalProperties "
    "items prefixItems minItems maxItems minLength maxLength minimum maximum exclusiveMinimum "
    "exclusiveMaximum".split()
)
_WORDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


class TooComplex(Exception):
    """Value and schema together would take too long to compare."""


class Fitter:
    """Fits one value to one schema and collects what it changed and what it could not.

    Args:
        root: The whole schema, where references lead.
        effect: Some repairs are made for `read` tools only.
        spell: How numbers were written.
        size: Characters of the text that the value came from: bounds the work.

    Attributes:
        repairs: Each change, in order.
        problems: Each misfit, in words for the model; the value fits if there is none.
    """

    def __init__(self, root: Schema, *, effect: Effect, spell: Spell, size: int = 0) -> None:
        self._root, self._spell = root, spell
        self._effect: Effect = effect
        self._visits_left = [min(_MAX_VISITS, _MIN_VISITS + _VISITS_PER_CHARACTER * size)]
        self.repairs: list[Repair] = []
        self.problems: list[str] = []

    def fit(
        self, schema: object, value: object, path: Path = (), *, closed: bool = False
    ) -> object:
        """The value in the form that the schema asks for; the same object if nothing changed.

        Args:
            schema: A JSON Schema, an object or a boolean, within the root.
            value: Plain JSON of bounded depth.
            path: Where the value stands, for texts.
            closed: Unknown keys are problems even if the schema does not speak of them.

        Raises:
            TooComplex: Far more comparisons were needed than there are values.
        """
        self._visits_left[0] -= 1
        if self._visits_left[0] < 0:
            raise TooComplex
        node = as_object(schema)
        if node is None:
            if schema is False:
                self._problem(path, "is not allowed")
            return value
        if "$ref" in node:
            target = followed(self._root, node)
            if target is None:
                return self._foreign(node, value, path)
            node = target
        fitted = self._fit_node(node, value, path, closed=closed)
        return fitted if node.keys() <= _KNOWN else self._foreign(node, fitted, path)

    def _fit_node(self, node: Schema, value: object, path: Path, *, closed: bool) -> object:
        if "anyOf" in node:
            value = self._fit_branches(as_list(node["anyOf"]), value, path, only_one=False)
        if "oneOf" in node:
            value = self._fit_branches(as_list(node["oneOf"]), value, path, only_one=True)
        if "enum" in node or "const" in node:
            members = as_list(node["enum"]) if "enum" in node else [node["const"]]
            return self._fit_member(members, value, path)
        kinds = node.get("type")
        if kinds is not None:
            wanted = (kinds,) if isinstance(kinds, str) else tuple(map(str, as_list(kinds)))
            value = self._fit_kind(wanted, value, path)
        if isinstance(value, str):
            self._check_text(node, value, path)
        elif isinstance(value, dict):
            return self._fit_object(node, cast("dict[str, object]", value), path, closed=closed)
        elif isinstance(value, list):
            return self._fit_array(node, cast("list[object]", value), path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(node, value, path)
        return value

    def _fit_branches(
        self, branches: Sequence[object], value: object, path: Path, *, only_one: bool
    ) -> object:
        trials: list[tuple[_Trial, object]] = []
        for branch in branches:
            trial = self._trial(branch, value, path)
            if trial.is_clean and not only_one:
                return trial.value
            trials.append((trial, branch))
        fitting = [trial for trial, _ in trials if not trial.fitter.problems]
        as_it_is = [trial for trial in fitting if trial.is_clean]
        if len(as_it_is) == 1:
            return as_it_is[0].value
        if as_it_is or not _all_same([trial.value for trial in fitting]):
            self._problem(path, f"{seen(value)} fits more than one of the allowed forms")
            return value
        if fitting:
            self.repairs += fitting[0].fitter.repairs
            return fitting[0].value
        # The nearest form tells most: one that is not merely of another type.
        near = [trial for trial, branch in trials if not _is_other_kind(branch, value)]
        if len(near) == 1:
            self.problems += near[0].fitter.problems
        else:
            forms = " or ".join(dict.fromkeys(_wording(self._root, item) for item in branches))
            self._problem(path, f"{seen(value)} is not {forms}")
        return value

    def _trial(self, schema: object, value: object, path: Path) -> _Trial:
        fitter = Fitter(self._root, effect=self._effect, spell=self._spell)
        fitter._visits_left = self._visits_left
        return _Trial(fitter=fitter, value=fitter.fit(schema, value, path))

    def _fit_member(self, members: Sequence[object], value: object, path: Path) -> object:
        for member in members:
            if same(member, value):
                return member if isinstance(value, float) else value
        text = self._spelling(value, path)
        if text is not None:
            trimmed = text.strip()
            spelled = [(member, member_text(member)) for member in members]
            exact = [member for member, written in spelled if written == trimmed]
            folded = trimmed.casefold()
            found = exact or [
                member
                for member, written in spelled
                if written is not None and written.casefold() == folded
            ]
            if len(found) == 1:
                return self._repaired(path, value, found[0], "enum_match")
        allowed = ", ".join(json.dumps(item, ensure_ascii=False) for item in members)
        self._problem(path, f"{seen(value)} is not allowed; allowed: {allowed}")
        return value

    def _fit_kind(self, wanted: Sequence[str], value: object, path: Path) -> object:
        kind = kind_of(value)
        if kind in wanted:
            return value
        if kind == "integer" and "number" in wanted:
            return value
        if isinstance(value, float) and "integer" in wanted and value.is_integer():
            return self._whole(value, path)
        found = [
            (rule, converted)
            for name in wanted
            for rule, converted in self._conversions(name, value, path)
        ]
        if found and _all_same([converted for _, converted in found]):
            return self._repaired(path, value, found[0][1], found[0][0])
        words = " or ".join(_WORDS.get(name, name) for name in wanted)
        self._problem(path, f"{seen(value)} is not {words}")
        return value

    def _whole(self, value: float, path: Path) -> int | float:
        """JSON knows no difference between 3.0 and 3; Python does.

        A float that Python had to round stays one, and no `int` parameter will take it.
        """
        text = None if abs(value) < EXACT_FLOATS else self._spell(path) or repr(value)
        return int(value) if text is None or Decimal(text) == Decimal(value) else value

    def _conversions(self, kind: str, value: object, path: Path) -> list[tuple[str, object]]:
        if kind == "string":
            text = None if isinstance(value, str) else self._spelling(value, path)
            return [] if text is None else [("text_from_scalar", text)]
        if not isinstance(value, str):
            return []
        text = value.strip()
        if kind == "boolean" and text.casefold() in ("true", "false"):
            return [("boolean_from_text", text.casefold() == "true")]
        if kind in ("integer", "number") and (number := number_in(text)) is not None:
            if kind == "number" or isinstance(number, int):
                return [("number_from_text", number)]
        return []

    def _fit_object(
        self, node: Schema, value: dict[str, object], path: Path, *, closed: bool
    ) -> dict[str, object]:
        properties = as_object(node.get("properties")) or {}
        required = as_list(node.get("required"))
        other = node.get("additionalProperties", not closed)
        if "patternProperties" in node:
            other = True  # jsonschema looks at these keys
        changed: dict[str, object] | None = None
        unknown: list[str] = []
        for name, item in value.items():
            if name in properties:
                inner = properties[name]
                if item is None and name not in required and self._left_out(inner, path, name):
                    changed = dict(value) if changed is None else changed
                    del changed[name]
                    continue
                fitted = self.fit(inner, item, (*path, name))
            elif other is False:
                unknown.append(name)
                continue
            else:
                fitted = self.fit(other, item, (*path, name))
            if fitted is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = fitted
        missing = [str(name) for name in required if name not in value]
        self._report_keys(path, properties, unknown, missing)
        return value if changed is None else changed

    def _left_out(self, schema: object, path: Path, name: str) -> bool:
        """Whether a null stands for "not given"; it does where the schema knows no null."""
        if self._effect != "read" or not self._trial(schema, None, (*path, name)).fitter.problems:
            return False
        self.repairs.append(
            Repair(path=joined((*path, name)), before=None, after="left out", rule="null_left_out")
        )
        return True

    def _report_keys(
        self,
        path: Path,
        properties: Mapping[str, object],
        unknown: Sequence[str],
        missing: Sequence[str],
    ) -> None:
        for name in unknown[:_MAX_PROBLEMS]:
            hint = did_you_mean(name[:SEEN_CHARS], properties)
            known = f"known: {', '.join(f'`{key}`' for key in properties) or 'none'}"
            self._problem((*path, name), f"is unknown; {hint or known}")
        if missing:
            names = ", ".join(f"`{joined((*path, name))}`" for name in missing)
            self._add(f"{names} {'is' if len(missing) == 1 else 'are'} required and missing")

    def _fit_array(self, node: Schema, value: list[object], path: Path) -> list[object]:
        first = as_list(node.get("prefixItems"))
        rest = node.get("items", True)
        if isinstance(rest, list):  # as JSON Schema wrote `prefixItems` up to 2019
            return cast("list[object]", self._foreign(node, value, path))
        fitted = [
            self.fit(first[index] if index < len(first) else rest, item, (*path, index))
            for index, item in enumerate(value)
        ]
        low, high = node.get("minItems"), node.get("maxItems")
        if isinstance(low, int | float) and len(value) < low:
            self._problem(path, f"has {len(value)} items; at least {low} are needed")
        if isinstance(high, int | float) and len(value) > high:
            self._problem(path, f"has {len(value)} items; at most {high} are allowed")
        unchanged = all(new is old for new, old in zip(fitted, value, strict=True))
        return value if unchanged else fitted

    def _check_text(self, node: Schema, value: str, path: Path) -> None:
        low, high = node.get("minLength"), node.get("maxLength")
        if isinstance(low, int | float) and len(value) < low:
            self._problem(path, f"has {len(value)} characters; at least {low} are needed")
        if isinstance(high, int | float) and len(value) > high:
            self._problem(path, f"has {len(value)} characters; at most {high} are allowed")
        # pydantic would take "1700000000" for seconds since 1970.
        if node.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
            self._problem(path, f"{seen(value)} is not a time such as 2026-11-29T08:00:00Z")

    def _check_number(self, node: Schema, value: float, path: Path) -> None:
        for keyword, words, fits in _BOUNDS:
            bound = node.get(keyword)
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, int | float):
                self._foreign(node, value, path)
            elif not fits(value, bound):
                self._problem(path, f"{seen(value)} must be {words} {bound}")

    def _foreign(self, node: Schema, value: object, path: Path) -> object:
        """Leave the judgement to jsonschema, which knows every keyword."""
        if not self.problems:
            # Loaded on need: it takes longer than the rest of Hermes together.
            from .validation import violations

            for inner, text in violations(self._root, node, value):
                self._problem((*path, *inner), text)
        return value

    def _spelling(self, value: object, path: Path) -> str | None:
        """A scalar as text; None for what has no short form: null, arrays, objects."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return self._spell(path) or json.dumps(value)
        return None

    def _repaired(self, path: Path, before: object, after: object, rule: str) -> object:
        self.repairs.append(Repair(path=joined(path), before=before, after=after, rule=rule))
        return after

    def _problem(self, path: Path, text: str) -> None:
        self._add(f"`{joined(path)}` {text}" if path else f"the whole {text}")

    def _add(self, text: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    fitter: Fitter
    value: object

    @property
    def is_clean(self) -> bool:
        return not self.fitter.problems and not self.fitter.repairs


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least", lambda value, bound: value >= bound),
    ("maximum", "at most", lambda value, bound: value <= bound),
    ("exclusiveMinimum", "more than", lambda value, bound: value > bound),
    ("exclusiveMaximum", "less than", lambda value, bound: value < bound),
)


def _all_same(values: Sequence[object]) -> bool:
    return all(same(values[0], value) for value in values[1:])


def _is_other_kind(schema: object, value: object) -> bool:
    node = as_object(schema)
    kind = node.get("type") if node is not None else None
    return isinstance(kind, str) and kind_of(value) != kind


def _wording(root: Schema, schema: object) -> str:
    node = as_object(schema)
    node = followed(root, node) if node is not None else None
    kind = node.get("type") if node is not None else None
    return _WORDS.get(kind, kind) if isinstance(kind, str) else "another allowed form"
