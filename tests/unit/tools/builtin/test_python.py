import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from hermes.errors import ToolError
from hermes.tools import BuiltinOptions, Tool, builtin_tools
from hermes.tools.builtin.options import PythonSandbox

Result = dict[str, object]
Run = Callable[..., Awaitable[Result]]


def has_bubblewrap() -> bool:
    """Whether it is installed, and may make namespaces here."""
    if shutil.which("bwrap") is None:
        return False
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


NO_BWRAP = pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap is missing or may not work")
FORKS = "import os\nwhile True:\n  os.fork()"
MEMORY = "a = []\nwhile True:\n  a.append('x' * 100_000)"
SOCKET = "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)"


def made(sandbox: PythonSandbox) -> Tool:
    (tool,) = builtin_tools(["python"], options=BuiltinOptions(python_sandbox=sandbox))
    return tool


@pytest.fixture(params=["monty", pytest.param("bubblewrap", marks=NO_BWRAP)])
def run(request: pytest.FixtureRequest) -> Run:
    tool = made(request.param)

    async def call(code: str, **more: object) -> Result:
        return await cast("Awaitable[Result]", tool(code=code, **more))

    return call


async def test_the_value_of_the_last_line_comes_back_as_json(run: Run) -> None:
    done = await run(
        "total = sum(x['金额'] for x in orders)\n{'合计': total, '笔数': len(orders)}",
        inputs={"orders": [{"金额": 3}, {"金额": 4.5}]},
    )

    assert done["value"] == {"合计": 7.5, "笔数": 2}
    assert "error" not in done


async def test_a_program_without_a_last_expression_has_no_value(run: Run) -> None:
    done = await run("x = 1\nprint('你好', x)")

    assert (done["value"], done["printed"]) == (None, "你好 1\n")


async def test_a_fence_around_the_program_is_no_part_of_it(run: Run) -> None:
    assert (await run("```python\n1 + 1\n```\n"))["value"] == 2


async def test_numbers_of_any_size_stay_exact(run: Run) -> None:
    assert (await run("3 ** 100"))["value"] == 3**100
    assert (await run("from decimal import Decimal\nDecimal('0.1') * 3"))["value"] == "0.3"


@pytest.mark.parametrize("code", ["float('nan')", "{1, 2}", "(1, 2)", "b'x'", "class A: pass\nA()"])
async def test_values_that_json_lacks_come_back_in_some_form(run: Run, code: str) -> None:
    done = await run(code)

    assert done["value"] is not None


@pytest.mark.parametrize(
    ("code", "kind", "line"),
    [
        ("x = 1\ny = x / 0", "ZeroDivisionError", 2),
        ("def f(x):\n  return x['没有']\n\nf({})", "KeyError", 2),
        ("x = (\n", "SyntaxError", None),
        ("没有的名字", "NameError", 1),
        ("def f(n):\n  return f(n + 1)\nf(0)", "RecursionError", 2),
    ],
)
async def test_an_error_has_its_type_and_line(
    run: Run, code: str, kind: str, line: int | None
) -> None:
    error = cast("Result", (await run(code))["error"])

    assert error["type"] == kind
    assert line is None or error["line"] == line


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("print('开始')\nwhile True:\n  pass", ["TimeoutError"]),
        ("import time\ntime.sleep(30)", ["TimeoutError"]),
        (MEMORY, ["MemoryError", "InterpreterEnded"]),
        ("'a' * 10 ** 12", ["MemoryError"]),
        (FORKS, ["AttributeError", "PermissionError"]),
        (SOCKET, ["ModuleNotFoundError", "OSError", "ConnectionRefusedError"]),
        ("open('/etc/passwd').read()", ["PermissionError", "FileNotFoundError"]),
        ("open('/tmp/x', 'w').write('x')", ["PermissionError", "FileNotFoundError", "OSError"]),
        ("import os\nos.listdir('/home')", ["PermissionError", "FileNotFoundError"]),
        ("import subprocess\nsubprocess.run(['ls'])", ["ModuleNotFoundError", "PermissionError"]),
    ],
)
async def test_what_a_sandbox_is_for_is_stopped_in_time(
    run: Run, code: str, kinds: list[str]
) -> None:
    is_slow = kinds == ["TimeoutError"]
    began = time.monotonic()

    done = await run(code, timeout_s=1 if is_slow else 20)

    assert cast("Result", done["error"])["type"] in kinds
    # A busy machine; by itself it takes some two seconds.
    assert not is_slow or time.monotonic() - began < 8


async def test_what_was_printed_before_the_end_is_kept_in_part(run: Run) -> None:
    done = await run("print('开始')\nwhile True:\n  print('x' * 1000)", timeout_s=1)

    printed = str(done["printed"])
    assert printed.startswith("开始\nxxx")
    assert "more characters were printed" in printed
    assert len(printed) < 21_000


async def test_no_key_of_the_environment_is_seen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "SECRET-7731")

    done = await run("import os\nstr(dict(os.environ))")

    assert "SECRET-7731" not in str(done)


@NO_BWRAP
@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import ctypes\nctypes.string_at(0)",
        "import os\nos.execv('/bin/true', ['true'])",
        "import ctypes\n(ctypes.CDLL(None).fork(), 1 / 0)",
        "import os\nos.kill(os.getpid(), 9)",
        "import os\nfor fd in range(9):\n  try: os.close(fd)\n  except OSError: pass",
    ],
)
async def test_a_program_that_fights_its_walls_harms_itself_alone(code: str) -> None:
    done = await cast("Awaitable[Result]", made("bubblewrap")(code=code))

    assert "error" in done


@pytest.mark.parametrize("name", ["1x", "a b", "class", "__builtins__"])
async def test_an_input_needs_a_name_that_python_takes(run: Run, name: str) -> None:
    with pytest.raises(ToolError, match="cannot be a name"):
        await run("1", inputs={name: 1})


@pytest.mark.parametrize(
    ("sandbox", "missing"),
    [
        ("auto", ["pydantic-monty", "bwrap"]),
        ("monty", ["pydantic-monty"]),
        ("bubblewrap", ["bwrap"]),
    ],
)
async def test_without_a_sandbox_nothing_is_run_and_the_reason_is_said(
    sandbox: PythonSandbox, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    monkeypatch.setenv("PATH", "/nowhere")
    tool = made(sandbox)

    with pytest.raises(ToolError, match="without one it is not run") as caught:
        await cast("Awaitable[Result]", tool(code="1"))

    assert caught.value.code == "no_sandbox"
    assert all(name in caught.value.message for name in missing)
    assert tool.health is not None
    assert tool.health() == caught.value.message


async def test_a_machine_without_namespaces_is_said(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path_factory.mktemp("bin") / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))

    with pytest.raises(ToolError, match="No permissions to create new namespace") as caught:
        await cast("Awaitable[Result]", made("bubblewrap")(code="1"))

    assert caught.value.code == "no_sandbox"


def test_it_reads_and_changes_nothing() -> None:
    tool = made("auto")

    assert (tool.effect, tool.outbound, tool.requires_approval) == ("read", False, False)
