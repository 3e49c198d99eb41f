"""Laws of calls written as text."""

import json
from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.arguments import ParseError, find_tool_calls
from hermes.tools.arguments.reading import MAX_DEPTH

Json = Mapping[str, object]

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "items": {"type": "array", "items": {"type": ["string", "null", "boolean"]}},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
TOOLS: dict[str, dict[str, object]] = {"write": SCHEMA, "now": {"type": "object"}}
MARKS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "[TOOL_CALLS]", "```", "```json\n"),
    *('{"name": "now", "arguments": {}}', "now()", "<function=now></function>", "<|im_end|>"),
    *("</parameter>", "</arg_value>", "\\", "\\n", "\n", '"', "'", '"""', "{", "}", "[", "]", "中"),
)
TEXTS = st.lists(st.sampled_from(MARKS) | st.text(max_size=8), max_size=6).map("".join)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS,
        "count": st.integers(-(10**12), 10**12),
        "items": st.lists(TEXTS | st.none() | st.booleans(), max_size=3),
        "more": st.dictionaries(TEXTS, TEXTS, max_size=3),
    },
)


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def call(arguments: Json) -> str:
    return dumps({"name": "write", "arguments": arguments})


EXACT: dict[str, Callable[[Json], str]] = {
    "bare": call,
    "array": lambda arguments: f"[{call(arguments)}]",
    "hermes": lambda arguments: f"<tool_call>\n{call(arguments)}\n</tool_call>",
    "half-closed": lambda arguments: f"<tool_call>{call(arguments)}",
    "mistral": lambda arguments: f"[TOOL_CALLS]write[ARGS]{dumps(arguments)}",
    "llama": lambda arguments: f"<function=write>{dumps(arguments)}</function>",
    "deepseek": lambda arguments: f"<｜tool▁call▁begin｜>write<｜tool▁sep｜>{dumps(arguments)}",
    "python": lambda arguments: f"write({', '.join(f'{k}={v!r}' for k, v in arguments.items())})",
    "after reasoning": lambda arguments: f"<think>now()</think>{call(arguments)}",
}


def plain(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def tagged(arguments: Json) -> str:
    body = "".join(f"<parameter={k}>\n{plain(v)}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function=write>\n{body}</function>\n</tool_call>"


def paired(arguments: Json) -> str:
    body = "".join(
        f"<arg_key>{k}</arg_key>\n<arg_value>{plain(v)}</arg_value>\n" for k, v in arguments.items()
    )
    return f"<tool_call>write\n{body}</tool_call>"


@given(arguments=ARGUMENTS, form=st.sampled_from(sorted(EXACT)))
def test_what_is_written_whole_comes_back_to_the_letter(arguments: Json, form: str) -> None:
    found = find_tool_calls(EXACT[form](arguments), TOOLS)
    if form == "python" and isinstance(found, ParseError):
        assert "can be read in two ways" in found.message  # `a\x80` may be a path
        return
    assert not isinstance(found, ParseError), found.message
    assert [(one.name, one.arguments) for one in found] == [("write", arguments)]


@given(arguments=ARGUMENTS, form=st.sampled_from([tagged, paired]))
def test_what_is_written_in_tags_comes_back_or_is_refused(
    arguments: Json, form: Callable[[Json], str]
) -> None:
    found = find_tool_calls(form(arguments), TOOLS)
    if not isinstance(found, ParseError):
        assert [(one.name, one.arguments) for one in found] == [("write", arguments)]


@given(arguments=ARGUMENTS, form=st.sampled_from(sorted(EXACT)), data=st.data())
def test_what_is_cut_off_is_never_another_call(
    arguments: Json, form: str, data: st.DataObject
) -> None:
    text = EXACT[form](arguments)
    cut = data.draw(st.integers(0, len(text)))
    found = find_tool_calls(text[:cut], TOOLS)
    if not isinstance(found, ParseError):
        assert [one.arguments for one in found] in ([], [arguments])


@given(text=st.lists(st.sampled_from(MARKS) | st.text(max_size=12), max_size=20).map("".join))
def test_no_text_makes_it_raise(text: str) -> None:
    found = find_tool_calls(text, TOOLS)
    assert isinstance(found, ParseError) or all(one.name in TOOLS for one in found)


@given(
    lead=st.sampled_from(["<think>", "[THINK]", "<reasoning>\n", "<THINKING>", "◁think▷"]),
    inner=TEXTS,
    arguments=ARGUMENTS,
    form=st.sampled_from(sorted(EXACT)),
)
def test_unclosed_reasoning_holds_no_call(
    lead: str, inner: str, arguments: Json, form: str
) -> None:
    if "</think>" in inner + EXACT[form](arguments) or "</THINKING>" in inner:
        return
    assert find_tool_calls(lead + inner + EXACT[form](arguments), TOOLS) == []


def test_deep_nesting_is_refused_and_not_followed() -> None:
    for deep in ("[" * 100_000, '{"a":' * 50_000):
        for lead in ("", "<tool_call>", "now(", '{"name": "now", "arguments": '):
            find_tool_calls(lead + deep, TOOLS)
    nested = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert isinstance(find_tool_calls(f"now(a={nested})", TOOLS), ParseError)
