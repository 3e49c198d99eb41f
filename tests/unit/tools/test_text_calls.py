"""Tool calls written as text: each dialect, what is no call, and what no text may do."""

import json
import time
from typing import cast

import pytest

from hermes.tools.arguments import ParseError, ToolCall, find_tool_calls
from hermes.tools.arguments.text_calls import MAX_LEAD_CHARS, is_call_text, written_calls

Schema = dict[str, object]

TOOLS: dict[str, Schema] = {
    "read_file": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "查询": {"type": "object", "properties": {"城市": {"type": "string"}}},
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
    "purge": {"type": "object", "properties": {"scope": {"type": "string"}}},
}
READ = '{"name": "read_file", "arguments": {"path": "a.md"}}'
NOW = '{"name": "now", "arguments": {}}'
DSML = "｜DSML｜"
DEEPSEEK = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
)
EXPECTED = [ToolCall(name="read_file", arguments={"path": "a.md"})]


def found(text: str) -> list[tuple[str, dict[str, object]]]:
    calls = find_tool_calls(text, TOOLS)
    assert isinstance(calls, list), calls.message
    return [(call.name, call.arguments) for call in calls]


def refused(text: str) -> str:
    error = find_tool_calls(text, TOOLS)
    assert isinstance(error, ParseError), error
    return error.message


DIALECTS = {
    "name-arguments": READ,
    "name-parameters": '{"name": "read_file", "parameters": {"path": "a.md"}}',
    "tool-args": '{"tool": "read_file", "args": {"path": "a.md"}}',
    "tool_name-tool_args": '{"tool_name": "read_file", "tool_args": {"path": "a.md"}}',
    "function": '{"function": {"name": "read_file", "arguments": {"path": "a.md"}}}',
    "openai": '{"id": "c1", "type": "function", "function": '
    '{"name": "read_file", "arguments": "{\\"path\\": \\"a.md\\"}"}}',
    "tool_calls": f'{{"role": "assistant", "content": null, "tool_calls": [{READ}]}}',
    "anthropic": '{"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "a.md"}}',
    "one-key": '{"read_file": {"path": "a.md"}}',
    "prefixed": '{"name": "functions.read_file", "arguments": {"path": "a.md"}}',
    "array": f"[{READ}]",
    "react": '{"thought": "先读文件", "action": {"type": "tool_call", '
    '"tool_name": "read_file", "tool_args": {"path": "a.md"}}}',
    "react-lines": 'Thought: I have to read.\nAction: read_file\nAction Input: {"path": "a.md"}',
    "json-fence": f"```json\n{READ}\n```",
    "bare-fence": f"```\n{READ}\n```\n",
    "tool-fence": f"```tool_call\n{READ}\n```",
    "code-fence": 'I look it up.\n```tool_code\nread_file(path="a.md")\n```',
    "hermes": f"<tool_call>{READ}</tool_call>",
    "hermes-lines": f"<tool_call>\n{READ}\n</tool_call>",
    "hermes-half-closed": f"<tool_call>{READ}",
    "hermes-cut-closing": f"<tool_call>{READ}</tool_ca",
    "hermes-opened-twice": f"<tool_call>{READ}<tool_call>",
    "hermes-brace-too-many": f"<tool_call>{READ}}}</tool_call>",
    "hermes-single-quotes": f"<tool_call>{READ}</tool_call>".replace('"', "'"),
    "hermes-fenced": f"```xml\n<tool_call>{READ}</tool_call>\n```",
    "qwen-coder": "<tool_call>\n<function=read_file>\n<parameter=path>\na.md\n</parameter>\n"
    "</function>\n</tool_call>",
    "qwen-coder-unwrapped": "<function=read_file><parameter=path>a.md</parameter></function>",
    "llama-function": '<function=read_file>{"path": "a.md"}</function>',
    "llama-function-half-closed": '<function=read_file>{"path": "a.md"}',
    "llama-python-tag": '<|python_tag|>{"name": "read_file", "parameters": {"path": "a.md"}}'
    "<|eom_id|>",
    "llama-python-call": '<|python_tag|>read_file(path="a.md")',
    "mistral-array": f"[TOOL_CALLS][{READ}]",
    "mistral-array-end": f"[TOOL_CALLS] [{READ}]</s>",
    "mistral-name": '[TOOL_CALLS]read_file{"path": "a.md"}',
    "mistral-args": '[TOOL_CALLS]read_file[ARGS]{"path": "a.md"}',
    "mistral-call-id": '[TOOL_CALLS]read_file[CALL_ID]9f3xK2m[ARGS]{"path": "a.md"}',
    "deepseek-v3": 'function<｜tool▁sep｜>read_file\n```json\n{"path": "a.md"}\n```'.join(DEEPSEEK),
    "deepseek-v3.1": 'read_file<｜tool▁sep｜>{"path": "a.md"}'.join(DEEPSEEK),
    "deepseek-ascii": "<|tool_calls_begin|><|tool_call_begin|>read_file<|tool_sep|>"
    '{"path": "a.md"}<|tool_call_end|><|tool_calls_end|>',
    "deepseek-v3.2": f'<{DSML}function_calls>\n<{DSML}invoke name="read_file">\n<{DSML}parameter '
    f'name="path" string="true">a.md</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}function_calls>',
    "glm": "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.md</arg_value>\n"
    "</tool_call>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0"
    '<|tool_call_argument_begin|>{"path": "a.md"}<|tool_call_end|><|tool_calls_section_end|>',
    "minimax": '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a.md'
    "</parameter>\n</invoke>\n</minimax:tool_call>",
    "gpt-oss": "<|channel|>analysis<|message|>I need it.<|end|><|start|>assistant<|channel|>"
    'commentary to=functions.read_file <|constrain|>json<|message|>{"path": "a.md"}<|call|>',
    "python": 'read_file(path="a.md")',
    "python-positional": "read_file('a.md')",
    "python-list": "[read_file(path='a.md')]",
    "python-tagged": '<tool_call>read_file("a.md")</tool_call>',
    "lead-line": f"我来读取这个文件。\n\n<tool_call>{READ}</tool_call>",
    "lead-sentence": f"I will read it. <tool_call>{READ}</tool_call>",
    "after-reasoning": f"<think>hm, {NOW}</think>\n{READ}",
    "after-reasoning-tagged": f"<think>hm, {NOW}</think>\n\n<tool_call>{READ}</tool_call>",
    "after-headless-reasoning": f"so: <tool_call>{NOW}</tool_call>\n</think>\n\n<tool_call>{READ}",
    "after-magistral": f"[THINK]hm, {NOW}[/THINK]{READ}",
}


