"""Plain JSON made to fit a JSON Schema: exact conversions only, everything else is a problem.

A value that fits is never changed. One that does not fit is changed where exactly one reading of
it fits and nothing is lost:

- text that is a number in JSON's own spelling, spaces around it allowed → that number
- the words `true` and `false` in any case → that boolean (never 1, 0, "yes", "on" or "")
- a number or boolean where text is wanted → its JSON spelling, every digit kept
- text around which there are stray spaces, quotes or marks, or in a format's other spelling
- text that means one enum member (`vocabulary`) → that member
- an object or array written as text, one object where an array is wanted, and an array of one
  object where an object is wanted (`shapes`)
- for `read` tools only: `null` for something that may be left out → left out; a key that is
  surely one of the tool's own (`keys`) → that key

One text that fits is changed: a known name that the schema declares by `x-aliases`. What the
schema can say beyond the keywords known here is checked by `jsonschema`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import cast

from hermes.core.effects import Effect
from hermes.core.json import as_list, as_object
from hermes.core.problems import did_you_mean
from hermes.tools.schema import ALIASES, Schema, followed

from .exact import (
    SEEN_CHARS,
    Path,
    Repair,
    Rounded,
    has_repeats,
    joined,
    kind_of,
    same,
    seen,
    whole_in,
)
from .examples import WORDS, such_as
from .fits import Enough, Spell, TooComplex
from .objects import fit_object
from .quick import looks_of
from .scalars import conversions
from .shapes import reshaped
from .texts import misfit, nearest
from .unions import fit_branches, members_of
from .vocabulary import declared, meant

# A comparison costs microseconds; unions within unions may need very many for one small value.
_MIN_VISITS, _MAX_VISITS = 4_000, 200_000
_VISITS_PER_CHARACTER = 0.2
_REPAIR_VISITS, _TRIAL_VISITS = 10, 2
_MAX_PROBLEMS = 8
_ALLOWED_CHARS = 600

_ANNOTATIONS = (
    "title description default examples example format deprecated readOnly writeOnly "
    f"$comment $schema $defs definitions discriminator {ALIASES}"
)
_KNOWN = frozenset(
    f"{_ANNOTATIONS} type enum const anyOf oneOf $ref properties required additionalProperties "
    "items prefixItems additionalItems minItems maxItems uniqueItems minLength maxLength pattern "
    "minimum maximum exclusiveMinimum exclusiveMaximum".split()
)


_CHOICES = frozenset({"enum", "const", "anyOf", "oneOf"})


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
        effect: As given.
        root: As given.
        spell: As given.
        quick: Tells of most values at once that they fit.
    """

    def __init__(self, root: Schema, *, effect: Effect, spell: Spell, size: int = 0) -> None:
        self.root, self.spell = root, spell
        self.effect: Effect = effect
        self._visits_left = [min(_MAX_VISITS, _MIN_VISITS + int(_VISITS_PER_CHARACTER * size))]
        self.quick = looks_of(root)
        self.repairs: list[Repair] = []
        self.problems: list[str] = []

    def trial(
        self, schema: object, value: object, path: Path, *, spell: Spell | None = None
    ) -> tuple[Fitter, object]:
        """A fitter of its own that has tried a value, and what came of it."""
        self.charge(_TRIAL_VISITS)
        fitter = Fitter.__new__(Fitter)
        fitter.root, fitter.effect, fitter.spell = self.root, self.effect, spell or self.spell
        fitter._visits_left, fitter.quick = self._visits_left, self.quick
        fitter.repairs, fitter.problems = [], []
        try:
            return fitter, fitter.fit(schema, value, path)
        except Enough:
            return fitter, value

    def charge(self, visits: int) -> None:
        """Count work beside looking at values.

        Raises:
            TooComplex: There was too much of it.
        """
        self._visits_left[0] -= visits
        if self._visits_left[0] < 0:
            raise TooComplex

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
            Enough: There are more problems than a model should read at once.
        """
        self.charge(1)
        node = as_object(schema)
        if node is None:
            if schema is False:
                self.problem(path, "is not allowed")
            return value
        if "$ref" in node:
            target = followed(self.root, node)
            if target is None:
                return self._foreign(node, value, path)
            node = target
        fitted = self._fit_node(node, value, path, closed=closed)
        return fitted if node.keys() <= _KNOWN else self._foreign(node, fitted, path)

    def _fit_node(self, node: Schema, value: object, path: Path, *, closed: bool) -> object:
        if not node.keys().isdisjoint(_CHOICES):
            members = members_of(node)
            if members is not None:
                return self._fit_member(node, members, value, path)
            for keyword in ("anyOf", "oneOf"):
                if keyword in node:
                    value = fit_branches(self, node, keyword, value, path)
        kinds = node.get("type")
        if kinds is not None:
            wanted = (kinds,) if isinstance(kinds, str) else tuple(map(str, as_list(kinds)))
            value = self._fit_kind(node, wanted, value, path)
        if isinstance(value, str):
            return self._fit_text(node, value, path)
        if isinstance(value, dict):
            return fit_object(self, node, cast("dict[str, object]", value), path, closed=closed)
        if isinstance(value, list):
            return self._fit_array(node, cast("list[object]", value), path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(node, value, path)
        return value

    def _fit_member(
        self, node: Schema, members: Sequence[object], value: object, path: Path
    ) -> object:
        for member in members:
            if same(member, value) and not isinstance(value, Rounded):
                return member if isinstance(value, float) else value
        text = self._spelling(value, path)
        found = None if text is None else meant(members, text, node, effect=self.effect)
        if found is not None:
            return self.repaired(path, value, *found)
        allowed = ", ".join(json.dumps(item, ensure_ascii=False) for item in members)
        if len(allowed) > _ALLOWED_CHARS:
            hint = did_you_mean(str(text)[:SEEN_CHARS], [str(item) for item in members])
            allowed = f"{allowed[:_ALLOWED_CHARS]}… ({len(members)} in all) {hint}".rstrip()
        self.problem(path, f"{seen(value)} is not allowed; allowed: {allowed}")
        return value

    def _fit_kind(self, node: Schema, wanted: Sequence[str], value: object, path: Path) -> object:
        kind = kind_of(value)
        if kind in wanted or (kind == "integer" and "number" in wanted):
            return value
        if isinstance(value, float) and "integer" in wanted:
            whole = whole_in(self.spell(path) or repr(value))
            if whole is not None:
                return whole
        spelling = self._spelling(value, path)
        found = [item for name in wanted for item in conversions(name, value, spelling)]
        if found and all(same(found[0][1], converted) for _, converted in found):
            return self.repaired(path, value, found[0][1], found[0][0])
        if (shaped := reshaped(self, node, wanted, value, path)) is not None:
            return shaped.value
        words = " or ".join(WORDS.get(name, name) for name in wanted)
        self.problem(path, f"{seen(value)} is not {words}{such_as(self.root, node)}")
        return value

    def _fit_text(self, node: Schema, value: str, path: Path) -> str:
        try:
            fault = misfit(node, value)
            near = nearest(node, value, effect=self.effect) if fault else None
        except re.error:
            return cast("str", self._foreign(node, value, path))
        if near is not None:
            return cast("str", self.repaired(path, value, *near))
        if fault:
            self.problem(path, fault)
        elif names := declared(node):
            found = meant(list(names), value, node, effect=self.effect)
            if found is not None and found[0] != value:
                return cast("str", self.repaired(path, value, *found))
        return value

    def _fit_array(self, node: Schema, value: list[object], path: Path) -> list[object]:
        first = as_list(node.get("prefixItems"))
        rest = node.get("items", True)
        if isinstance(rest, list):  # as JSON Schema wrote `prefixItems` up to 2019
            first, rest = cast("list[object]", rest), node.get("additionalItems", True)
        is_plain = self.quick.of(rest)
        fitted = [
            item
            if index >= len(first) and is_plain(item)
            else self.fit(first[index] if index < len(first) else rest, item, (*path, index))
            for index, item in enumerate(value)
        ]
        low, high = node.get("minItems"), node.get("maxItems")
        if isinstance(low, int | float) and len(value) < low:
            self.problem(path, f"has {len(value)} items; at least {low} are needed")
        if isinstance(high, int | float) and len(value) > high:
            self.problem(path, f"has {len(value)} items; at most {high} are allowed")
        if node.get("uniqueItems") is True and has_repeats(fitted):
            self.problem(path, "has an item twice; each is allowed once")
        unchanged = all(new is old for new, old in zip(fitted, value, strict=True))
        return value if unchanged else fitted

    def _check_number(self, node: Schema, value: float, path: Path) -> None:
        for keyword, words, fits in _BOUNDS:
            bound = node.get(keyword)
            if bound is None:
                continue
            if isinstance(bound, bool) or not isinstance(bound, int | float):
                self._foreign(node, value, path)
            elif not fits(value, bound):
                self.problem(path, f"{seen(value)} must be {words} {bound}")

    def _foreign(self, node: Schema, value: object, path: Path) -> object:
        """Leave the judgement to jsonschema, which knows every keyword."""
        if not self.problems:
            # Loaded on need: it takes longer than the rest of Hermes together.
            from hermes.tools.validation import violations

            for inner, text in violations(self.root, node, value):
                self.problem((*path, *inner), text)
        return value

    def refuse_rounded(self, value: object, path: Path = ()) -> None:
        """Tell of each number in a fitted value that Python had to round."""
        if isinstance(value, dict):
            for name, item in cast("dict[str, object]", value).items():
                self.refuse_rounded(item, (*path, name))
        elif isinstance(value, list):
            for index, item in enumerate(cast("list[object]", value)):
                self.refuse_rounded(item, (*path, index))
        elif isinstance(value, Rounded):
            written = self.spell(path) or repr(float(value))
            self.problem(path, f"{written:.60} cannot be held exactly; send fewer digits")

    def _spelling(self, value: object, path: Path) -> str | None:
        """A scalar as text; None for what has no short form: null, arrays, objects."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return self.spell(path) or json.dumps(value)
        return None

    def repaired(self, path: Path, before: object, after: object, rule: str) -> object:
        """Note a change, and give what the value became."""
        self.charge(_REPAIR_VISITS)
        self.repairs.append(Repair(path=joined(path), before=before, after=after, rule=rule))
        return after

    def problem(self, path: Path, text: str) -> None:
        """Note a misfit at a place."""
        self.add(f"`{joined(path)}` {text}" if path else f"the whole {text}")

    def add(self, text: str) -> None:
        """Note a misfit in words of its own.

        Raises:
            Enough: It is one of many.
        """
        self.problems.append(text)
        if len(self.problems) >= _MAX_PROBLEMS:
            raise Enough


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least", lambda value, bound: value >= bound),
    ("maximum", "at most", lambda value, bound: value <= bound),
    ("exclusiveMinimum", "more than", lambda value, bound: value > bound),
    ("exclusiveMaximum", "less than", lambda value, bound: value < bound),
)
