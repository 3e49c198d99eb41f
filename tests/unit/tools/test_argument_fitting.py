"""Values that nearly fit a schema: what each becomes, for whom, and what a model is told."""

import json
from collections.abc import Callable

import pytest

from hermes.core.effects import EFFECTS, Effect
from hermes.tools import ArgumentError, Arguments, read_arguments

Schema = dict[str, object]
CHANGING: tuple[Effect, ...] = tuple(effect for effect in EFFECTS if effect != "read")

LEVELS = ["low", "high", "urgent", "very_late"]
TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
ROW: Schema = {
    "type": "object",
    "properties": {"qty": {"type": "integer"}, "start_date": {"type": "string"}},
    "required": ["qty"],
    "additionalProperties": False,
}
ROWS: Schema = {"type": "array", "items": ROW}


def schema_of(body: object) -> Schema:
    return {"type": "object", "properties": {"x": body}}


def read(body: object, given: object, effect: Effect = "unsafe") -> Arguments:
    found = read_arguments(schema_of(body), json.dumps({"x": given}), effect=effect)
    assert isinstance(found, Arguments), found
    return found


def refusal(body: object, given: object, effect: Effect = "unsafe") -> str:
    found = read_arguments(schema_of(body), json.dumps({"x": given}), effect=effect)
    assert isinstance(found, ArgumentError), found
    assert len(found.message) < 2_000
    return found.message


def format_(name: str) -> Schema:
    return {"type": "string", "format": name}


