"""JSON Schema in full, by the `jsonschema` library. Nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema.validators import (
    extend,  # pyright: ignore[reportUnknownVariableType]  # it does not say what it takes
    validator_for,
)
from referencing import Registry
from referencing.exceptions import Unresolvable

from hermes.core.json import as_object

from .arguments.aliases import faults_of_aliases, no_members
from .arguments.patterns import too_slow
from .schema import ALIASES, Schema, map_subschemas, resolve

_TEXT_CHARS = 300
# What jsonschema raises when the schema is wrong; whoever registers a tool is told before.
_OF_THE_SCHEMA = (Unresolvable, UnknownType, re.error, TypeError, AttributeError, ValueError)


_SEARCHING = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")
_Extend = Callable[[type[object], dict[str, "_Keyword"]], Callable[..., object]]
_Keyword = Callable[[object, object, object, Schema], Iterator[ValidationError] | None]


class _Validator(Protocol):
    """A validator of jsonschema, as far as it is used here."""

    def evolve(self, *, schema: object) -> _Validator:
        """The same for another part of the schema; references lead where they led."""
        ...

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """Each misfit."""
        ...


def violations(
    root: Schema, schema: Schema, value: object
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What about a plain value breaks a schema.

    Args:
        root: The whole schema, where references lead.
        schema: The part of it that the value has to fit.
        value: Of bounded depth.

    Yields:
        Place within the value, and what is wrong there.
    """
    try:
        for error in _validator(root).evolve(schema=schema).iter_errors(value):
            yield tuple(error.absolute_path), _wording(error)
    except (*_OF_THE_SCHEMA, RecursionError) as exc:
        yield (), f"cannot be compared with the tool's schema: {exc!s:.200}"


def faults_of_schema(schema: Schema) -> str:
    """What is wrong with a schema, with the place; "" if it can be used."""
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except SchemaError as exc:
        return f"{exc.json_path}: {exc.message:.200}"
    return next(_own_faults(schema, schema), "")


def _own_faults(root: Schema, schema: Schema) -> Iterator[str]:
    """What the standard allows and Hermes cannot use: references elsewhere, aliases of nothing."""
    if ALIASES in schema:
        fault = faults_of_aliases(schema[ALIASES])
        fault = fault or no_members(schema, as_object(schema[ALIASES]) or {})
        if fault:
            yield f"{ALIASES}: {fault}"
    reference = schema.get("$ref")
    if isinstance(reference, str) and resolve(root, reference) is None:
        yield f"$ref {reference!r} leads nowhere within the schema; others are not followed"
    inner: list[Schema] = []

    def note(item: Schema) -> Schema:
        inner.append(item)
        return item

    map_subschemas(schema, note)
    for item in inner:
        yield from _own_faults(root, item)


def _validator(root: Schema) -> _Validator:
    made = _bounded(validator_for(root, default=Draft202012Validator))
    # The empty registry is what keeps it from fetching a remote `$ref`.
    return cast("_Validator", made(root, registry=Registry[object]()))


@cache
def _bounded(validator: type[object]) -> Callable[..., object]:
    """The same validator, which searches no pattern in a text that it may never be done with."""
    own = cast("dict[str, _Keyword]", getattr(validator, "VALIDATORS"))  # noqa: B009
    guarded = {name: _guarded(own[name]) for name in _SEARCHING if name in own}
    return cast("_Extend", extend)(validator, guarded)


def _guarded(keyword: _Keyword) -> _Keyword:
    def guard(
        validator: object, rule: object, value: object, schema: Schema
    ) -> Iterator[ValidationError]:
        texts: list[str] = [value] if isinstance(value, str) else list(as_object(value) or {})
        patterns = [schema.get("pattern")] if isinstance(value, str) else []
        patterns += as_object(schema.get("patternProperties")) or {} if not patterns else []
        for pattern in patterns:
            for text in texts:
                if isinstance(pattern, str) and (fault := too_slow(pattern, text)):
                    raise ValueError(fault)
        yield from keyword(validator, rule, value, schema) or ()

    return guard


def _wording(error: ValidationError) -> str:
    text = error.message
    return text if len(text) <= _TEXT_CHARS else text[: _TEXT_CHARS - 1] + "…"
