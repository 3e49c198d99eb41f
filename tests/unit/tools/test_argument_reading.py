"""Texts that are nearly JSON: what each means, for whom it is read, and what is never guessed."""

import json
import os

import pytest

from hermes.core.effects import EFFECTS, Effect
from hermes.tools import ArgumentError, Arguments, read_arguments

FREE: dict[str, object] = {"type": "object"}
CHANGING: tuple[Effect, ...] = tuple(effect for effect in EFFECTS if effect != "read")
BACKSLASH = "\\"


def read(raw: object, effect: Effect = "unsafe") -> Arguments:
    found = read_arguments(FREE, raw, effect=effect)
    assert isinstance(found, Arguments), found
    return found


def refusal(raw: object, effect: Effect = "unsafe") -> str:
    found = read_arguments(FREE, raw, effect=effect)
    assert isinstance(found, ArgumentError), found
    assert found.code == "bad_arguments"
    assert len(found.message) < 2_000
    return found.message


LOSSLESS: dict[str, tuple[str, object, list[str]]] = {
    "R006-python": (
        "{'q': 'tea', 'strict': True, 'limit': None, 'items': [{'id': '1'}], 'note': \"it's\"}",
        {"q": "tea", "strict": True, "limit": None, "items": [{"id": "1"}], "note": "it's"},
        ["single_quotes", "python_literal"],
    ),
    "R006-single-quoted-list-inside": (
        """{"q": "tea", "items": ['a', 'b "c"', "d"]}""",
        {"q": "tea", "items": ["a", 'b "c"', "d"]},
        ["single_quotes"],
    ),
    "R006-escaped-apostrophe": (
        r"""{'note': 'it\'s', 'q': "it\'s"}""",
        {"note": "it's", "q": "it's"},
        ["single_quotes", "escapes"],
    ),
    "R006-false-and-none": (
        '{"a": False, "b": [None, True]}',
        {"a": False, "b": [None, True]},
        ["python_literal"],
    ),
    "R006-tuple": ("{'xy': (1, 2), 'one': ('a',)}", {"xy": [1, 2], "one": ["a"]}, ["tuple"]),
    "R006-escapes-as-python-writes-them": (
        r"{'a': 'caf\xe9!\n', 'b': 'C:\\temp\nx'}",
        {"a": "café!\n", "b": "C:\\temp\nx"},
        ["escapes"],
    ),
    "R006-triple-quotes": (
        '{"code": """def f():\n    return "x"\n"""}',
        {"code": 'def f():\n    return "x"\n'},
        ["triple_quotes", "line_break"],
    ),
    "trailing-comma": ('{"a": [1, 2,], "b": {"c": 1,},}', {"a": [1, 2], "b": {"c": 1}}, []),
    "comments": (
        '{"a": 1, // one\n /* two */ "b": "//", # three\n "c": "/* */"}',
        {"a": 1, "b": "//", "c": "/* */"},
        ["comment"],
    ),
    "unquoted-keys": (
        '{path: "a.md", max-items: 3, $ref: "x", 城市: "北京"}',
        {"path": "a.md", "max-items": 3, "$ref": "x", "城市": "北京"},
        ["bare_key"],
    ),
    "unquoted-key-that-is-a-literal": ("{true: 1, None: 2}", {"true": 1, "None": 2}, ["bare_key"]),
    "chinese-keyboard": (
        "｛“城市”：“北京”，“天数”：3，“标签”：［“a”，“b”］｝",
        {"城市": "北京", "天数": 3, "标签": ["a", "b"]},
        ["wide_quotes", "wide_punctuation"],
    ),
    "full-width-quotes": ("{＂a＂: ＂b＂, ‘c’: ‘d’}", {"a": "b", "c": "d"}, ["wide_quotes"]),
    "wide-marks-inside-strings-stay": (
        "{'text': '他说：“好”，走吧'}",
        {"text": "他说：“好”，走吧"},
        ["single_quotes"],
    ),
    "byte-order-mark": ('\ufeff{"a": 1}', {"a": 1}, ["invisible"]),
    "invisible-between-tokens": (
        '{\u200b"a"\u2060:\u00a01,\u3000"b": "x\u200by"}',
        {"a": 1, "b": "x\u200by"},
        ["invisible"],
    ),
    "raw-line-break": (
        '{"a": "one\ntwo\r\n\tthree"}',
        {"a": "one\ntwo\r\n\tthree"},
        ["line_break"],
    ),
    "quotes-escaped-once-too-often": (
        r"""{\"a\": \"b\", \"c\": \"say \\\"hi\\\"\"}""",
        {"a": "b", "c": 'say "hi"'},
        ["escaped_quotes"],
    ),
    "prose-around": ('Sure, here it is: {"a": 1} Anything else?', {"a": 1}, ["prose"]),
    "R005-fence-and-prose": (
        'Sure!\n```json\n{"a": 1}\n```\nLet me know if you need more.',
        {"a": 1},
        ["fence"],
    ),
    "R005-chinese-prose": ('好的，参数如下：\n```\n{"a": 1}\n```\n以上。', {"a": 1}, ["fence"]),
    "tags-around": ('<arguments>{"a": 1}</arguments>', {"a": 1}, ["prose"]),
    "prose-and-question": ('Here: {"a": 1} ok?', {"a": 1}, ["prose"]),
    "one-bracket-too-many": ('{"a": {"b": 1}}}', {"a": {"b": 1}}, ["prose"]),
    "fence-and-python": ("```python\n{'a': True,}\n", {"a": True}, ["fence", "single_quotes"]),
    "R003-python-in-text": ("\"{'a': 1}\"", {"a": 1}, ["encoded_twice", "single_quotes"]),
    "R003-fence-in-text": (json.dumps('```json\n{"a": 1}\n```'), {"a": 1}, ["encoded_twice"]),
    "emoji-escapes": (r"{'a': '\ud83d\ude00'}", {"a": "😀"}, ["single_quotes"]),
    "prefix-r": (r"""{"a": r"C:\new"}""", {"a": r"C:\new"}, ["raw_text", "backslashes"]),
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(("raw", "wanted", "rules"), LOSSLESS.values(), ids=LOSSLESS)
def test_what_has_one_reading_is_read_for_every_tool(
    raw: str, wanted: object, rules: list[str], effect: Effect
) -> None:
    found = read(raw, effect)

    assert found.values == wanted
    assert found.repairs
    assert {repair.rule for repair in found.repairs} >= set(rules)


PATHS = {
    "R007": r"D:\Users\new\table.txt",
    "R007-legal-last": r"C:\Users\b\f\n",
    "R007-unc": r"\\server\new\Übung",
    "R007-chinese": r"D:\数据\新建\report.txt",
    "R007-spaces": r"C:\Program Files\new\table.txt",
    "R007-relative": r"src\new\util.py",
    "R007-dots": r"..\new\Table.csv",
    "R007-variable": r"%APPDATA%\new\x",
    "R007-ends-with-a-backslash": "D:\\Users\\new\\",
    "R007-in-a-command": r"type D:\Users\new\table.txt",
    "R007-mixed-slashes": r"D:\Users/new\table.txt",
    "R007-regex": r"\d+\.\w+",
    "R007-latex": r"\alpha + \omega",
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_where_one_backslash_was_not_escaped_all_of_that_string_are_literal(
    path: str, effect: Effect
) -> None:
    assert read(f'{{"path":"{path}"}}', effect).values == {"path": path}
    assert read(f'{{"path":"{path}","n":1}}', effect).values == {"path": path, "n": 1}
    assert read(f"{{'path': '{path}'}}", effect).values == {"path": path}


def test_a_path_of_legal_escapes_is_literal_beside_one_that_needs_repair() -> None:
    raw = r'{"from":"D:\Users\new","to":"C:\temp\new","text":"one\ntwo"}'

    assert read(raw).values == {"from": r"D:\Users\new", "to": r"C:\temp\new", "text": "one\ntwo"}


@pytest.mark.parametrize("effect", EFFECTS)
def test_well_formed_json_keeps_its_escapes(effect: Effect) -> None:
    raw = r'{"path":"C:\\temp\\new","text":"C:\temp\new"}'

    found = read(raw, effect)

    assert found.values == {"path": r"C:\temp\new", "text": "C:\temp\new"}
    assert found.repairs == ()


def test_an_escaped_quote_is_a_quote_even_beside_literal_backslashes() -> None:
    assert read(r'{"cmd":"grep -P \"\d+\" log"}').values == {"cmd": r'grep -P "\d+" log'}


CODES = {
    "x64": r"bin\x64",
    "x64-and-legal-ones": r"build\x64\readme",
    "x86-and-legal-ones": r"Release\x86\new",
    "long-code": r"logs\U0001F600",
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("path", CODES.values(), ids=CODES)
def test_the_codes_of_python_are_no_escapes_between_the_quotes_of_json(
    path: str, effect: Effect
) -> None:
    assert read(f'{{"path":"{path}"}}', effect).values == {"path": path}
    if effect != "read":
        assert "can be read in two ways" in refusal(f"{{'path': '{path}'}}", effect)
        assert "can be read in two ways" in refusal(f'{{"text": "a {path}, b"}}', effect)


def test_a_sound_string_is_read_as_json_says_whatever_is_wrong_beside_it() -> None:
    assert read(r'{"b":"Q:\nwhat",}').values == {"b": "Q:\nwhat"}
    assert read(r"{'b': 'Q:\nwhat', 'c': True}").values == {"b": "Q:\nwhat", "c": True}
    assert read(r'{"b":"C:\\new","c":"\d"}').values == {"b": r"C:\new", "c": r"\d"}
    found = read(r'{"to":"C:\temp\new","from":"D:\Users\new"}')
    assert found.values == {"to": r"C:\temp\new", "from": r"D:\Users\new"}


REASONING = {
    "closed": '<think>{"scope":"all"}</think>',
    "unclosed": '<think>{"scope":"all"}',
    "with-prose": '<think>maybe {"scope":"all"}</think> no.',
    "begun-by-the-server": '{"scope":"all"}</think>',
    "twice": '<think>all?</think><think>{"scope":"all"}',
    "fenced": '<think>\n```json\n{"scope":"all"}\n```',
    "other-marks": '[THINK]{"scope":"all"}[/THINK]',
    "as-a-string": json.dumps('<think>{"scope":"all"}</think>'),
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("raw", REASONING.values(), ids=REASONING)
def test_reasoning_gives_no_arguments(raw: str, effect: Effect) -> None:
    assert "could not be read" in refusal(raw, effect)
    assert read({"text": raw}, effect).values == {"text": raw}


def test_the_object_behind_closed_reasoning_is_read() -> None:
    assert read('<think>{"b": 2}?</think>\n{"a": 1}').values == {"a": 1}


TWO_READINGS = {
    "line-break-or-not": r"costs \$5\nNext line",
    "tab-or-not": r"\d\t\w",
    "escaped-and-not": r"\\d+\.\w",
    "sentence": r"it is\s\nfine",
}


@pytest.mark.parametrize("text", TWO_READINGS.values(), ids=TWO_READINGS)
def test_backslashes_with_two_readings_are_refused_for_tools_that_change_something(
    text: str,
) -> None:
    raw = f'{{"text":"{text}"}}'

    for effect in CHANGING:
        assert "can be read in two ways" in refusal(raw, effect)
    assert read(raw, "read").values == {"text": text}


GUESSES: dict[str, tuple[str, object]] = {
    "call-around": ('purge({"a": 1})', {"a": 1}),
    "denied": ('Do not run {"scope": "all"}!', {"scope": "all"}),
    "denied-with-a-colon": ('Do not run this: {"scope": "all"}', {"scope": "all"}),
    "denied-before-a-fence": ('Never run\n```json\n{"a": 1}\n```', {"a": 1}),
    "example": ('For example {"scope": "tmp"} would be wrong.', {"scope": "tmp"}),
    "example-with-a-colon": ('例如：{"scope": "tmp"}', {"scope": "tmp"}),
    "denied-afterwards": ('Here: {"a": 1} is wrong', {"a": 1}),
    "argument-in-prose": ('{"scope": "tmp"} and older_than_days 30', {"scope": "tmp"}),
    "flag-in-prose": ('{"scope": "tmp"} and recursive please', {"scope": "tmp"}),
    "denied-after-a-fence": ('```json\n{"a": 1}\n```\nDo not run this.', {"a": 1}),
    "fence-and-more": ('```json\n{"a": 1}\n```\nand recursive please', {"a": 1}),
    "no-colon-before": ('Purging {"a": 1}', {"a": 1}),
    "quotes-inside": (
        '{"note": "he said "hi" to me", "x": 1}',
        {"note": 'he said "hi" to me', "x": 1},
    ),
    "apostrophe-inside": ("{'note': 'it's', 'x': 1}", {"note": "it's", "x": 1}),
    "no-comma": ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
    "word-without-quotes": ("{unit: celsius, n: 3}", {"unit": "celsius", "n": 3}),
    "words-without-quotes": ('{"a": new york, "b": [x, y]}', {"a": "new york", "b": ["x", "y"]}),
    "file-without-quotes": ("{path: a/b.md, n: 3}", {"path": "a/b.md", "n": 3}),
}


@pytest.mark.parametrize(("raw", "wanted"), GUESSES.values(), ids=GUESSES)
def test_a_guess_that_loses_nothing_counts_for_tools_that_only_read(
    raw: str, wanted: object
) -> None:
    assert read(raw, "read").values == wanted
    for effect in CHANGING:
        refusal(raw, effect)


NEVER = {
    "R002-cut-in-a-key": '{"scope": "tmp", older_th',
    "R002-cut-in-text": '{"scope": "tm',
    "R002-cut-in-single-quotes": "{'scope': 'tm",
    "R002-cut-in-wide-quotes": "{“scope”：“tm",
    "R002-cut-after-a-colon": '{"scope":',
    "R002-cut-after-a-comma": "{'scope': 'tmp',",
    "R002-cut-after-a-value": "{'scope': 'tmp'",
    "R002-cut-inside": "{'scope': ['tmp'",
    "R002-cut-in-a-fence": "Sure:\n```json\n{'scope': 'tmp'",
    "R002-cut-in-a-comment": '{"scope": "tmp" /* ',
    "R002-cut-in-a-last-quote": '{"scope": "tmp}',
    "R002-cut-in-inner-quotes": '{"note": "he said "hi", "x": {"y": 1}',
    "R002-beginning-is-missing": '"scope": {"a": 1}}',
    "R002-ends-too-early": '{"a": {"b": 1}}, "c": 2}',
    "R005-two-objects": '{"a": 1} {"a": 2}',
    "R005-two-objects-in-prose": 'either {"a": 1} or {"a": 2}',
    "R006-call": "{'q': __import__('os')}",
    "R006-call-with-a-dot": "{'q': os.system('id')}",
    "R006-call-after-text": "{'q': 'a'.join(('b', 'c'))}",
    "R006-lambda": "{'q': lambda: 1}",
    "R006-sum": "{'q': 10*60}",
    "R006-text-sum": "{'q': 'a' + 'b'}",
    "R006-condition": "{'q': 1 if True else 2}",
    "R006-comprehension": "{'q': [x for x in (1, 2)]}",
    "R006-format": "{'q': f'{1}'}",
    "R006-set": "{'q': {1, 2}}",
    "R006-environment": '{"q": os.environ["HOME"]}',
    "R006-parentheses": "{'q': (1)}",
    "R017-nan": '{"a": NaN}',
    "R017-nan-in-python": "{'a': nan}",
    "R017-infinity": '{"a": -Infinity}',
    "R017-infinity-in-python": "{'a': float('inf')}",
    "R017-too-large": "{'a': 1e999}",
    "undefined": '{"a": undefined}',
    "no-value": '{"a": , "b": 1}',
    "no-colon": '{"a" 1}',
    "two-commas": '{"a": 1,, "b": 2}',
    "only-a-comma": '{"a": [,]}',
    "placeholder": '{"a": [1, 2, ...]}',
    "number-with-underscore": '{"a": 1_000}',
    "leading-zero": '{"a": 007}',
    "bare-point": '{"a": .5}',
    "wrong-bracket": '{"a": [1, 2}',
    "bracket-too-many-somewhere": '{"a": {"b": true}, "c": "d"}}',
    "bracket-too-many-behind-a-list": '{"a": ["b"], "c": "d"}]}',
    "bracket-and-quote-behind": "{'n': '{y'}'}",
    "bracket-is-missing-and-comma": '{"n": ["one", ]}]}',
    "quote-that-is-missing-before-a-number": "{'a': 3', 'b': 1}",
    "quoted-number-without-colon": "{'n': -3, 'path' '3'}",
    "quoted-list-without-colon": '{"a" "[z]", "n": 1}',
    "backslash-for-a-bracket": '{"a": [{\\}], "b": []}',
    "wide-comma-for-a-colon": '{"a": "it\'s", "path"， ""}',
    "swallowed-key": '{"text": "a, "b": c"}',
    "digits": "{'a': " + "9" * 5_000 + "}",
    "deep": "{'a': " + "[" * 70 + "]" * 70 + "}",
    "brackets": "[" * 65_000,
    "lone-surrogate": r"{'a': '\ud800'}",
    "control-character": "{'a': 'x\x00'}",
    "half-an-object-encoded-twice": json.dumps('{"a": 1'),
    "wide-quotes-inside-wide-quotes": "{“a”：“他说“好”的”}",
    "bytes-that-are-no-text": b"\xff\xfe",
}


@pytest.mark.parametrize("effect", ["read", "unsafe"])
@pytest.mark.parametrize("raw", NEVER.values(), ids=NEVER)
def test_what_was_cut_off_or_computes_or_has_several_readings_is_refused(
    raw: object, effect: Effect
) -> None:
    refusal(raw, effect)


@pytest.mark.parametrize("name", [name for name in NEVER if name.startswith("R002-cut-in")])
def test_a_text_that_was_cut_off_is_called_so(name: str) -> None:
    if name != "R002-cut-in-inner-quotes":
        assert "cut off" in refusal(NEVER[name], "read")


def test_nothing_that_was_written_is_ever_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_EVALUATED", "no")
    code = "__import__('os').environ.__setitem__('HERMES_EVALUATED', 'yes')"

    for effect in EFFECTS:
        refusal(f"{{'q': {code}}}", effect)
        refusal(f'{{"q": {code}}}', effect)

    assert os.environ["HERMES_EVALUATED"] == "no"


def test_a_key_that_stands_twice_is_refused_in_every_spelling() -> None:
    for raw in ('{"a": 1, "a": 2}', "{'a': 1, a: 2}", "{“a”: 1, 'a': 2}"):
        assert "stands twice" in refusal(raw)
        assert read(raw, "read").values == {"a": 2}


def test_a_number_in_a_repaired_text_keeps_its_digits() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"x": {"type": "string"}}}
    for raw in ("{'x': 1.10,}", "{x: 1.10}", "so: {'x': 1.10}", "[{'x': 1.10}]"):
        found = read_arguments(schema, raw)
        assert isinstance(found, Arguments)
        assert found.values == {"x": "1.10"}


def test_words_that_may_say_more_than_the_object_are_answered_with_what_to_do() -> None:
    assert "send the object alone" in refusal('Do not run {"scope":"all"}!')


def test_bytes_are_read_as_utf8() -> None:
    assert read('{"城市": "北京"}'.encode()).values == {"城市": "北京"}
    assert read(bytearray(b"")).values == {}


def test_texts_beyond_the_limit_are_read_as_strict_json_only() -> None:
    long = "x" * 70_000

    assert read(json.dumps({"a": long})).values == {"a": long}
    assert "strict JSON only" in refusal(f'{{"a": "{long}",}}', "read")
    assert "strict JSON only" in refusal(f'here: {{"a": "{long}"}}')


def test_too_many_repairs_are_refused() -> None:
    raw = "{'a': [" + r"'\'', " * 6_000 + "]}"

    assert "too many repairs" in refusal(raw)


@pytest.mark.parametrize(
    "raw", [42, 4.5, True, ["a"], {1: 2, "a": {3}}, object(), {"a": float("nan")}]
)
def test_values_that_are_no_arguments_are_errors(raw: object) -> None:
    refusal(raw)