REPAIRED: dict[str, tuple[object, object, object, str]] = {
    "number-in-quotes": ({"type": "integer"}, "'25'", 25, "number_from_text"),
    "number-in-wide-quotes": ({"type": "number"}, "“0.5”", 0.5, "number_from_text"),
    "number-and-comma": ({"type": "integer"}, "25,", 25, "number_from_text"),
    "number-and-full-stop": ({"type": "integer"}, "25。", 25, "number_from_text"),
    "negative": ({"type": "integer"}, " -25 ", -25, "number_from_text"),
    "boolean-in-quotes": ({"type": "boolean"}, '"False"', False, "boolean_from_text"),
    "boolean-and-full-stop": ({"type": "boolean"}, "true.", True, "boolean_from_text"),
    "null-as-text": ({"type": ["integer", "null"]}, "null", None, "null_from_text"),
    "none-as-text": ({"type": ["integer", "null"]}, "None", None, "null_from_text"),
    "R016-case": ({"enum": LEVELS}, "HIGH", "high", "enum_match"),
    "R016-turkish-capital": ({"enum": ["title", "list"]}, "TİTLE", "title", "enum_match"),
    "R016-turkish-small": ({"enum": ["title", "list"]}, "lıst", "list", "enum_match"),
    "R016-full-width": ({"enum": LEVELS}, "ＨＩＧＨ", "high", "enum_match"),
    "R016-stray-quotes": ({"enum": LEVELS}, "'high'", "high", "enum_match"),
    "R016-wide-quotes-and-stop": ({"enum": LEVELS}, "“High”。", "high", "enum_match"),
    "R016-separator": ({"enum": LEVELS}, "Very Late", "very_late", "enum_match"),
    "enum-in-branches": (
        {"anyOf": [{"const": "a"}, {"const": "b", "title": "B"}]},
        "B",
        "b",
        "enum_match",
    ),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{3}$"}, " ABC ", "ABC", "trimmed"),
    "pattern-in-quotes": (
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        '"ABC"',
        "ABC",
        "stray_marks",
    ),
    "longest": ({"type": "string", "maxLength": 3}, "abc ", "abc", "trimmed"),
    "date-slashes": (format_("date"), "2027/1/5", "2027-01-05", "date"),
    "date-points": (format_("date"), " 2027.01.05 ", "2027-01-05", "date"),
    "date-chinese": (format_("date"), "2027年1月5日", "2027-01-05", "date"),
    "date-full-width": (format_("date"), "２０２７－０１－０５", "2027-01-05", "date"),
    "time": (format_("time"), "8：15", "08:15", "time"),
    "date-time": (format_("date-time"), "2027/1/5 8:15 UTC", "2027-01-05T08:15Z", "date_time"),
    "date-time-offset": (
        format_("date-time"),
        "2027年1月5日 8:15 +08:00",
        "2027-01-05T08:15+08:00",
        "date_time",
    ),
    "duration": (format_("duration"), "1h30m", "PT1H30M", "duration"),
    "duration-words": (format_("duration"), "2 days, 3 hours", "P2DT3H", "duration"),
    "duration-chinese": (format_("duration"), "2小时30分钟", "PT2H30M", "duration"),
    "email-brackets": (format_("email"), "<anna@example.org>", "anna@example.org", "stray_marks"),
    "email-link": (format_("email"), "mailto:anna@example.org", "anna@example.org", "email"),
    "email-full-width": (format_("email"), "anna＠example.org。", "anna@example.org", "email"),
    "uuid": (
        format_("uuid"),
        "{0191e2a47c3b7f0080005d2f6a1b9c3e}",
        "0191e2a4-7c3b-7f00-8000-5d2f6a1b9c3e",
        "uuid",
    ),
    "path-in-quotes": (format_("path"), " 'a b.txt' ", "a b.txt", "stray_marks"),
    "path-as-link": (format_("path"), "file:///tmp/%E4%B8%AD.txt", "/tmp/中.txt", "path"),
    "array-as-text": (TEXTS, '["a", "b"]', ["a", "b"], "array_from_text"),
    "array-as-python": (TEXTS, "['a', 'b',]", ["a", "b"], "array_from_text"),
    "object-as-text": (ROW, '{"qty": "3"}', {"qty": 3}, "object_from_text"),
    "one-object-for-an-array": (ROWS, {"qty": "3"}, [{"qty": 3}], "item_in_array"),
    "array-for-one-object": (ROW, [{"qty": 3}], {"qty": 3}, "one_in_array"),
    "one-text-for-an-array": (TEXTS, "a", ["a"], "item_in_array"),
    "one-member-for-an-array": (
        {"type": "array", "items": {"enum": LEVELS}},
        "High",
        ["high"],
        "item_in_array",
    ),
    "key-with-spaces": (ROW, {"qty ": 1}, {"qty": 1}, "key"),
    "key-with-invisible-characters": (ROW, {"\ufeffqty": 1}, {"qty": 1}, "key"),
    "mildest-form": (
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        "25",
        25,
        "number_from_text",
    ),
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(("body", "given", "wanted", "rule"), REPAIRED.values(), ids=REPAIRED)
def test_what_can_mean_one_thing_only_is_repaired_for_every_tool(
    body: object, given: object, wanted: object, rule: str, effect: Effect
) -> None:
    found = read(body, given, effect)

    assert found.values == {"x": wanted}
    assert type(found.values["x"]) is type(wanted)
    assert rule in [repair.rule for repair in found.repairs]
    again = read_arguments(schema_of(body), found.values, effect=effect)
    assert again == Arguments(values=found.values)


KEPT: dict[str, tuple[object, object]] = {
    "spaces-in-free-text": ({"type": "string"}, "  Shanghai, China "),
    "quotes-in-free-text": ({"type": "string"}, "'Shanghai'"),
    "json-in-free-text": ({"type": "string"}, '{"a": 1}'),
    "true-as-text": ({"type": "string"}, "True"),
    "text-or-array": ({"anyOf": [{"type": "string"}, TEXTS]}, '["a"]'),
    "line-break": ({"type": "string", "pattern": "^\\s*a\\s*$"}, " a\n"),
    "date": (format_("date"), "2027-01-05"),
    "date-time": (format_("date-time"), "2027-01-05 08:15:00.5+0800"),
    "duration": (format_("duration"), "P1DT2H"),
    "duration-as-python-writes-it": (format_("duration"), "1 day, 2:00:00"),
    "unknown-format": (format_("colour"), " red "),
    "alias-that-is-a-member": ({"enum": ["高", "high"], "x-aliases": {"high": ["hoch"]}}, "高"),
    "empty-array": (TEXTS, []),
    "whole-float-for-a-number": ({"type": "number"}, 1.5),
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(("body", "given"), KEPT.values(), ids=KEPT)
def test_what_fits_is_kept_to_the_letter(body: object, given: object, effect: Effect) -> None:
    assert read(body, given, effect) == Arguments(values={"x": given})


REFUSED: dict[str, tuple[object, object, str]] = {
    "date-of-two-readings": (format_("date"), "1/5/2027", "is not a date such as 2026-11-29"),
    "no-such-day": (format_("date"), "2027-02-30", "is not a date such as"),
    "date-in-words": (format_("date"), "tomorrow", "is not a date such as"),
    "date-without-time": (format_("date-time"), "2027-01-05", "2026-11-29T08:00:00Z"),
    "no-such-hour": (format_("date-time"), "2027-01-05T25:00:00Z", "2026-11-29T08:00:00Z"),
    "duration-without-unit": (format_("duration"), 90, "a duration such as PT1H30M"),
    "minutes-or-months": (format_("duration"), "30m", "a duration such as PT1H30M"),
    "no-email": (format_("email"), "anna at example", "anna@example.org"),
    "two-emails": (format_("email"), "a@b.org, c@d.org", "anna@example.org"),
    "no-uuid": (format_("uuid"), "0191e2a4", "a UUID such as"),
    "empty-path": (format_("path"), "", "a path such as"),
    "nul-in-a-path": (format_("path"), "a\0b", "a path such as"),
    "path-with-legal-escapes": (format_("path"), "C:\new\table.txt", "each backslash twice"),
    "inches": ({"type": "integer"}, '25"', "is not an integer, such as 3"),
    "percent": ({"type": "integer"}, "25%", "is not an integer"),
    "in-brackets": ({"type": "integer"}, "(25)", "is not an integer"),
    "line-break-against-a-pattern": (
        {"type": "string", "pattern": "^[a-z]$"},
        "\na\n",
        "does not match the pattern ^[a-z]$",
    ),
    "several-texts-for-an-array": (TEXTS, "a, b", 'is not an array, such as ["…"]'),
    "text-for-rows": (ROWS, "a", 'is not an array, such as [{"qty": 3}]'),
    "two-objects-for-one": (ROW, [{"qty": 1}, {"qty": 2}], "is not an object"),
    "text-that-is-no-object": (ROW, "qty 3", "is not an object"),
    "cut-off-object-as-text": (ROW, '{"qty": 3', "is not an object"),
    "object-as-text-with-a-fault": (ROW, '{"qty": "x"}', '`x.qty` "x" is not an integer'),
    "too-many-items": ({**TEXTS, "maxItems": 2}, ["a", "b", "c"], "at most 2 are allowed"),
    "example-of-the-schema": (
        {"type": "integer", "examples": [443]},
        "https",
        '"https" is not an integer, such as 443',
    ),
}


@pytest.mark.parametrize("effect", ["read", "unsafe"])
@pytest.mark.parametrize(("body", "given", "text"), REFUSED.values(), ids=REFUSED)
def test_what_could_mean_something_else_is_refused_with_what_is_wanted(
    body: object, given: object, text: str, effect: Effect
) -> None:
    message = refusal(body, given, effect)

    assert message.startswith("`x")
    assert text in message


FOR_READ: dict[str, tuple[object, object, object, str]] = {
    "before-a-comma": (
        {"enum": ["Shanghai", "Beijing"]},
        "Shanghai, China",
        "Shanghai",
        "before_comma",
    ),
    "before-a-wide-comma": ({"enum": ["上海", "北京"]}, "上海，中国", "上海", "before_comma"),
    "documented": (
        {"enum": LEVELS, "description": "low (低), high (高、紧急)"},
        "紧急",
        "high",
        "alias",
    ),
    "documented-wide": (
        {"enum": LEVELS, "description": "urgent（加急），low：低"},
        "低",
        "low",
        "alias",
    ),
    "key-in-another-case": (ROW, {"QTY": 1}, {"qty": 1}, "key"),
    "key-in-camel-case": (
        ROW,
        {"qty": 1, "startDate": "x"},
        {"qty": 1, "start_date": "x"},
        "key",
    ),
    "close-key": (ROW, {"qty": 1, "star_date": "x"}, {"qty": 1, "start_date": "x"}, "key"),
    "name-before-an-address": (format_("email"), "Anna <a@b.org>", "a@b.org", "email"),
    "text-with-a-space-for-an-array": (TEXTS, "a b", ["a b"], "item_in_array"),
}


@pytest.mark.parametrize(("body", "given", "wanted", "rule"), FOR_READ.values(), ids=FOR_READ)
def test_what_drops_or_renames_something_is_repaired_for_tools_that_only_read(
    body: object, given: object, wanted: object, rule: str
) -> None:
    found = read(body, given, "read")

    assert found.values == {"x": wanted}
    assert rule in [repair.rule for repair in found.repairs]
    for effect in CHANGING:
        refusal(body, given, effect)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("given", ["low, high", "not low", "Low or high", "medium, I think", ","])
def test_two_words_of_a_closed_set_are_never_chosen_between(given: str, effect: Effect) -> None:
    message = refusal({"enum": LEVELS}, given, effect)

    assert message.endswith('is not allowed; allowed: "low", "high", "urgent", "very_late"')


def test_a_number_with_a_comma_is_no_member_with_something_behind_it() -> None:
    assert "is not allowed" in refusal({"enum": [1, 10]}, "1,000", "read")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(
    ("members", "given"),
    [
        (["=", "<", ">"], "!="),
        (["=", "<", ">"], "=,"),
        ([",", ";"], ",;"),
        (["paid", "open"], "!paid"),
        (["paid", "open"], "！paid"),
        (["paid", "open"], "~paid"),
        (["paid", "open"], "-paid"),
        (["paid", "open"], "<paid>"),
        (["paid", "open"], "paid?"),
        (["paid", "open"], "(paid"),
        (["102", "2"], "10²"),
        (["1", "2"], "①"),
    ],
)
def test_a_mark_that_may_mean_something_is_never_dropped(
    members: list[str], given: str, effect: Effect
) -> None:
    assert "is not allowed" in refusal({"enum": members}, given, effect)


@pytest.mark.parametrize("given", ['"paid".', "(paid)", "【Paid】。", "ｐａｉｄ", "paid;"])
def test_quotes_brackets_and_end_marks_around_a_member_are_dropped(given: str) -> None:
    assert read({"enum": ["paid", "open"]}, given).values == {"x": "paid"}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("given", ["", " "])
def test_no_text_is_no_item(given: str, effect: Effect) -> None:
    assert 'is not an array, such as ["…"]' in refusal(TEXTS, given, effect)


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("9007199254740993.0", 9007199254740993),
        ("1e23", 10**23),
        ("1e308", 10**308),
        ("-0.0", 0),
        ("0e999999999", 0),
        ("1.50e1", 15),
    ],
)
def test_a_whole_number_keeps_every_digit_in_any_spelling(written: str, whole: int) -> None:
    found = read_arguments(schema_of({"type": "integer"}), f'{{"x": {written}}}')

    assert found == Arguments(values={"x": whole})
    assert isinstance(found, Arguments)
    assert type(found.values["x"]) is int


