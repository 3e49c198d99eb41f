import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.agents import AgentDefinition, load_agent
from hermes.errors import ConfigError, ToolDefinitionError
from hermes.tools import builtin_tools, load_tools, tool
from hermes.tools.plugins.brought import Brought, local_plugins
from hermes.tools.plugins.host import PluginHost
from hermes.tools.plugins.options import PluginOptions

ADD = """
from hermes import tool
__version__ = "0.3"
@tool(effect="read", group="{group}")
def {name}(a: int) -> int:
    "A tool."
    return a
"""

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What a process has loaded once it never loads again."""
    local_plugins.cache_clear()
    yield
    local_plugins.cache_clear()
    for name in [name for name in sys.modules if name.endswith("_code")]:
        del sys.modules[name]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a distribution with one module and one entry point on the path."""
    site = tmp_path / "site"
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def put(name: str, code: str, *, value: str = "", version: str = "1.4") -> None:
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        target = value or f"{name}_code"
        (info / "entry_points.txt").write_text(f"[hermes.tools]\n{name} = {target}\n")
        (site / f"{name}_code.py").write_text(code, encoding="utf-8")

    return put


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def by_name(brought: Brought) -> dict[str, str]:
    return {plugin.name: plugin.problem for plugin in brought.plugins}


@pytest.mark.parametrize("value", ["mine_code", "mine_code:one", "mine_code:several"])
def test_an_entry_point_is_a_tool_a_list_or_a_module(install: Install, value: str) -> None:
    install("mine", ADD.format(name="one", group="") + "several = [one]\n", value=value)

    (plugin,) = local_plugins().plugins

    assert (plugin.name, plugin.version, plugin.problem) == ("mine", "1.4", "")
    assert [item.name for item in plugin.tools] == ["one"]
    assert plugin.place == f"mine:{value}"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import no_such_library", "No module named 'no_such_library'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Odd(BaseException): pass\nraise Odd('all is lost')", "Odd: all is lost"),
        ("x = 1", "leads to no tool"),
        ("from hermes import tool\ntool(5)", "is not a function"),
    ],
    ids=["dependency", "syntax", "exit", "base", "nothing", "definition"],
)
def test_a_plugin_that_cannot_be_loaded_is_named_and_the_rest_works(
    install: Install, caplog: pytest.LogCaptureFixture, code: str, told: str
) -> None:
    install("broken", code)
    install("whole", ADD.format(name="good", group=""))

    brought = local_plugins()
    local_plugins()

    assert [item.name for item in brought.tools] == ["good"]
    assert told in by_name(brought)["broken"]
    assert by_name(brought)["whole"] == ""
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "plugin 'broken' is left out" in warned[0]


def test_an_entry_point_that_leads_to_a_plain_function_says_what_is_missing(
    install: Install,
) -> None:
    install("plain", "def f(): pass", value="plain_code:f")

    assert (
        "a function, which is no tool (name a tool, a list of tools"
        in by_name(local_plugins())["plain"]
    )


def test_every_file_of_a_folder_is_a_plugin_of_its_own(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "plugins",
        good=ADD.format(name="good", group=""),
        gone="import no_such_library",
        leaves="import sys; sys.exit('tschüss')",
        words="NOTHING = 1",
        _private="raise RuntimeError",
    )

    brought = local_plugins((folder, tmp_path / "nowhere"))

    assert [(item.name, item.origin) for item in brought.tools] == [
        ("good", f"{folder.resolve() / 'good.py'}:4")
    ]
    problems = by_name(brought)
    assert problems.keys() == {"good", "gone", "leaves", "words", "nowhere"}
    assert "gone.py:1: ModuleNotFoundError" in problems["gone"]
    assert "SystemExit: tschüss" in problems["leaves"]
    assert problems["words"] == ""
    assert "HERMES_TOOL_PATH" in problems["nowhere"]
    assert brought.plugin_of("good") == brought.plugins[1]
    assert brought.plugins[1].version == "0.3"


