import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hermes.core.chat import ToolCall
from hermes.core.clock import SystemClock
from hermes.core.json import as_list, as_object
from hermes.errors import NotDone
from hermes.tools import (
    Prepared,
    Tool,
    ToolContext,
    ToolRegistry,
    ToolResult,
    prepare,
    run,
)
from hermes.tools.plugins import sources as plugins_sources
from hermes.tools.plugins import toolserver_child
from hermes.tools.plugins.host import PluginHost
from hermes.tools.plugins.options import PluginOptions, PluginServer
from tests.unit.tools.conftest import MemoryBench

PLUGIN = '''
import asyncio, os, sys, time
from enum import Enum
from typing import Literal, Optional
from hermes_plugin import NotDone, ToolError, idempotency_key, is_cancelled, progress, tool

__version__ = "2.1"
print("noise that is no answer")


class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


@tool(effect="read", group="sums", timeout_s=5)
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first,
            in two lines.
        b: The second.

    Returns:
        The sum.
    """
    print("more noise")
    os.write(1, b"and noise past Python\\n")
    return a + b


@tool
async def tell(text: str, unit: Unit = Unit.CELSIUS, kind: Literal["a", "b"] = "a") -> dict:
    progress("慢")
    return {"text": text, "unit": unit.name, "kind": kind, "key": idempotency_key()}


@tool(parameters_schema={"type": "object", "properties": {"words": {"type": "array"}}})
def by_hand(words: Optional[list] = None):
    """A schema written by hand."""
    return {"words": words}


@tool
def fail(how: str):
    if how == "tool":
        raise ToolError("库存不足", code="empty", retryable=True, hint="later")
    if how == "undone":
        raise NotDone("nothing was sent")
    if how == "timeout":
        raise TimeoutError("no answer from the bank")
    if how == "exit":
        sys.exit("bye")
    raise ValueError("坏")


@tool
def shape(kind: str):
    return {"huge": "x" * 2_000_000, "nan": float("nan"), "object": object()}[kind]


@tool
def die():
    os.kill(os.getpid(), 9)


@tool(effect="read", timeout_s=0.2)
async def hang():
    try:
        await asyncio.sleep(60)
    finally:
        open("was_cancelled", "w").close()


@tool(effect="read")
def pid():
    return os.getpid()


seen = []


@tool(effect="read")
def meet(name: str):
    """Two calls that can only return while both are under way."""
    seen.append(name)
    while len(seen) < 2:
        time.sleep(0.001)
    return name
'''

Opened = Callable[..., AbstractAsyncContextManager[PluginHost]]


@pytest.fixture
def opened(workdir: Path) -> Opened:
    """Opens a host with one plugin server."""

    @asynccontextmanager
    async def opened(code: str = PLUGIN, **more: object) -> AsyncGenerator[PluginHost]:
        (workdir / "plugin.py").write_text(code, encoding="utf-8")
        spec = PluginServer.model_validate({"file": "plugin.py", **more})
        async with anyio.create_task_group() as group:
            host = PluginHost(PluginOptions(servers={"shop": spec}), group)
            await host.prepare(("sums",))
            yield host
            await host.aclose()

    return opened


def tool_of(host: PluginHost, name: str) -> Tool:
    return next(tool for tool in host.brought().tools if tool.name == name)


async def call(host: PluginHost, context: ToolContext, name: str, arguments: str) -> ToolResult:
    """As a model's call goes."""
    wish = ToolCall(id="c1", name=name, arguments=arguments)
    prepared = prepare(ToolRegistry(host.brought().tools), wish)
    assert isinstance(prepared, Prepared), prepared
    return await run(prepared, context, clock=SystemClock())


async def test_signatures_become_schemas_without_hermes_or_pydantic(opened: Opened) -> None:
    async with opened() as host:
        add, tell = tool_of(host, "add"), tool_of(host, "tell")
        by_hand = tool_of(host, "by_hand")
        (plugin,) = host.brought().plugins

    assert (plugin.name, plugin.kind, plugin.version) == ("shop", "process", "2.1")
    assert (add.effect, add.group, add.timeout_s) == ("read", "sums", 5)
    assert add.description == "Add two numbers.\n\nReturns:\n    The sum."
    assert add.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first, in two lines."},
            "b": {"type": "integer", "description": "The second.", "default": 2},
        },
        "additionalProperties": False,
        "required": ["a"],
    }
    assert (tell.effect, tell.timeout_s) == ("unsafe", 30)
    assert tell.parameters["properties"] == {
        "text": {"type": "string"},
        "unit": {"enum": ["celsius", "kelvin"], "default": "celsius"},
        "kind": {"enum": ["a", "b"], "default": "a"},
    }
    assert by_hand.parameters == {"type": "object", "properties": {"words": {"type": "array"}}}


