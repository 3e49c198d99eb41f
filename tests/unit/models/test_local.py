"""A model file that cannot be served: told before anything starts, or by what its server says."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from hermes.errors import ConfigError, ModelError
from hermes.models import local_server, open_model
from hermes.models.local import LocalModel
from hermes.models.local_server import LocalServer, ModelFile


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in of xllamacpp that child processes find; empty at first."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setattr(local_server, "find_spec", found)
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib" / "xllamacpp.py"


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


def installed(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> None:
    monkeypatch.setattr(local_server, "find_spec", found if is_there else missing)


def found(name: str) -> ModuleSpec | None:
    return ModuleSpec(name, None)


def missing(name: str) -> ModuleSpec | None:
    return None


def test_a_missing_extra_names_what_to_install(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, is_there=False)

    with pytest.raises(ConfigError) as caught:
        open_model(f"local:{gguf}")
    assert "needs the package xllamacpp" in caught.value.message
    assert caught.value.hint == "pip install 'hermes-courier[local]'"


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, is_there=True)

    with pytest.raises(ConfigError, match=r"cannot read the model file .*nowhere\.gguf"):
        open_model(f"local:{tmp_path}/nowhere.gguf")


def test_a_file_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, is_there=True)
    (tmp_path / "model.bin").write_bytes(b"\x80\x02\x8a\nl\xfc")

    with pytest.raises(ConfigError, match="is no GGUF file: it begins with"):
        open_model(f"local:{tmp_path}/model.bin")


def test_a_local_model_needs_no_server_and_no_key(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, is_there=True)
    model = open_model(f"local:{gguf}", window=2_000)

    assert isinstance(model, LocalModel)
    assert model.name == "local:tiny.gguf"
    assert (model.profile.window, model.profile.dialect) == (2_000, "react")
    assert model.profile.json_mode == "schema"


FAKE = """
import os, signal, sys, time
from types import SimpleNamespace as Space

class CommonParams:
    def __init__(self):
        self.model, self.sampling, self.cpuparams = Space(), Space(), Space()

class Server:
    def __init__(self, params):
        print("a line of its log", file=sys.stderr)
        {does}
        self.listening_address = "http://127.0.0.1:9"
"""


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("raise RuntimeError('no such architecture')", "cannot serve 'tiny.gguf': no such arch"),
        ("sys.exit(3)", "cannot serve 'tiny.gguf': a line of its log"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "'tiny.gguf' did not fit into memory"),
        (
            "print('failed to allocate buffer', file=sys.stderr); raise RuntimeError('x')",
            "'tiny.gguf' did not fit into memory",
        ),
        ("time.sleep(60)", "'tiny.gguf' was not ready within 3 s"),
    ],
    ids=["refused", "left", "killed", "no memory", "too slow"],
)
def test_a_server_that_does_not_come_up_says_why_and_leaves_nothing_behind(
    gguf: Path, library: Path, does: str, message: str
) -> None:
    library.write_text(FAKE.format(does=does))
    server = LocalServer(ModelFile(path=gguf, window=512), start_s=3)

    with pytest.raises(ModelError) as caught:
        server.place()
    assert message in caught.value.message
    assert caught.value.hint
    assert server.pid is None


def test_a_server_is_started_once_and_ends_when_it_is_closed(gguf: Path, library: Path) -> None:
    library.write_text(FAKE.format(does="pass"))
    server = LocalServer(ModelFile(path=gguf, window=512), start_s=20)
    first, pid = server.place(), server.pid

    assert server.place() == first
    assert server.pid == pid
    assert first.address == "http://127.0.0.1:9"
    server.close()
    assert server.pid is None


def test_nothing_of_it_is_loaded_by_those_who_do_not_use_it() -> None:
    code = "import sys, hermes, hermes.models; print('hermes.models.local' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
