"""Laws of reading arguments."""

import json
from collections.abc import Callable
from typing import cast

import jsonschema
from hypothesis import example, given
from hypothesis import strategies as st
from referencing import Registry

from hermes.core.effects import Effect
from hermes.tools import ArgumentError, Arguments, read_arguments

Schema = dict[str, object]

EFFECTS: st.SearchStrategy[Effect] = st.sampled_from(("read", "idempotent", "unsafe", "internal"))
KEYS = st.sampled_from(["city", "limit", "level", "größe"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(["25", " 0.5 ", "true", "High", "high", "", "null", "1e999"]),
)


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)


VALUES = st.recursive(SCALARS, containers, max_leaves=8)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)

LEAVES: st.SearchStrategy[Schema] = st.sampled_from(
    [
        {},
        {"type": "string"},
        {"type": "string", "maxLength": 4},
        {"type": "integer"},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 100},
        {"type": "number", "maximum": 1},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["integer", "null"]},
        {"enum": ["high", "low", 1, None]},
        {"const": "high"},
        {"type": "string", "pattern": "^h"},
        {"type": "array", "uniqueItems": True},
    ]
)


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items, "maxItems": 2}


def any_of(branches: list[Schema]) -> Schema:
    return {"anyOf": branches}


def one_of(branches: list[Schema]) -> Schema:
    return {"oneOf": branches}


def object_of(properties: dict[str, Schema], required: list[str], other: bool | Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": other,
    }


def larger(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(KEYS, inner, max_size=3)
    required = st.lists(KEYS, max_size=2, unique=True)
    return st.one_of(
        st.builds(array_of, inner),
        st.builds(any_of, st.lists(inner, min_size=1, max_size=3)),
        st.builds(one_of, st.lists(inner, min_size=1, max_size=2)),
        st.builds(object_of, properties, required, st.booleans() | inner),
    )


SUBSCHEMAS = st.recursive(LEAVES, larger, max_leaves=5)
SCHEMAS = st.builds(
    object_of,
    st.dictionaries(KEYS, SUBSCHEMAS, max_size=4),
    st.lists(KEYS, max_size=1),
    st.just(False),
)


def is_valid(schema: Schema, value: object) -> bool:
    validator = jsonschema.Draft202012Validator(schema, registry=Registry())
    is_valid = cast("Callable[[object], bool]", validator.is_valid)
    return is_valid(value)


@given(SCHEMAS, OBJECTS, EFFECTS)
def test_what_jsonschema_accepts_is_never_changed(
    schema: Schema, value: dict[str, object], effect: Effect
) -> None:
    if not is_valid(schema, value):
        return
    read = read_arguments(schema, json.dumps(value), effect=effect)

    assert read == Arguments(values=value, repairs=())


@given(SCHEMAS, OBJECTS, EFFECTS)
def test_what_is_read_fits_the_schema_and_invents_no_key(
    schema: Schema, value: dict[str, object], effect: Effect
) -> None:
    read = read_arguments(schema, json.dumps(value), effect=effect)

    if isinstance(read, Arguments):
        assert is_valid(schema, read.values)
        assert read.values.keys() <= value.keys()
        assert bool(read.repairs) or read.values == value
    else:
        assert not is_valid(schema, value)
        assert read.message


@given(SCHEMAS, OBJECTS, EFFECTS)
def test_reading_twice_changes_nothing_more(
    schema: Schema, value: dict[str, object], effect: Effect
) -> None:
    once = read_arguments(schema, value, effect=effect)
    if isinstance(once, ArgumentError):
        return
    twice = read_arguments(schema, once.values, effect=effect)

    assert twice == Arguments(values=once.values, repairs=())


@given(SCHEMAS, st.text(max_size=60), EFFECTS)
@example({"type": "object"}, "```" * 20, "read")
@example({"type": "object"}, '"' * 30, "read")
@example({"type": "object"}, "Infinity\n```json\n{}", "unsafe")
def test_any_text_is_read_or_refused_in_words(schema: Schema, raw: str, effect: Effect) -> None:
    read = read_arguments(schema, raw, effect=effect)

    if isinstance(read, ArgumentError):
        assert read.code == "bad_arguments"
        read.message.encode()


@given(OBJECTS, st.data())
def test_text_that_is_cut_anywhere_is_never_read(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))

    assert isinstance(read_arguments({"type": "object"}, text[:cut]), ArgumentError)


@given(
    OBJECTS,
    st.text(st.characters(codec="utf-8", exclude_characters="{`~"), max_size=20),
    st.text(
        st.characters(codec="utf-8", exclude_characters="{}[]()`~,:，：｛｝［］（）"), max_size=20
    ),
    st.sampled_from(["json", "", "JSON", "python"]),
    st.sampled_from(["```", "~~~", "`````"]),
    st.booleans(),
)
def test_a_fence_gives_exactly_what_is_in_it(
    value: dict[str, object], before: str, after: str, language: str, fence: str, closed: bool
) -> None:
    text = f"{before}\n{fence}{language}\n{json.dumps(value)}\n{fence if closed else ''}\n{after}"
    read = read_arguments({"type": "object"}, text, effect="read")

    assert isinstance(read, Arguments)
    assert read.values == value


@given(st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_spelling_as_text_and_its_value_from_text(number: float) -> None:
    spelled = json.dumps(number)
    as_text = read_arguments(
        {"type": "object", "properties": {"x": {"type": "string"}}}, f'{{"x": {spelled}}}'
    )
    as_number = read_arguments(
        {"type": "object", "properties": {"x": {"type": "number"}}}, {"x": f" {spelled} "}
    )

    assert isinstance(as_text, Arguments)
    assert as_text.values == {"x": spelled}
    assert isinstance(as_number, Arguments)
    assert as_number.values == {"x": number}