async def test_a_call_goes_there_and_back_whatever_the_plugin_prints(
    opened: Opened, context: ToolContext, bench: MemoryBench
) -> None:
    async with opened() as host:
        added = await call(host, context, "add", '{"a": 1}')
        told = await call(host, context, "tell", '{"text": "你好", "unit": "kelvin"}')

    assert added.data == 3
    assert told.data == {"text": "你好", "unit": "KELVIN", "kind": "a", "key": "task_1/turn1/tool1"}
    assert bench.told == ["慢"]


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("tool", "error", "库存不足"),
        ("undone", "error", "nothing was sent"),
        ("timeout", "in_doubt", "no answer from the bank"),
        ("exit", "error", "SystemExit: bye"),
        ("other", "error", "ValueError: 坏"),
    ],
)
async def test_what_a_plugin_raises_keeps_its_meaning(
    opened: Opened, context: ToolContext, how: str, status: str, message: str
) -> None:
    async with opened() as host:
        result = await call(host, context, "fail", f'{{"how": "{how}"}}')

    assert result.status == status
    assert result.error is not None
    assert message in result.error.message
    if how == "tool":
        fault = result.error
        assert (fault.code, fault.retryable, fault.hint) == ("empty", True, "later")


@pytest.mark.parametrize(
    ("kind", "message"), [("huge", "2000"), ("nan", "no plain JSON"), ("object", "a object")]
)
async def test_a_result_that_cannot_be_sent_is_an_error_that_says_it_did_run(
    opened: Opened, context: ToolContext, kind: str, message: str
) -> None:
    async with opened() as host:
        result = await call(host, context, "shape", f'{{"kind": "{kind}"}}')

    assert result.error is not None
    assert "the tool did run" in result.error.message
    assert message in result.error.message