LOSSY = ["12345678901234567.89", "1e-400", "4.99999999999999999999", "1e-99999999999999999999"]


@pytest.mark.parametrize("written", LOSSY)
@pytest.mark.parametrize(
    "body",
    [{"type": "number"}, {}, {"anyOf": [{"type": "number"}, {"type": "null"}]}, {"type": "array"}],
)
def test_a_number_that_would_be_rounded_is_refused(written: str, body: object) -> None:
    raw = f"[{written}]" if body == {"type": "array"} else written
    found = read_arguments(schema_of(body), f'{{"x": {raw}}}')

    assert isinstance(found, ArgumentError)
    assert "cannot be held exactly" in found.message


def test_a_rounded_number_is_no_integer_and_no_member_and_stays_text() -> None:
    for body in ({"type": "integer"}, {"enum": [5, 6]}, {"const": 5.0}):
        found = read_arguments(schema_of(body), '{"x": 4.99999999999999999999}')
        assert isinstance(found, ArgumentError)
    found = read_arguments(schema_of({"type": "string"}), '{"x": 4.99999999999999999999}')
    assert isinstance(found, Arguments)
    assert found.values == {"x": "4.99999999999999999999"}


@pytest.mark.parametrize(
    "number", [0.1, 3.14, 1234.5678, 1e-7, 1.5e300, 5e-324, 0.30000000000000004]
)
def test_ordinary_decimals_are_kept(number: float) -> None:
    assert read({"type": "number"}, number) == Arguments(values={"x": number})


