"""What models write as arguments, and what comes of it; ids name the field reports."""

import json
import locale
from typing import cast

import pytest

from hermes.tools import ArgumentError, Arguments, read_arguments

Schema = dict[str, object]

NOTHING_REQUIRED: Schema = {
    "type": "object",
    "properties": {
        "scope": {"type": "string", "default": "all"},
        "older_than_days": {"type": "integer", "default": 0},
    },
    "additionalProperties": False,
}
BRANCH: Schema = {
    "type": "object",
    "properties": {"branch": {"type": "string"}, "day": {"type": "string"}},
    "required": ["branch"],
}
NUMBERS: Schema = {
    "type": "object",
    "properties": {"limit": {"type": "integer"}, "ratio": {"type": "number"}},
}
LEVEL: Schema = {
    "type": "object",
    "properties": {"level": {"type": "string", "enum": ["low", "high", "urgent"]}},
}
ROWS: Schema = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"qty": {"type": "integer"}},
                "required": ["qty"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["rows"],
}


def values_of(schema: Schema, raw: object) -> dict[str, object]:
    read = read_arguments(schema, raw)
    assert isinstance(read, Arguments), read
    return read.values


def error_of(schema: Schema, raw: object) -> str:
    read = read_arguments(schema, raw)
    assert isinstance(read, ArgumentError), read
    assert len(read.message) < 2_000
    return read.message


def schema_of(name: str, body: object) -> Schema:
    return {"type": "object", "properties": {name: body}}


EMPTY = {
    "R001-empty": "",
    "R001-blank": "  \n",
    "R001-null": "null",
    "R001-absent": None,
    "R001-spaced-null": " null\n",
    "R001-empty-text": '""',
}


@pytest.mark.parametrize("raw", EMPTY.values(), ids=EMPTY)
def test_no_arguments_mean_an_empty_object_where_nothing_is_required(raw: object) -> None:
    assert values_of(NOTHING_REQUIRED, raw) == {}


@pytest.mark.parametrize("raw", EMPTY.values(), ids=EMPTY)
def test_no_arguments_name_what_is_required(raw: object) -> None:
    assert error_of(BRANCH, raw) == "`branch` is required and missing (text)"