@pytest.mark.parametrize("text", DIALECTS.values(), ids=DIALECTS)
def test_a_call_is_read_in_every_dialect(text: str) -> None:
    assert find_tool_calls(text, TOOLS) == EXPECTED


@pytest.mark.parametrize("text", DIALECTS.values(), ids=DIALECTS)
def test_every_dialect_carries_any_text(text: str) -> None:
    path = "数据/报告 <a>.md"
    read = find_tool_calls(text.replace("a.md", path), TOOLS)

    assert read == [ToolCall(name="read_file", arguments={"path": path})]


@pytest.mark.parametrize(
    "text",
    [
        f"[{READ}, {NOW}]",
        f"{READ}\n{NOW}",
        f"{READ}; {NOW}",
        f"```json\n{READ}\n```\n```json\n{NOW}\n```",
        f"<tool_call>{READ}</tool_call><tool_call>{NOW}</tool_call>",
        f"<tool_call>\n{READ}\n{NOW}\n</tool_call>",
        f"<tool_call>{READ}\n<tool_call>{NOW}",
        "<function=read_file><parameter=path>a.md</parameter></function><function=now></function>",
        f"<|python_tag|>{READ}; {NOW}",
        '[TOOL_CALLS]read_file[ARGS]{"path": "a.md"}[TOOL_CALLS]now[ARGS]{}',
        "<tool_call>read_file<arg_key>path</arg_key><arg_value>a.md</arg_value></tool_call>"
        "<tool_call>now</tool_call>",
        'read_file("a.md")\nnow()',
        "[read_file('a.md'), now()]",
    ],
)
def test_several_calls_come_in_order(text: str) -> None:
    assert found(text) == [("read_file", {"path": "a.md"}), ("now", {})]


def test_values_in_tags_are_what_the_schema_wants() -> None:
    text = (
        "<function=read_file>\n<parameter=path>\n007\n</parameter>\n<parameter=limit>\n5\n"
        '</parameter>\n<parameter=tags>\n["甲", "b"]\n</parameter>\n</function>'
    )
    [(_, arguments)] = found(text)
    assert arguments == {"path": "007", "limit": 5, "tags": ["甲", "b"]}


def test_a_text_in_tags_is_kept_to_the_letter() -> None:
    body = "\n  first\n\n<parameter>not one</parameter> and </function> \\n\n"
    text = f"<function=read_file><parameter=path>\n{body}\n</parameter></function>"
    assert found(text) == [("read_file", {"path": body})]