@pytest.mark.parametrize("body", [{"items": {}}, {}, {"items": True}, {"items": {"title": "any"}}])
def test_items_of_any_kind_are_never_too_many(body: Schema) -> None:
    many: list[object] = [1] * 10_000

    assert read({"type": "array", **body}, many) == Arguments(values={"x": many})


CATASTROPHIC = [
    "(a+)+$",
    "^(.[a-z]+)*$",
    "(?<=a)(a+>?)+$",
    "(?x)( [a]+)+$",
    "^(a|aa)+$",
    "^(?:a*)*$",
    "^(?P<x>a?){30,}$",
    "^((a+)+)+$",
    "(a|a|a)*b",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_a_pattern_that_may_take_for_ever_is_searched_in_short_texts_only(pattern: str) -> None:
    bodies: list[Schema] = [
        {"type": "string", "pattern": pattern},
        {"allOf": [{"type": "string", "pattern": pattern}]},
    ]
    for body in bodies:
        assert "may take for ever" in refusal(body, "a" * 5_000 + "!")
        assert "may take for ever" in refusal(body, "a" * 40 + "!")
        assert "does not match" in refusal(body, "a!!")
    keys: Schema = {"type": "object", "additionalProperties": False}
    named: dict[str, object] = {"patternProperties": {pattern: {}}}
    for body in ({**keys, **named}, {**named, **keys}):
        assert "may take for ever" in refusal(body, {"a" * 40 + "!": 1})


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z0-9]+(-[a-z0-9]+)*$", "a-slug" * 100),
        (r"^(?:[a-z0-9]+\.)+[a-z]{2,}$", "example." * 100 + "org"),
        (r"^\d{1,3}(\.\d{1,3}){3}$", "127.000.000.001"),
        ("^(red|green)?[a-z(+)+]+$", "red" + "a" * 600),
        (r"^\(a+\)+$", "(" + "a" * 600 + ")"),
    ],
)
def test_a_pattern_that_comes_to_an_end_is_searched_in_any_text(pattern: str, text: str) -> None:
    assert read({"type": "string", "pattern": pattern}, text).repairs == ()