UNREADABLE = {
    "R002-cut-in-a-key": '{"scope": "tmp", older_th',
    "R002-cut-in-text": '{"scope": "tm',
    "R002-cut-after-a-colon": '{"scope":',
    "R002-only-a-brace": "{",
    "R002-prose": "delete the temporary files",
    "R002-two-objects": '{"scope": "tmp"}{"scope": "all"}',
    "R002-two-commas": '{"scope": "tmp",,}',
    "R002-control-character": '{"scope": "a\x00b"}',
    "R006-code": "{'scope': __import__('os')}",
    "R017-nan": '{"older_than_days": NaN}',
    "R017-infinity": '{"older_than_days": -Infinity}',
    "R017-too-large": '{"older_than_days": 1e999}',
    "too-many-digits": '{"older_than_days": ' + "9" * 5_000 + "}",
    "lone-surrogate": '{"scope": "\\ud800"}',
    "lone-surrogate-in-a-key": '{"\\udfff": 1}',
    "raw-surrogate": '{"scope": "\udce9"}',
    "too-long": '{"scope": "' + "x" * 1_100_000 + '"}',
    "too-deep": "[" * 100_000,
    "deep-but-closed": '{"scope": ' + "[" * 70 + "]" * 70 + "}",
    "repeated-key": '{"scope": "tmp", "scope": "all"}',
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_arguments_are_refused_and_the_schema_is_shown(raw: str) -> None:
    message = error_of(NOTHING_REQUIRED, raw)

    assert message.startswith("the arguments could not be read: ")
    assert message.endswith('expected: {"scope"?: string, "older_than_days"?: integer}')


@pytest.mark.parametrize("raw", ['{"scope": "tm', '{"scope":', "{"])
def test_cut_off_arguments_are_called_cut_off(raw: str) -> None:
    assert "cut off" in error_of(NOTHING_REQUIRED, raw)


def test_an_object_encoded_twice_is_unwrapped_once() -> None:
    inner = '{"branch":"北区","day":"2027-01-05"}'
    read = read_arguments(BRANCH, json.dumps(inner))

    assert isinstance(read, Arguments)
    assert read.values == {"branch": "北区", "day": "2027-01-05"}
    assert [repair.rule for repair in read.repairs] == ["encoded_twice"]


def test_the_one_object_of_an_array_is_unwrapped() -> None:
    assert values_of(BRANCH, '[{"branch":"北区"}]') == {"branch": "北区"}


NO_OBJECT = {
    "R003-number": "42",
    "R003-text": '"hello"',
    "R003-null-in-quotes": '"null"',
    "R003-true": "true",
    "R003-empty-array": "[]",
    "R003-two-objects": '[{"branch":"a"},{"branch":"b"}]',
    "R003-array-of-text": '["北区"]',
    "R003-nested-array": '[[{"branch":"a"}]]',
    "R003-encoded-three-times": json.dumps(json.dumps('{"branch":"a"}')),
    "R003-array-in-text": json.dumps('[{"branch":"a"}]'),
    "R003-number-in-text": '"42"',
    "R003-value-42": 42,
}


@pytest.mark.parametrize("raw", NO_OBJECT.values(), ids=NO_OBJECT)
def test_what_is_no_object_is_an_error_that_says_so(raw: object) -> None:
    assert "one JSON object is needed" in error_of(BRANCH, raw)


def test_an_object_that_arrives_as_a_value_is_read_like_text() -> None:
    assert values_of(NUMBERS, {"limit": "25", "ratio": 1}) == {"limit": 25, "ratio": 1}


COERCED = {
    "R004-integer": ("integer", "25", 25),
    "R004-padded": ("number", " 0.5 ", 0.5),
    "R004-negative": ("integer", "-3", -3),
    "R004-exponent": ("number", "1e3", 1000),
    "R004-whole-decimal": ("integer", "3.0", 3),
    "R004-whole-float": ("integer", 3.0, 3),
    "R004-number-stays-integer": ("number", "7", 7),
    "boolean": ("boolean", "true", True),
    "boolean-in-capitals": ("boolean", " FALSE ", False),
    "text-from-integer": ("string", 7, "7"),
    "text-from-boolean": ("string", True, "true"),
    "text-from-float": ("string", 1.5, "1.5"),
    "nullable": (["integer", "null"], "25", 25),
    "null-stays": (["integer", "null"], None, None),
}


@pytest.mark.parametrize(("kind", "given", "wanted"), COERCED.values(), ids=COERCED)
def test_exact_conversions(kind: object, given: object, wanted: object) -> None:
    value = values_of(schema_of("x", {"type": kind}), json.dumps({"x": given}))["x"]

    assert value == wanted
    assert type(value) is type(wanted)


REFUSED = {
    "R004-many": ("integer", "many", "an integer"),
    "R004-empty": ("integer", "", "an integer"),
    "R004-blank": ("number", "  ", "a number"),
    "R004-fraction": ("integer", "2.5", "an integer"),
    "R004-fraction-number": ("integer", 2.5, "an integer"),
    "R004-leading-zero": ("integer", "007", "an integer"),
    "R004-plus": ("integer", "+7", "an integer"),
    "R004-thousands": ("integer", "1,000", "an integer"),
    "R004-unit": ("integer", "25 rows", "an integer"),
    "R004-underscore": ("integer", "1_000", "an integer"),
    "R004-hex": ("integer", "0x19", "an integer"),
    "R004-full-width": ("integer", "２５", "an integer"),
    "R004-nan": ("number", "NaN", "a number"),
    "R004-infinity": ("number", "1e999", "a number"),
    "R004-digits-would-be-lost": ("number", "0.12345678901234567891", "a number"),
    "truthiness-yes": ("boolean", "yes", "true or false"),
    "truthiness-one": ("boolean", 1, "true or false"),
    "truthiness-empty": ("boolean", "", "true or false"),
    "integer-from-boolean": ("integer", True, "an integer"),
    "text-from-null": ("string", None, "text"),
    "text-from-array": ("string", ["a"], "text"),
    "array-from-text": ("array", "a", "an array"),
    "object-from-text": ("object", "a", "an object"),
    "two-kinds": (["integer", "boolean"], "2x", "an integer or true or false"),
}


@pytest.mark.parametrize(("kind", "given", "wanted"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_exact_is_an_error_with_field_and_type(
    kind: object, given: object, wanted: str
) -> None:
    message = error_of(schema_of("x", {"type": kind}), json.dumps({"x": given}))

    assert message.startswith("`x` ")
    assert f" is not {wanted}" in message


def test_a_number_becomes_text_with_every_digit_it_was_written_with() -> None:
    schema = schema_of("x", {"type": "string"})

    assert values_of(schema, '{"x": 1.10}') == {"x": "1.10"}
    assert values_of(schema, '{"x": 12345678901234567890.123}') == {"x": "12345678901234567890.123"}
    assert values_of(schema, '[{"x": 1.10}]') == {"x": "1.10"}
    assert values_of(schema, '```\n{"x": 1.10}\n```') == {"x": "1.10"}
    assert values_of(schema, json.dumps('{"x": 1.10}')) == {"x": "1.10"}


def test_a_whole_float_that_python_has_rounded_never_becomes_an_integer() -> None:
    schema = schema_of("x", {"type": "integer"})

    assert type(values_of(schema, '{"x": 1e20}')["x"]) is int
    assert values_of(schema, '{"x": 9007199254740993.0}') == {"x": 9007199254740993}
    assert values_of(schema, '{"x": 9007199254740993}') == {"x": 9007199254740993}


FENCED = {
    "R005-language": "Sure, here it is:\n```json\n{}\n```\nAnything else?",
    "R005-no-language": "Sure, here it is:\n```\n{}\n```\nAnything else?",
    "R005-never-closed": "Sure, here it is:\n```json\n{}",
    "R005-never-closed-then-prose": "Sure:\n```json\n{}\n\nAnything else?",
    "R005-fence-after-the-brace": "Sure:\n```json\n{}```",
    "R005-fence-before-the-brace": "Sure:\n```json{}```",
    "R005-tildes": "~~~json\n{}\n~~~",
    "R005-four-ticks": "````json\n{}\n````",
    "R005-windows-lines": "Sure:\r\n```JSON\r\n{}\r\n```\r\n",
}


@pytest.mark.parametrize("frame", FENCED.values(), ids=FENCED)
def test_fenced_json_is_read_key_for_key(frame: str) -> None:
    written = '{"title":"","rows":[{"qty":3}]}'
    read = read_arguments(ROWS, frame.replace("{}", written))

    assert isinstance(read, Arguments)
    assert read.values == json.loads(written)
    assert [repair.rule for repair in read.repairs] == ["fence"]


def test_a_fence_inside_a_value_is_no_fence() -> None:
    body = {"branch": "```json\n{}\n```"}

    assert values_of(BRANCH, json.dumps(body)) == body
    assert values_of(BRANCH, f"```json\n{json.dumps(body)}\n```") == body


AMBIGUOUS = {
    "R005-two-blocks": '```json\n{"rows":[]}\n```\nor\n```json\n{"rows":[{"qty":1}]}\n```',
    "R005-two-unlike-blocks": '```\n{"rows":[]}\n```\n```python\nprint(1)\n```',
    "R005-object-after-the-block": '```json\n{"rows":[]}\n```\n{"rows":[{"qty":1}]}',
    "R005-object-before-the-block": '{"rows":[{"qty":1}]}\n```json\n{"rows":[]}\n```',
    "R005-two-objects-in-one-block": '```json\n{"rows":[]}\n{"rows":[]}\n```',
    "R005-cut-in-the-block": 'Sure:\n```json\n{"rows":[{"qty":3',
    "R005-prose-in-the-block": "```\nnothing\n```",
    "R005-block-in-a-cut-value": '{"title": "```json {} ```", "rows": [',
    "R005-nan-in-the-block": '```json\n{"rows":[{"qty":NaN}]}\n```',
}


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_blocks_are_never_mixed_nor_guessed_at(raw: str) -> None:
    assert error_of(ROWS, raw).startswith("the arguments could not be read: ")


CUT = {
    "R008-in-text": '{"path": "re',
    "R008-complete-looking": '{"path":"report.md"}',
    "R008-complete": '{"path":"report.md","content":"x"}',
    "R008-empty": "",
}


@pytest.mark.parametrize("raw", CUT.values(), ids=CUT)
def test_nothing_is_read_after_the_output_limit(raw: str) -> None:
    read = read_arguments({"type": "object"}, raw, finish_reason="length")

    assert isinstance(read, ArgumentError)
    assert read.code == "output_limit"
    assert "send less" in read.message


MATCHED = {
    "R016-exact": ("low", "low"),
    "R016-case": ("High", "high"),
    "R016-spaces": (" urgent ", "urgent"),
    "R016-both": ("\tURGENT\n", "urgent"),
}


@pytest.mark.parametrize(("given", "wanted"), MATCHED.values(), ids=MATCHED)
def test_a_unique_enum_match_is_taken(given: str, wanted: str) -> None:
    assert values_of(LEVEL, json.dumps({"level": given})) == {"level": wanted}


@pytest.mark.parametrize("given", ["高", "hi", "", "low,high", "LÖW", "ur gent", 1, None, ["low"]])
def test_any_other_enum_value_is_an_error_that_lists_what_is_allowed(given: object) -> None:
    message = error_of(LEVEL, json.dumps({"level": given}))

    assert message.startswith("`level` ")
    assert message.endswith('is not allowed; allowed: "low", "high", "urgent"')


def test_two_enum_candidates_are_never_chosen_between() -> None:
    schema = schema_of("x", {"enum": ["a", "A", "b"]})

    assert values_of(schema, '{"x": " a "}') == {"x": "a"}
    assert "is not allowed" in error_of(schema_of("x", {"enum": ["Ab", "aB"]}), '{"x": "AB"}')


def test_an_enum_match_does_not_depend_on_the_locale() -> None:
    schema = schema_of("x", {"enum": ["title", "list"]})
    before = locale.setlocale(locale.LC_CTYPE)
    names = [name for name in ("tr_TR.UTF-8", "tr_TR", "C") if _has_locale(name)]
    try:
        for name in names:
            locale.setlocale(locale.LC_CTYPE, name)
            assert values_of(schema, '{"x": "TITLE"}') == {"x": "title"}
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def _has_locale(name: str) -> bool:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_CTYPE, before)
    return True


def test_numbers_match_an_enum_of_numbers_by_their_spelling() -> None:
    schema = schema_of("x", {"enum": [1, 2, 3]})

    assert values_of(schema, '{"x": "2"}') == {"x": 2}
    assert "allowed: 1, 2, 3" in error_of(schema, '{"x": true}')


def test_an_unknown_key_is_an_error_with_what_was_surely_meant() -> None:
    assert error_of(NUMBERS, '{"limt": 5}') == "`limt` is unknown; did you mean `limit`?"
    assert error_of(NUMBERS, '{"zzz": 5}') == "`zzz` is unknown; known: `limit`, `ratio`"


def test_keys_are_free_where_the_schema_says_so() -> None:
    assert values_of({"type": "object"}, '{"a": 1}') == {"a": 1}
    assert values_of({**NUMBERS, "additionalProperties": True}, '{"a": 1}') == {"a": 1}
    assert values_of(
        {"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": "1"}'
    ) == {"a": 1}


def test_every_fault_is_named_with_its_path() -> None:
    message = error_of(ROWS, '{"rows": [{"qty": 1}, {"qty": "x", "q": 1}, {}], "titel": ""}')

    assert '`rows[1].qty` "x" is not an integer' in message
    assert "`rows[1].q` is unknown" in message
    assert "`rows[2].qty` is required and missing (an integer)" in message
    assert "`titel` is unknown; did you mean `title`?" in message


def test_null_for_an_optional_argument_is_left_out_for_read_tools_only() -> None:
    raw = '{"scope": null, "older_than_days": 3}'
    read = read_arguments(NOTHING_REQUIRED, raw, effect="read")

    assert isinstance(read, Arguments)
    assert read.values == {"older_than_days": 3}
    assert [str(repair) for repair in read.repairs] == ['scope: null → "left out" (null_left_out)']
    for effect in ("unsafe", "idempotent", "internal"):
        refused = read_arguments(NOTHING_REQUIRED, raw, effect=effect)
        assert isinstance(refused, ArgumentError)
        assert refused.message == '`scope` null is not text, such as "all"'


def test_a_repeated_key_counts_last_for_read_tools_only() -> None:
    read = read_arguments(NUMBERS, '{"limit": 1, "limit": 2}', effect="read")

    assert isinstance(read, Arguments)
    assert read.values == {"limit": 2}
    assert [repair.rule for repair in read.repairs] == ["repeated_key"]


def test_every_change_is_listed_with_path_and_rule() -> None:
    read = read_arguments(ROWS, '{"rows": [{"qty": "3"}], "title": 7}')

    assert isinstance(read, Arguments)
    assert [str(repair) for repair in read.repairs] == [
        'rows[0].qty: "3" → 3 (number_from_text)',
        'title: 7 → "7" (text_from_scalar)',
    ]


BRANCHES = {
    "text-first": ([{"type": "string"}, {"type": "integer"}], "25", "25"),
    "integer-or-null": ([{"type": "integer"}, {"type": "null"}], "25", 25),
    "enum-or-null": ([{"enum": ["a", "b"]}, {"type": "null"}], "A", "a"),
    "same-by-two-ways": ([{"type": "integer"}, {"type": "number"}], "25", 25),
    "array-or-integer": ([{"type": "array"}, {"type": "integer"}], "25", 25),
}


@pytest.mark.parametrize(("branches", "given", "wanted"), BRANCHES.values(), ids=BRANCHES)
def test_a_branch_that_fits_as_it_is_wins_then_the_only_one_that_can(
    branches: object, given: object, wanted: object
) -> None:
    assert values_of(schema_of("x", {"anyOf": branches}), json.dumps({"x": given})) == {"x": wanted}


def test_two_branches_that_fit_in_different_ways_are_an_error() -> None:
    listed = {"type": "array", "items": {"type": "integer"}}
    schema = schema_of("x", {"anyOf": [{"const": "1 "}, {"type": "integer"}, listed]})

    assert "more than one of the allowed forms" in error_of(schema, '{"x": "1"}')


def test_no_branch_is_an_error_that_names_the_forms() -> None:
    schema = schema_of("x", {"anyOf": [{"type": "integer"}, {"type": "null"}]})

    assert error_of(schema, '{"x": "many"}') == '`x` "many" is not an integer or null'


def test_a_branch_of_the_same_kind_tells_its_own_faults() -> None:
    point = {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"]}
    schema = schema_of("x", {"anyOf": [point, {"type": "null"}]})

    assert error_of(schema, '{"x": {}}') == "`x.y` is required and missing (an integer)"


def test_references_within_the_schema_are_followed() -> None:
    node: Schema = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "inner": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        },
    }
    schema: Schema = {**schema_of("x", {"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}

    assert values_of(schema, '{"x": {"inner": {"inner": {"size": "3"}}}}') == {
        "x": {"inner": {"inner": {"size": 3}}}
    }


@pytest.mark.parametrize("reference", ["https://example.org/s.json", "#/$defs/Gone", "#/$defs/L"])
def test_a_reference_that_leads_nowhere_is_an_error_and_nothing_is_fetched(reference: str) -> None:
    schema: Schema = {
        **schema_of("x", {"$ref": reference}),
        "$defs": {"L": {"$ref": "#/$defs/L"}},
    }

    assert "cannot be compared" in error_of(schema, '{"x": 1}')


FOREIGN: dict[str, tuple[object, object]] = {
    "pattern": ({"type": "string", "pattern": "^a"}, "b"),
    "multiple": ({"type": "integer", "multipleOf": 5}, 7),
    "unique": ({"type": "array", "uniqueItems": True}, [1, 1]),
    "not": ({"not": {"type": "string"}}, "b"),
    "all": ({"allOf": [{"minimum": 3}]}, 1),
    "property-names": ({"type": "object", "propertyNames": {"maxLength": 1}}, {"ab": 1}),
    "pattern-properties": ({"patternProperties": {"^a": {"type": "integer"}}}, {"a": "x"}),
}


@pytest.mark.parametrize(("body", "given"), FOREIGN.values(), ids=FOREIGN)
def test_keywords_beyond_the_common_ones_are_checked_too(body: object, given: object) -> None:
    assert error_of(schema_of("x", body), json.dumps({"x": given})).startswith("`x")


BOUNDS: dict[str, tuple[object, object, str]] = {
    "minimum": ({"minimum": 1}, 0, "`x` 0 must be at least 1"),
    "maximum": ({"maximum": 1}, 1.5, "`x` 1.5 must be at most 1"),
    "exclusive-minimum": ({"exclusiveMinimum": 1}, 1, "`x` 1 must be more than 1"),
    "exclusive-maximum": ({"exclusiveMaximum": 1}, 1, "`x` 1 must be less than 1"),
    "few-items": ({"minItems": 1}, [], "`x` has 0 items; at least 1 are needed"),
    "many-items": ({"maxItems": 1}, [1, 2], "`x` has 2 items; at most 1 are allowed"),
    "short": ({"minLength": 2}, "a", "`x` has 1 characters; at least 2 are needed"),
    "long": ({"maxLength": 2}, "abc", "`x` has 3 characters; at most 2 are allowed"),
    "tuple": ({"prefixItems": [{"type": "integer"}], "items": False}, [1, 2], "`x[1]` is not"),
    "timestamp": ({"type": "string", "format": "date-time"}, "1700000000", '`x` "1700000000" is'),
}


@pytest.mark.parametrize(("body", "given", "wanted"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_are_kept(body: object, given: object, wanted: str) -> None:
    assert error_of(schema_of("x", body), json.dumps({"x": given})).startswith(wanted)


def test_what_fits_is_not_copied_even() -> None:
    raw = {"rows": [{"qty": 1}], "title": "x"}
    read = read_arguments(ROWS, json.dumps(raw))

    assert read == Arguments(values=cast("dict[str, object]", raw), repairs=())


def test_a_schema_with_ever_more_readings_ends_in_an_error() -> None:
    tree: Schema = {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/T"}, "minItems": 9},
            {"type": "array", "items": {"$ref": "#/$defs/T"}, "maxItems": 0},
        ]
    }
    schema: Schema = {**schema_of("x", {"$ref": "#/$defs/T"}), "$defs": {"T": tree}}

    assert "too large or too deep" in error_of(schema, '{"x": ' + "[" * 40 + "]" * 40 + "}")