def test_a_number_for_a_text_keeps_every_digit() -> None:
    [call] = cast("list[ToolCall]", find_tool_calls('now(version=1.10, id="007")', {"now": {}}))
    assert call.arguments == {"version": 1.1, "id": "007"}
    schema: Schema = {"type": "object", "properties": {"version": {"type": "string"}}}
    for text in (
        "now(version=1.10)",
        '{"name": "now", "arguments": {"version": 1.10}}',
        "<function=now><parameter=version>1.10</parameter></function>",
    ):
        [call] = cast("list[ToolCall]", find_tool_calls(text, {"now": schema}))
        assert call.arguments == {"version": "1.10"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'it''s'", "its"),
        (r"'a\tb\xe9\u4e2d\'\\'", "a\tbé中'\\"),
        (r"r'C:\temp'", r"C:\temp"),
        (r"'C:\data'", r"C:\data"),
        ('"""two\nlines"""', "two\nlines"),
        ("-1.50e3", -1500.0),
        (".5", 0.5),
        ("0x1F", 31),
        ("1_000", 1000),
        ("(1, 2)", [1, 2]),
        ("(1,)", [1]),
        ("(1)", 1),
        ("[True, None, false]", [True, None, False]),
        ("{'a': {'b': [1, 2]}}", {"a": {"b": [1, 2]}}),
        ("[]", []),
        (r"'\ud83d\ude00'", "😀"),
    ],
)
def test_python_literals_are_read(written: str, value: object) -> None:
    assert find_tool_calls(f"now(x={written})", {"now": {}}) == [
        ToolCall(name="now", arguments={"x": value})
    ]


@pytest.mark.parametrize(
    "written",
    ["path", "1 + 1", "f()", "f'{x}'", "b'x'", "[x for x in y]", "lambda: 1", "__import__('os')"],
)
def test_what_is_no_literal_is_never_evaluated(written: str) -> None:
    assert "could not be read" in refused(f"<tool_call>read_file(path={written})</tool_call>")


def test_a_windows_path_keeps_its_backslashes() -> None:
    path = r"C:\temp\new\报告.txt"
    for text in (f'read_file(path="{path}")', f"read_file(r'{path}')", f"read_file({path!r})"):
        assert found(text) == [("read_file", {"path": path})]


def test_backslashes_that_can_be_read_in_two_ways_are_refused() -> None:
    assert "two ways" in refused(r'read_file(path="one\ntwo \d")')