KEYS: dict[str, dict[str, object]] = {
    "two-that-could-be-one": {"qty": 1, "startDate": "x", "start-date": "y"},
    "one-beside-the-right-one": {"qty": 1, "start_date": "x", "startDate": "y"},
    "far-away": {"qty": 1, "end": "x"},
    "other-digits": {"qty": 1, "start_date2": "x"},
    "value-does-not-fit": {"Qty": "many"},
}


@pytest.mark.parametrize("given", KEYS.values(), ids=KEYS)
def test_a_key_that_is_not_surely_another_is_refused_even_for_read_tools(
    given: dict[str, object],
) -> None:
    assert "is unknown" in refusal(ROW, given, "read")


def test_a_repaired_key_keeps_its_place_and_the_digits_of_its_number() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {"price": {"type": "string"}, "b": {"type": "integer"}},
            "additionalProperties": False,
        }
    )
    found = read_arguments(schema, '{"x": {"Price": 1.10, "b": 2}}', effect="read")

    assert isinstance(found, Arguments)
    assert found.values == {"x": {"price": "1.10", "b": 2}}
    assert [str(repair) for repair in found.repairs] == [
        'x.Price: "Price" → "price" (key)',
        'x.Price: 1.1 → "1.10" (text_from_scalar)',
    ]


def test_numbers_keep_their_digits_in_another_shape() -> None:
    assert read(TEXTS, "[1.10, 2.50]").values == {"x": ["1.10", "2.50"]}
    found = read_arguments(schema_of(TEXTS), '{"x": 1.10}')
    assert isinstance(found, Arguments)
    assert found.values == {"x": ["1.10"]}
    row = {"type": "object", "properties": {"a": {"type": "string"}}}
    found = read_arguments(schema_of(row), '{"x": [{"a": 1.10}]}')
    assert isinstance(found, Arguments)
    assert found.values == {"x": {"a": "1.10"}}


MAIL = {
    "type": "object",
    "properties": {"kind": {"const": "mail"}, "to": {"type": "string"}},
    "required": ["kind", "to"],
    "additionalProperties": False,
}
SMS = {
    "type": "object",
    "properties": {"kind": {"enum": ["sms"]}, "number": {"type": "integer"}},
    "required": ["kind", "number"],
    "additionalProperties": False,
}