def test_a_plugin_that_is_switched_off_is_not_even_imported(
    install: Install, tmp_path: Path
) -> None:
    install("mine", "raise SystemExit")
    folder = write(tmp_path / "plugins", other="raise SystemExit")

    assert local_plugins((folder,), frozenset({"mine", "other"})).plugins == ()


def test_two_plugins_with_one_tool_name_are_refused_with_both_places(
    install: Install, tmp_path: Path
) -> None:
    install("first", ADD.format(name="same", group=""))
    folder = write(tmp_path / "plugins", second=ADD.format(name="same", group=""))

    brought = local_plugins((folder,))

    assert len(brought.tools) == 1
    problem = by_name(brought)["second"]
    assert f"{folder.resolve() / 'second.py'}:4" in problem
    assert "first_code.py:4" in problem
    assert "'same'" in problem


def test_a_tool_with_the_name_of_a_built_in_one_that_is_on_is_refused_with_both_places(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "plugins", mine=ADD.format(name="read_more", group=""))

    host = PluginHost(PluginOptions(paths=(folder,)))

    brought = host.brought(builtin_tools(("core",)))

    assert host.brought(builtin_tools(("http",))).tools != ()
    assert brought.tools == ()
    assert "mine.py:4" in by_name(brought)["mine"]
    assert "builtin" in by_name(brought)["mine"]


def test_a_clash_with_the_agents_own_tool_names_both_places(tmp_path: Path) -> None:
    @tool
    def same() -> str:
        """The agent's own."""
        return ""

    folder = write(tmp_path / "plugins", mine=ADD.format(name="same", group=""))
    agent = AgentDefinition(tools=(same,))

    with pytest.raises(ToolDefinitionError, match=r"mine\.py:4 and .*test_plugins\.py:\d+"):
        agent.registry((), brought=local_plugins((folder,)))


def test_a_file_that_the_agent_names_and_the_folder_has_is_one_tool(tmp_path: Path) -> None:
    folder = write(tmp_path / "plugins", mine=ADD.format(name="same", group=""))
    agent = AgentDefinition(tools=tuple(load_tools(folder / "mine.py")))

    assert agent.registry((), brought=local_plugins((folder,))).names == ("same",)


def test_the_tools_of_plugins_obey_groups(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "plugins",
        a=ADD.format(name="always", group=""),
        b=ADD.format(name="sometimes", group="crm"),
    )
    brought = local_plugins((folder,))

    assert AgentDefinition().registry(("crm",), brought=brought).names == ("always", "sometimes")
    assert AgentDefinition().registry((), brought=brought).names == ("always",)
    with pytest.raises(ConfigError, match="no tool group is called 'crn'"):
        AgentDefinition().registry(("crn",), brought=brought)


def test_a_group_and_a_denied_name_of_a_plugin_that_is_broken_stop_nobody(tmp_path: Path) -> None:
    folder = write(tmp_path / "plugins", a=ADD.format(name="works", group=""), b="import nothing_")
    brought = local_plugins((folder,))

    registry = AgentDefinition(deny=("lost",)).registry(("crm",), brought=brought)

    assert registry.names == ("works",)
    AgentDefinition(allow=("lost",)).policy(registry, brought=brought)
    with pytest.raises(ConfigError, match="lost"):
        AgentDefinition(deny=("lost",)).registry(())


def test_an_agent_file_can_demand_the_tool_of_a_plugin(tmp_path: Path) -> None:
    folder = write(tmp_path / "plugins", a=ADD.format(name="works", group=""), b="import nothing_")
    file = tmp_path / "agent.toml"
    file.write_text('name = "a"\ntools = ["plugin:works"]\nrequired_tools = ["works"]')
    agent = load_agent(file)

    assert agent.registry((), brought=local_plugins((folder,))).names == ("works",)
    with pytest.raises(ConfigError, match="'works', which no plugin brings"):
        agent.registry(())
