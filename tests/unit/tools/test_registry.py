import pytest

from hermes.errors import ConfigError, ToolDefinitionError
from hermes.tools import Tool, ToolRegistry, register_tool, tool


@tool
def plain() -> None:
    """Nothing."""


@tool(group="http")
def fetch() -> None:
    """Fetch."""


@tool(group="mock")
def weather() -> None:
    """Weather."""


def test_tools_are_found_by_name_in_their_order() -> None:
    registry = ToolRegistry([plain, fetch])

    assert registry.names == ("plain", "fetch")
    assert registry.get("fetch") is fetch
    assert registry.get("Fetch") is None
    assert list(registry) == [plain, fetch]
    assert "plain" in registry
    assert len(registry) == 2


def test_specs_are_one_object_for_ever() -> None:
    registry = ToolRegistry([plain, fetch])

    assert registry.specs is registry.specs
    assert [spec.name for spec in registry.specs] == ["plain", "fetch"]


def test_the_digest_follows_what_a_model_is_offered() -> None:
    one, other = ToolRegistry([plain, fetch]), ToolRegistry([plain])

    assert one.digest == ToolRegistry([plain, fetch]).digest
    assert one.digest != other.digest


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    @tool(name="plain")
    def another() -> None: ...

    with pytest.raises(ToolDefinitionError, match="two tools are called 'plain'") as caught:
        ToolRegistry([plain, another])
    assert plain.origin in caught.value.message
    assert another.origin in caught.value.message


def test_the_same_tool_twice_is_once() -> None:
    assert len(ToolRegistry([plain, plain])) == 1


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 65, "a.b", "plain\n"])
def test_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="a name is 1 to 64 ASCII letters"):
        register_tool(name, "d", {})(lambda: None)
    with pytest.raises(ToolDefinitionError, match="a name is 1 to 64 ASCII letters"):
        ToolRegistry([renamed(name)])


def renamed(name: str) -> Tool:
    return Tool(
        name=name,
        description="",
        parameters={},
        function=plain.function,
        bind=plain.bind,
        invoke=plain.invoke,
    )


def test_groups_switch_tools_on() -> None:
    registry = ToolRegistry([plain, fetch, weather])

    assert registry.enabled(["http"]).names == ("plain", "fetch")
    assert registry.enabled([]).names == ("plain",)


def test_an_unknown_group_is_refused_with_what_was_surely_meant() -> None:
    registry = ToolRegistry([plain, fetch, weather])

    with pytest.raises(ConfigError, match="no tool group is called 'htp'") as caught:
        registry.enabled(["htp"])
    assert caught.value.hint == "did you mean `http`?"
    with pytest.raises(ConfigError, match="groups: http, mock"):
        registry.enabled(["zzz"])


def test_a_group_without_tools_may_be_known_all_the_same() -> None:
    assert ToolRegistry([plain]).enabled(["core"], known=["core"]).names == ("plain",)