TAGS: dict[str, tuple[object, str]] = {
    "of-the-tag": ({"kind": "sms"}, "`x.number` is required and missing (an integer)"),
    "of-another-case": ({"kind": "mail", "To": "a"}, "`x.To` is unknown; did you mean `to`?"),
    "no-such-tag": ({"kind": "fax"}, '`x.kind` "fax" is not allowed; allowed: "mail", "sms"'),
    "no-tag": ({"to": "a"}, '`x.kind` is required and missing; allowed: "mail", "sms"'),
}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(("given", "text"), TAGS.values(), ids=TAGS)
def test_faults_are_told_of_the_form_that_the_tag_names(
    given: object, text: str, keyword: str
) -> None:
    assert text in refusal({keyword: [MAIL, SMS]}, given)


def test_a_tag_in_another_case_chooses_its_form() -> None:
    given = {"kind": "SMS", "number": "7"}

    assert read({"oneOf": [MAIL, SMS]}, given).values == {"x": {"kind": "sms", "number": 7}}


def test_a_message_about_very_many_members_is_short_and_names_a_near_one() -> None:
    members = [f"station-{number:04}" for number in range(2_000)]

    message = refusal({"enum": members}, "station-77")

    assert len(message) < 900
    assert "2000 in all" in message
    assert "did you mean" in message


def test_a_model_reads_eight_faults_at_most() -> None:
    message = refusal({"type": "array", "items": {"type": "integer"}}, ["x"] * 100)

    assert message.count("is not an integer") == 8


def test_repairs_without_end_are_refused_with_one_of_them() -> None:
    message = refusal({"type": "array", "items": {"type": "integer"}}, ["1"] * 20_000)

    assert message.endswith('one repair of many is x[0]: "1" → 1 (number_from_text)')


def test_a_large_value_that_fits_is_never_too_large() -> None:
    rows: list[object] = [{"qty": 1}] * 10_000

    assert read(ROWS, rows) == Arguments(values={"x": rows})
    numbers: list[object] = list(range(30_000))
    body = {"type": "array", "items": {"type": ["integer", "null"], "minimum": 0}}
    assert read({**TEXTS, "items": {"type": "integer", "minimum": 0}}, numbers).repairs == ()
    assert read(body, numbers).repairs == ()


LOOKS: dict[str, tuple[object, Callable[[], object]]] = {
    "bounds": ({"type": "array", "items": {"type": "integer", "maximum": 3}}, lambda: [1, 4]),
    "length": ({"type": "array", "items": {"type": "string", "maxLength": 1}}, lambda: ["a", "bc"]),
    "members": ({"type": "array", "items": {"enum": ["a"]}}, lambda: ["a", "b"]),
    "boolean-is-no-integer": ({"type": "array", "items": {"type": "integer"}}, lambda: [1, True]),
    "text-is-no-number": ({"type": "array", "items": {"type": "number"}}, lambda: [1.5, "x"]),
    "missing": (ROWS, lambda: [{"qty": 1}, {}]),
    "unknown": (ROWS, lambda: [{"qty": 1, "zzz": 2}]),
    "deep": ({"type": "array", "items": ROWS}, lambda: [[{"qty": 1}], [{"qty": "x"}]]),
    "branch": (
        {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        lambda: [1, None, "x"],
    ),
}


@pytest.mark.parametrize(("body", "make"), LOOKS.values(), ids=LOOKS)
def test_a_quick_look_misses_nothing(body: object, make: Callable[[], object]) -> None:
    assert refusal(body, make())


BROKEN: dict[str, object] = {
    "bound-of-another-kind": {"type": "integer", "minimum": "3"},
    "no-type": {"type": 5},
    "no-pattern": {"type": "string", "pattern": "("},
    "no-list": {"not": 5},
    "no-reference": {"$ref": "#/$defs/Gone"},
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("given", [1, "a"])
def test_a_broken_schema_is_an_error_or_says_nothing(body: object, given: object) -> None:
    found = read_arguments(schema_of(body), {"x": given})

    assert isinstance(found, Arguments | ArgumentError)


def test_items_as_they_were_listed_before_2020_are_fitted_one_by_one() -> None:
    body = {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}}

    assert read(body, ["1", 2]).values == {"x": [1, "2"]}


def test_items_that_may_stand_once_are_told_apart_in_any_number() -> None:
    body = {"type": "array", "uniqueItems": True}
    many: list[object] = [*range(20_000), *map(str, range(10_000)), True, [1], {"a": 1}, None]

    assert read(body, many).repairs == ()
    for twice in ([1, 1.0], [[1], [1.0]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [True, True]):
        assert "has an item twice" in refusal(body, twice)
    assert read(body, [1, True, "1", [1], [True]]).repairs == ()