@pytest.mark.parametrize(
    "text",
    [
        "There are 12.",
        "",
        "   ",
        '{"name": "Anna", "age": 5}',
        '{"name": "now"}',
        '{"result": {"path": "a.md"}}',
        '{"action": "buy", "params": {"shares": 3}}',
        "[1, 2, 3]",
        '{"name": "read_file", "description": "reads", "parameters": {"type": "object"}}',
        '{"thought": "done", "action": {"type": "finish"}, "final_answer": "12"}',
        "read_file(path) reads a file.",
        'print("hello")',
        f"You write <tool_call>{READ}</tool_call> and wait for the result.",
        f"`<tool_call>{READ}</tool_call>` is how it looks.",
        f"An example:\n\n<tool_call>{READ}</tool_call>\n\nThat is all.",
        f"例如：\n<tool_call>{READ}</tool_call>",
        f"调用的格式如下：\n```xml\n<tool_call>{READ}</tool_call>\n```\n然后等待结果。",
        f"Send this:\n```json\n{READ}\n```",
        f"{READ} is what you send.",
        '{"name": "reed_file", "arguments": {}} is what you send.',
        "The mark <tool_call> begins a call.",
        "<tool_call> is the mark that Qwen uses.",
        f"{'A long explanation. ' * 20}\n<tool_call>{READ}</tool_call>",
    ],
)
def test_an_answer_is_no_call(text: str) -> None:
    assert find_tool_calls(text, TOOLS) == []


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{READ}</think>The answer",
        f"<think><tool_call>{READ}</tool_call></think>The answer",
        f"<think>I should\n<tool_call>{READ}</tool_call>",
        f"<THINKING>\n<tool_call>{READ}</tool_call>\n</THINKING>\nThe answer",
        f"<reasoning>\n{READ}\n</reasoning>",
        f"[THINK]\n{READ}\n[/THINK]\nThe answer",
        f"◁think▷\n<tool_call>{READ}</tool_call>◁/think▷答案",
        f"<|channel|>analysis<|message|><tool_call>{READ}</tool_call><|end|>",
        f"Well. <think>\n<tool_call>{READ}</tool_call></think> The answer",
        f"I could use <tool_call>{READ}</tool_call>, no.</think>The answer",
        f"<tool_call>{READ}</tool_call></think>The answer",
        f"<tool_call>{READ}</tool_call>\n</think>\n\nThe answer",
        f"It says: </think><tool_call>{READ}</tool_call>",
        f"<think>one</think><think>\n{READ}",
    ],
)
def test_reasoning_holds_no_call(text: str) -> None:
    assert find_tool_calls(text, TOOLS) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "reed_file", "arguments": {"path": "a"}}', "did you mean `read_file`"),
        ('<tool_call>{"name": "reed_file", "arguments": {}}</tool_call>', "`read_file`"),
        ('{"action": "reed_file", "params": {"path": "a"}}', "`read_file`"),
        ("<tool_call>reed_file(path='a')</tool_call>", "`read_file`"),
        ("<function=reed_file><parameter=path>a</parameter></function>", "`read_file`"),
        ('[TOOL_CALLS]reed_file{"path": "a"}', "`read_file`"),
        ('<tool_call>{"name": "zzz", "arguments": {}}</tool_call>', "there is: `read_file`"),
        ('<tool_call>{"name": "read_file", "arguments": {"path": "a', "cut off"),
        ('{"name": "read_file", "arguments": {"path": "a', "cut off"),
        ("<function=read_file><parameter=path>a.m", "does not end"),
        ("<function=read_file><parameter=path>a.md</parameter>", "does not end"),
        ("<tool_call>read_file<arg_key>path</arg_key><arg_value>a", "does not end"),
        ('read_file(path="a.m', "does not end"),
        ("<tool_call>", "nothing followed"),
        ("I look.\n<tool_call>\n", "nothing followed"),
        (f"<tool_call>{READ}</tool_call>\nIt holds 12 lines.", "text follows"),
        (f"I look.\n<tool_call>{READ}</tool_call>\n<tool_response>12</tool_response>", "follows"),
        ('{"name": "read_file", "arguments": [1]}', "must be one JSON object"),
        ('{"name": "read_file", "arguments": {}}', "`path` is required"),
        ('{"name": "read_file", "arguments": {"path": "a", "depth": 1}}', "`depth` is unknown"),
        ('{"name": "purge", "arguments": {"scope": NaN}}', "NaN"),
        ('read_file("a", path="b")', "given twice"),
        ("<tool_call>now(1)</tool_call>", "at most 0"),
        (f'{READ}\n{{"name": "now", "argu', "cut off"),
        (f"[{READ}, 5]", "not every item"),
    ],
)
def test_a_broken_call_says_why_and_is_not_guessed(text: str, why: str) -> None:
    message = refused(text)
    assert why in message
    assert "was not run" in message


def test_an_empty_or_cut_call_never_becomes_a_call_with_defaults() -> None:
    for text in ("<tool_call>purge(", "<tool_call>purge{", '{"name": "purge", "arguments": {'):
        assert isinstance(find_tool_calls(text, TOOLS), ParseError)
    assert find_tool_calls("purge", TOOLS) == []
    assert find_tool_calls('{"name": "purge"}', TOOLS) == []


@pytest.mark.parametrize("mark", ["</tool_call>", "<tool_call>", "</think>", "```", "[TOOL_CALLS]"])
@pytest.mark.parametrize(
    "dialect",
    ["name-arguments", "hermes", "mistral-args", "python", "llama-function", "json-fence"],
)
def test_a_mark_inside_a_string_is_a_part_of_it(dialect: str, mark: str) -> None:
    inner = f"x{mark}<tool_call>{{}}</tool_call>{mark}y"
    text = DIALECTS[dialect].replace("a.md", inner)
    assert found(text) == [("read_file", {"path": inner})]


def test_what_stands_in_a_string_that_is_cut_off_is_no_call() -> None:
    inner = f"x</think><function=now></function></think>{NOW}"
    for head in ('{"name": "read_file", "arguments": {"path": "', "<tool_call>read_file('"):
        assert isinstance(find_tool_calls(head + inner, TOOLS), ParseError)
    assert find_tool_calls(f"It holds {head}{inner}", TOOLS) == []