async def test_a_process_that_dies_in_a_call_leaves_an_unsafe_one_in_doubt_and_is_started_again(
    opened: Opened, context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as host:
        died = await call(host, context, "die", "{}")
        again = await call(host, context, "add", '{"a": 40}')

    assert died.status == "in_doubt"
    assert again.data == 42
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert told[0].startswith("plugin 'shop' stopped: it was ended by SIGKILL")


async def test_a_process_that_is_killed_between_calls_is_started_again(
    opened: Opened, context: ToolContext
) -> None:
    async with opened() as host:
        first = await call(host, context, "pid", "{}")
        assert isinstance(first.data, int)
        os.kill(first.data, signal.SIGKILL)
        while Path(f"/proc/{first.data}").exists():  # noqa: ASYNC110  # the kernel's
            await anyio.sleep(0.001)
        second = await call(host, context, "pid", "{}")
        third = await call(host, context, "pid", "{}")

    assert third.status == "ok"
    assert third.data != first.data
    assert second.data == third.data or second.status == "error"


async def test_a_call_whose_time_is_over_is_cancelled_over_there(
    opened: Opened, context: ToolContext, workdir: Path
) -> None:
    async with opened() as host:
        result = await call(host, context, "hang", "{}")
        with anyio.fail_after(5):
            while not (workdir / "was_cancelled").exists():  # noqa: ASYNC110  # it makes it
                await anyio.sleep(0.001)
        after = await call(host, context, "add", '{"a": 1}')

    assert result.status == "timeout"
    assert after.data == 3


async def test_a_process_that_is_stuck_as_a_whole_is_ended_and_started_again(
    opened: Opened, context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as host:
        first = await call(host, context, "pid", "{}")
        assert isinstance(first.data, int)
        os.kill(first.data, signal.SIGSTOP)
        stuck = await call(host, context, "hang", "{}")
        with anyio.fail_after(8):
            while not caplog.records:  # noqa: ASYNC110  # found out after a call
                await anyio.sleep(0.001)
        second = await call(host, context, "pid", "{}")

    assert stuck.status == "timeout"
    assert second.status == "ok"
    assert second.data != first.data
    assert "did not answer a ping within 2 s" in caplog.records[0].getMessage()


async def test_a_call_that_finds_no_turn_surely_did_not_take_place(
    opened: Opened, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins_sources, "_TURN_S", 0.05)
    async with opened(concurrency=1) as host, anyio.create_task_group() as group:
        group.start_soon(call, host, context, "meet", '{"name": "a"}')
        await anyio.wait_all_tasks_blocked()
        refused = await call(host, context, "tell", '{"text": "b"}')
        group.cancel_scope.cancel()
        assert refused.error is not None
        assert (refused.status, refused.error.code) == ("error", "busy")


async def test_paths_are_from_the_folder_of_hermes(workdir: Path, context: ToolContext) -> None:
    (workdir / "elsewhere").mkdir()
    (workdir / "python").symlink_to(sys.executable)
    (workdir / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    spec = PluginServer.model_validate(
        {"file": "plugin.py", "python": "./python", "cwd": "elsewhere"}
    )
    async with anyio.create_task_group() as group:
        host = PluginHost(PluginOptions(servers={"shop": spec}), group)
        await host.prepare(())
        assert host.brought().problems == ()
        assert (await call(host, context, "add", '{"a": 1}')).data == 3
        await host.aclose()


async def test_calls_run_at_the_same_time(opened: Opened, context: ToolContext) -> None:
    found: list[object] = []
    async with opened() as host:

        async def meet(name: str) -> None:
            result = await call(host, context, "meet", f'{{"name": "{name}"}}')
            found.append(result.data)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as calls:
                calls.start_soon(meet, "a")
                calls.start_soon(meet, "b")

    assert sorted(map(str, found)) == ["a", "b"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import no_such_library", "plugin.py:1: ModuleNotFoundError"),
        ("def broken(:", "plugin.py:1: SyntaxError"),
        ("import os; os._exit(7)", "exit code 7"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("x = 1", "marks no function"),
        ("from hermes_plugin import tool\n@tool\ndef f(x: set): pass", "`x`"),
        ("while True: pass", "was not ready within 0.3 s"),
    ],
    ids=["dependency", "syntax", "gone", "exit", "nothing", "signature", "endless"],
)
async def test_a_plugin_that_does_not_load_is_named_once(
    opened: Opened, caplog: pytest.LogCaptureFixture, code: str, told: str
) -> None:
    limit = 0.3 if "while" in code else 10
    async with opened(code, start_timeout_s=limit) as host:
        brought = host.brought()
        await host.prepare(())

    assert brought.tools == ()
    assert not brought.is_whole
    assert told in brought.problems[0]
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "plugin 'shop' cannot be used" in warned[0]


async def test_a_clash_with_another_plugin_is_named_once_and_the_first_one_stays(
    workdir: Path, context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    code = "from hermes_plugin import tool\n@tool\ndef same():\n    return '{}'"
    for name in ("one", "two"):
        (workdir / f"{name}.py").write_text(code.format(name))
    specs = {name: PluginServer.model_validate({"file": f"{name}.py"}) for name in ("one", "two")}
    async with anyio.create_task_group() as group:
        host = PluginHost(PluginOptions(servers=specs), group)
        await host.prepare(())
        assert [tool.name for tool in host.brought().tools] == ["same"]
        assert (await call(host, context, "same", "{}")).data == "one"
        await host.aclose()

    (warned,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "plugin 'two' is left out: its tool 'same' (plugin 'two', two.py)" in warned
    assert "plugin 'one' (plugin 'one', one.py)" in warned


async def test_an_interpreter_that_is_not_there_is_named(opened: Opened) -> None:
    async with opened(python="/no/such/python") as host:
        assert "/no/such/python" in host.brought().problems[0]
        assert "No such file" in host.brought().problems[0]


async def test_the_plugin_gets_little_of_the_environment_and_what_is_meant_for_it(
    opened: Opened, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-secret")
    monkeypatch.setenv("CRM_TOKEN", "t-1")
    code = (
        "import os\nfrom hermes_plugin import tool\n@tool\n"
        "def names():\n    return dict(os.environ)"
    )
    async with opened(code, env={"TOKEN": "${CRM_TOKEN}"}) as host:
        result = await call(host, context, "names", "{}")

    given = as_object(result.data) or {}
    assert given["TOKEN"] == "t-1"
    assert not {"API_KEY", "CRM_TOKEN"} & given.keys()


async def test_a_variable_that_is_missing_is_named(opened: Opened) -> None:
    async with opened(env={"TOKEN": "${NO_SUCH_VARIABLE}"}) as host:
        assert "has no NO_SUCH_VARIABLE" in host.brought().problems[0]


async def test_closing_ends_the_process_with_all_that_it_started(
    opened: Opened, context: ToolContext
) -> None:
    code = (
        "import os, subprocess, signal, sys\nfrom hermes_plugin import tool\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "@tool(effect='read')\ndef pids():\n    return [os.getpid(), child.pid]"
    )
    async with opened(code) as host:
        result = await call(host, context, "pids", "{}")
        with anyio.fail_after(8):
            await host.aclose()

    pids = as_list(result.data)
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_a_closed_host_starts_nothing(opened: Opened, context: ToolContext) -> None:
    async with opened() as host:
        add = tool_of(host, "add")
        await host.aclose()
        with pytest.raises(NotDone, match="was closed"):
            await add.invoke({"a": 1}, context)


async def test_a_server_whose_group_is_off_is_not_even_started(workdir: Path) -> None:
    (workdir / "plugin.py").write_text("open('started', 'w')")
    spec = PluginServer.model_validate({"file": "plugin.py", "group": "crm"})
    async with anyio.create_task_group() as group:
        host = PluginHost(PluginOptions(servers={"shop": spec}), group)
        await host.prepare(("core",))
        brought = host.brought()
        await host.aclose()

        assert not (workdir / "started").exists()
        assert (brought.groups, brought.is_whole, brought.problems) == ({"crm"}, False, ())


def test_the_server_side_runs_on_a_bare_interpreter(tmp_path: Path) -> None:
    """Nothing of site-packages, and so nothing of Hermes, is needed there."""
    (tmp_path / "p.py").write_text(PLUGIN, encoding="utf-8")
    asked = [{"id": 1, "do": "ping"}, {"id": 2, "do": "list"}]
    done = subprocess.run(
        [sys.executable, "-S", toolserver_child.__file__, "file", str(tmp_path / "p.py")],
        input="".join(json.dumps(item) + "\n" for item in asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0] == {"id": 1, "ok": "pong"}
    assert answers[1]["ok"]["version"] == "2.1"
    assert "noise that is no answer" in done.stderr
