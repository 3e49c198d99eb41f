"""The JSON objects of the ReAct dialect, as models really write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.react_read import Call, Reading, as_finish_object, read_reply

TOOLS = ("get_weather", "search")
WEATHER = Call(name="get_weather", arguments='{"city": "Paris"}')
GOOD = (
    '{"thought": "look", "action": {"type": "tool_call", "tool_name": "get_weather", '
    '"tool_args": {"city": "Paris"}}}'
)
DONE = '{"thought": "enough", "action": {"type": "finish"}, "final_answer": "It is 23."}'


def read(text: str, *, has_schema: bool = False, is_cut: bool = False) -> Reading:
    return read_reply(text, TOOLS, has_schema=has_schema, is_cut=is_cut)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GOOD, id="the object"),
        pytest.param(f"```json\n{GOOD}\n```", id="a fence"),
        pytest.param(f"Sure, I will look.\n\n{GOOD}\n\nLet me know!", id="prose around it"),
        pytest.param(f"first {{a draft}} then\n{GOOD}", id="braces in prose"),
        pytest.param(f"I could {DONE} but no.\n</think>\n{GOOD}", id="a draft in reasoning"),
        pytest.param(f"{GOOD}\n{GOOD}", id="said twice"),
        pytest.param(f"{GOOD}\nObservation: 23\n{DONE}", id="a result that it made up"),
        pytest.param(f"{GOOD}\n{DONE}", id="an answer before the result"),
        pytest.param(GOOD.removesuffix("}}"), id="no closing braces"),
        pytest.param(GOOD.replace("}}}", "},},}"), id="trailing commas"),
        pytest.param(GOOD.replace('"tool_name"', '"tool"'), id="tool"),
        pytest.param(GOOD.replace('"tool_name"', '"name"'), id="name"),
        pytest.param(GOOD.replace('"tool_args"', '"arguments"'), id="arguments"),
        pytest.param(GOOD.replace('"tool_args"', '"toolArgs"'), id="camel case"),
        pytest.param(GOOD.replace('"tool_call"', '"call"'), id="call"),
        pytest.param(
            '{"thought": "look", "action": {"tool_name": "get_weather", '
            '"tool_args": {"city": "Paris"}}}',
            id="no type",
        ),
        pytest.param(
            '{"thought": "look", "action": {"type": "get_weather", '
            '"tool_args": {"city": "Paris"}}}',
            id="the tool as type",
        ),
        pytest.param(
            '{"thought": "look", "action": "get_weather", "action_input": {"city": "Paris"}}',
            id="flat",
        ),
        pytest.param(
            '{"thought": "look", "action": "tool_call", "tool_name": "get_weather", '
            '"tool_args": {"city": "Paris"}}',
            id="flat with type",
        ),
        pytest.param('{"name": "get_weather", "arguments": {"city": "Paris"}}', id="a plain call"),
        pytest.param(
            '{"thought": "look", "action": [{"type": "tool_call", "tool_name": "get_weather", '
            '"tool_args": {"city": "Paris"}}]}',
            id="a list of one",
        ),
    ],
)
def test_a_call_is_read_in_whatever_dress_it_comes(text: str) -> None:
    found = read(text)

    assert (found.calls, found.answer, found.problem) == ((WEATHER,), None, "")


def test_the_thought_is_kept_apart() -> None:
    assert read(GOOD).thought == "look"
    assert read(DONE).thought == "enough"


def test_arguments_written_as_text_are_handed_on_as_that_text() -> None:
    text = GOOD.replace('{"city": "Paris"}', json.dumps('{"city": "Paris"}'))

    assert read(text).calls == (WEATHER,)


def test_numbers_of_arguments_go_on_to_the_letter() -> None:
    text = GOOD.replace('{"city": "Paris"}', '{"n": 12345678901234567890.10}')

    assert read(text).calls[0].arguments == '{"n": 12345678901234567890.10}'


def test_missing_arguments_are_none() -> None:
    text = '{"action": {"type": "tool_call", "tool_name": "search"}}'

    assert read(text).calls == (Call(name="search", arguments="{}"),)


def test_several_calls_one_after_another_are_all_meant() -> None:
    other = GOOD.replace("Paris", "Rome")

    assert [call.arguments for call in read(f"{GOOD}\n{other}").calls] == [
        '{"city": "Paris"}',
        '{"city": "Rome"}',
    ]


def test_several_objects_with_prose_between_are_sent_back() -> None:
    other = GOOD.replace("Paris", "Rome")

    assert "not clear which one" in read(f"{GOOD}\nOr rather:\n{other}").problem


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(DONE, "It is 23.", id="the object"),
        pytest.param(DONE.replace("final_answer", "answer"), "It is 23.", id="answer"),
        pytest.param(DONE.replace("final_answer", "finalAnswer"), "It is 23.", id="camel case"),
        pytest.param('{"thought": "x", "final_answer": "It is 23."}', "It is 23.", id="no action"),
        pytest.param(
            '{"thought": "x", "action": null, "final_answer": "It is 23."}',
            "It is 23.",
            id="no action but the word",
        ),
        pytest.param(
            '{"action": {"type": "finish", "final_answer": "It is 23."}}', "It is 23.", id="inside"
        ),
        pytest.param('{"action": "finish", "final_answer": "It is 23."}', "It is 23.", id="flat"),
        pytest.param(DONE.replace('"It is 23."', "23"), "23", id="a number"),
        pytest.param(DONE.replace('"It is 23."', '{"n": [1, 2]}'), '{"n": [1, 2]}', id="an object"),
        pytest.param(DONE.replace("It is 23.", "a\nb"), "a\nb", id="a raw line break"),
        pytest.param(DONE.replace("It is 23.", r"C:\dir"), r"C:\dir", id="no escape of JSON"),
        pytest.param("It is 23.", "It is 23.", id="plain prose"),
        pytest.param("A set is {1, 2}.", "A set is {1, 2}.", id="prose with braces"),
        pytest.param('{"rows": [1]}', '{"rows": [1]}', id="JSON of another kind"),
        pytest.param("42", "42", id="a bare number"),
        pytest.param("true", "true", id="a bare word"),
    ],
)
def test_an_answer_is_read_in_whatever_dress_it_comes(text: str, answer: str) -> None:
    found = read(text)

    assert (found.answer, found.calls, found.problem) == (answer, (), "")


def test_the_outputs_own_object_is_an_answer_where_a_schema_asks_for_one() -> None:
    assert read('{"answer": 5}', has_schema=True).answer == '{"answer": 5}'


def test_a_schema_says_itself_whether_nothing_is_an_answer() -> None:
    assert read("null", has_schema=True).answer == "null"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param('{"thought": "x"}', "`action` is missing", id="a thought alone"),
        pytest.param(
            '{"thought": "x", "action": {"type": "finish"}}', "`final_answer` is missing", id="bare"
        ),
        pytest.param(
            '{"thought": "x", "action": {"type": "tool_call"}}', "`tool_name` is missing", id="who"
        ),
        pytest.param(
            '{"thought": "x", "action": {"type": "ponder"}}', "'ponder', not `tool_call`", id="type"
        ),
        pytest.param('{"thought": "x", "action": oops {}}', "not valid JSON", id="no JSON"),
        pytest.param('I think "action": is next', "no JSON object", id="a piece"),
        pytest.param("null", "it says nothing", id="null"),
        pytest.param("```json\nnull\n```", "it says nothing", id="null in a fence"),
        pytest.param(" {} ", "it says nothing", id="an empty object"),
        pytest.param("[]", "it says nothing", id="an empty list"),
        pytest.param('""', "it says nothing", id="an empty text"),
    ],
)
def test_what_cannot_be_read_says_what_was_seen_and_what_is_wanted(text: str, why: str) -> None:
    found = read(text)

    assert why in found.problem
    assert '"type": "tool_call"' in found.problem
    assert '"type": "finish"' in found.problem
    assert (found.calls, found.answer) == ((), None)


def test_an_answer_cut_at_the_output_limit_is_kept_as_far_as_it_came() -> None:
    found = read(DONE.removesuffix('23."}'), is_cut=True)

    assert (found.answer, found.is_cut, found.problem) == ("It is ", True, "")


def test_a_call_cut_at_the_output_limit_is_not_made() -> None:
    found = read(GOOD.removesuffix('ris"}}}'), is_cut=True)

    assert "cut off" in found.problem
    assert found.calls == ()


@given(answer=st.text(), thought=st.text())
def test_every_answer_comes_back_as_it_was_written(answer: str, thought: str) -> None:
    text = as_finish_object(thought, answer)

    assert read(text) == Reading(thought=thought, answer=answer)


@given(
    st.lists(
        st.sampled_from([*'{}[]":,\\', "'", " ", "\n", "x", '"action"', '"thought":', GOOD, DONE])
    )
)
def test_no_text_breaks_the_reading(pieces: list[str]) -> None:
    found = read("".join(pieces))

    assert bool(found.calls) + (found.answer is not None) + bool(found.problem) == 1
