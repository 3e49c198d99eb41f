"""Other words for the members of a closed set, declared by whoever writes a tool."""

from enum import Enum
from typing import Annotated, Literal

import pytest

from hermes.errors import ToolDefinitionError
from hermes.tools import Aliases, ArgumentError, Arguments, read_arguments, register_tool, tool

LEVEL = Aliases({"high": ["高", "紧急"], "low": ["低"]})
CITY = Aliases({"上海": ["Shanghai", "SH"], "北京": ["Beijing"]})


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@tool(effect="read")
def report(
    level: Annotated[Literal["low", "high"], LEVEL] = "low",
    kind: Annotated[Level, LEVEL] = Level.LOW,
    maybe: Annotated[Literal["low", "high"] | None, LEVEL] = None,
    several: list[Annotated[Literal["low", "high"], LEVEL]] = [],  # noqa: B006
    city: Annotated[str, CITY] = "上海",
) -> str:
    """Report."""
    return f"{level} {kind} {maybe} {several} {city}"


@pytest.mark.parametrize("word", ["高", " 紧急 ", "“高”", "HIGH", "high"])
def test_a_declared_word_means_its_member_wherever_it_is_annotated(word: str) -> None:
    raw = {"level": word, "kind": word, "maybe": word, "several": [word, "low"]}

    for effect in ("read", "unsafe"):
        found = read_arguments(report.parameters, raw, effect=effect)
        assert isinstance(found, Arguments)
        assert found.values == {
            "level": "high",
            "kind": "high",
            "maybe": "high",
            "several": ["high", "low"],
        }


@pytest.mark.parametrize("word", ["高低", "很高", "hig", "medium"])
def test_other_words_are_refused(word: str) -> None:
    found = read_arguments(report.parameters, {"level": word}, effect="read")

    assert isinstance(found, ArgumentError)
    assert found.message.endswith('allowed: "low", "high"')


def test_a_known_name_is_found_by_its_words_and_other_texts_stay() -> None:
    def city(word: str) -> object:
        found = read_arguments(report.parameters, {"city": word}, effect="read")
        assert isinstance(found, Arguments)
        return found.values["city"]

    assert city("shanghai") == "上海"
    assert city("Shanghai, China") == "上海"
    assert city(" sh.") == "上海"
    assert city("北京") == "北京"
    assert city("Shanghai, not Beijing") == "上海"
    assert city("Shanghai, Beijing") == "Shanghai, Beijing"
    assert city("Paris, Texas") == "Paris, Texas"
    found = read_arguments(report.parameters, {"city": "Shanghai, China"})
    assert found == Arguments(values={"city": "Shanghai, China"})


def test_models_are_not_shown_the_words() -> None:
    assert "x-aliases" in str(report.parameters)
    assert "x-aliases" not in str(report.spec.parameters)
    assert report.spec.parameters == report.spec.parameters


def test_a_tool_without_words_is_shown_as_it_is() -> None:
    @tool
    def plain(level: Literal["low", "high"]) -> str:
        """Plain."""
        return level

    assert plain.spec.parameters is plain.parameters


def test_a_property_may_be_called_like_the_keyword() -> None:
    @register_tool("odd", "Odd.", {"properties": {"x-aliases": {"type": "string"}}})
    def odd(**arguments: object) -> str:
        return str(arguments)

    assert "x-aliases" in str(odd.spec.parameters)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"high": ["高"], "low": ["高"]}, "'高' means both 'high' and 'low'"),
        ({"high": ["LOW"], "low": []}, "means both"),
        ({"high": [" "]}, "' ' is no word for 'high'"),
        ({"high": "高"}, "'high' needs a list of other words"),
    ],
)
def test_words_that_mean_nothing_or_two_things_are_refused(
    words: dict[str, list[str]], fault: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=fault):
        Aliases(words)
    schema = {"properties": {"x": {"enum": ["high", "low"], "x-aliases": words}}}
    with pytest.raises(ToolDefinitionError, match=fault):

        @register_tool("t", "T.", schema)
        def t(x: str) -> str:
            return x


def test_words_for_what_is_no_member_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="'hi' is not allowed there; allowed: 'low'"):

        @tool
        def wrong(level: Annotated[Literal["low", "high"], Aliases({"hi": ["高"]})]) -> str:
            """Wrong."""
            return level

    schema = {"properties": {"x": {"enum": ["low"], "x-aliases": {"hi": ["高"]}}}}
    with pytest.raises(ToolDefinitionError, match="'hi' is not allowed there"):

        @register_tool("t", "T.", schema)
        def t(x: str) -> str:
            return x