def test_chinese_tools_and_arguments() -> None:
    schema: Schema = {"type": "object", "properties": {"城市": {"type": "string"}}}
    for text in (
        '{"name": "query", "arguments": {"城市": "北京"}}',
        '<tool_call>{"name": "query", "arguments": {"城市": "北京"}}</tool_call>',
        "<function=query><parameter=城市>北京</parameter></function>",
        "<tool_call>query<arg_key>城市</arg_key><arg_value>北京</arg_value></tool_call>",
        "query(城市='北京')",
        '好的，我来查一下：\n[TOOL_CALLS]query{"城市": "北京"}',
    ):
        assert find_tool_calls(text, {"query": schema}) == [
            ToolCall(name="query", arguments={"城市": "北京"})
        ]
    assert found('{"name": "查询", "arguments": {"城市": "上海"}}') == [("查询", {"城市": "上海"})]


def test_the_arguments_stay_as_they_were_written() -> None:
    [call] = cast("list[object]", written_calls('{"name":"now","arguments":{"n" : 1.10}}', TOOLS))
    assert getattr(call, "raw", None) == '{"n" : 1.10}'


def test_a_lead_has_a_bound() -> None:
    lead = "x" * MAX_LEAD_CHARS
    assert find_tool_calls(f"{lead}\n<tool_call>{READ}</tool_call>", TOOLS) == []
    assert found(f"{lead[2:]}.\n<tool_call>{READ}</tool_call>")


def test_without_tools_bare_json_is_an_answer_and_a_marked_call_an_error() -> None:
    assert find_tool_calls(READ, {}) == []
    error = find_tool_calls(f"<tool_call>{READ}</tool_call>", {})
    assert isinstance(error, ParseError)
    assert "none at all" in error.message


def test_a_text_that_shows_a_call_is_told_from_words() -> None:
    shown = (READ, f"<tool_call>{READ}", '<tool_call>{"name": "zz', 'reed(path="a")')
    for text in (*shown, "<think>I could"):
        assert is_call_text(text, ["reed"])
    for text in ("There are 12.", '{"answer": 12}', 'print("x")'):
        assert not is_call_text(text)


SIZE = 64 * 1024
HOSTILE = {
    "opened": "<tool_call>",
    "opened-brace": "<tool_call>{",
    "opened-bracket": "<tool_call>[",
    "closed": "</tool_call>",
    "think": "<think>",
    "think-pairs": "<think></think>",
    "think-ends": '{"name":"read_file"</think>',
    "calls": f"<tool_call>{NOW}</tool_call>",
    "json": NOW,
    "brackets": "[",
    "braces": '{"a":',
    "parameters": "<function=read_file><parameter=path>",
    "parameter-ends": "<function=read_file><parameter=path></parameter>" + " " * 300,
    "pairs": "<tool_call>read_file<arg_key>a</arg_key><arg_value>",
    "python": "read_file(a=[",
    "python-quotes": "read_file('",
    "python-backslashes": "read_file(a='" + "\\" * 500,
    "angles": "<",
    "fences": "```json\n",
    "actions": "Action: read_file\nAction Input: ",
    "channels": "<|channel|>commentary to=functions.read_file <|a|>",
    "digits": '{"name": "read_file", "arguments": {"limit": 999999999',
    "quotes": '\'{"name"',
    "spaces": "<tool_call>" + " " * 500,
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "head", ["", "<tool_call>", "read_file(", '{"name": "read_file", "arguments": ']
)
def test_no_text_takes_long_or_raises(piece: str, head: str) -> None:
    text = (head + piece * (SIZE // len(piece) + 1))[:SIZE]
    for _ in range(5):  # others may use the processor as well
        begun = time.process_time()
        find_tool_calls(text, TOOLS)
        if time.process_time() - begun < 0.05:
            return
    pytest.fail("it took more than 50 ms five times")


def test_more_calls_than_anybody_means_are_refused() -> None:
    for text in (NOW * 200, f"<tool_call>{NOW * 200}", f"[{', '.join([NOW] * 200)}]"):
        assert "128" in refused(text)


def test_a_text_beyond_every_bound_is_not_read() -> None:
    big = json.dumps({"name": "read_file", "arguments": {"path": "x" * (1 << 20)}})
    assert "longer" in refused(f"<tool_call>{big}</tool_call>")
    assert find_tool_calls("x" * (2 << 20), TOOLS) == []


@pytest.mark.parametrize(
    "call",
    [r'purge(scope="bin\x64")', r"purge(scope='Release\x86\new')", r'purge(scope="C:\temp\new")'],
)
def test_a_path_that_python_would_take_for_codes_is_refused(call: str) -> None:
    assert "can be read in two ways" in refused(call)


@pytest.mark.parametrize("end", ["</think>", ""])
def test_reasoning_in_the_place_of_the_arguments_is_refused(end: str) -> None:
    call = {"name": "purge", "arguments": f'<think>{{"scope": "all"}}{end}'}

    assert "could not be read" in refused(json.dumps(call))
