"""TOML and YAML files, and where their mistakes stand."""

import codecs
import subprocess
import sys
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.tables import read_table
from hermes.errors import ConfigError


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["plain", "bom"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", 'name = "检查"\nday = 2026-01-02\nlimits = {n = 3}\n'),
        ("a.yaml", "name: 检查\nday: 2026-01-02\nlimits: {n: 3}\n"),
        ("dir.d/a.YML", "name: 检查\nday: 2026-01-02\nlimits: {n: 3}\n"),
    ],
)
def test_toml_and_yaml_say_the_same(name: str, text: str, end: str, bom: bytes) -> None:
    raw = bom + text.replace("\n", end).encode()

    assert read_table(raw, name=name) == {
        "name": "检查",
        "day": date(2026, 1, 2),
        "limits": {"n": 3},
    }


def test_an_empty_toml_file_is_an_empty_table() -> None:
    assert read_table(b"", name="a.toml") == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "x = 1\ny = ", "a.toml, line 2, column 5: is not TOML: Invalid value"),
        ("a.toml", "x = 1\ny = @", "a.toml, line 2, column 5: is not TOML: Invalid value"),
        ("a.toml", "x = 2026-02-30", "a.toml, line 1, column 5: is not TOML"),
        ("a.toml", f"x = {'9' * 5000}", "a.toml: is not TOML: Exceeds the limit"),
        ("a.toml", f"x = {'[' * 9999}", "a.toml: is not TOML"),
        ("a.yaml", "a: 1\nb: [a\nx: 1", "a.yaml, line 3, column 2: is not YAML"),
        ("a.yaml", "a:\n  b: 2026-13-01", "a.yaml, line 2, column 6: is not YAML: '2026-13-01'"),
        ("a.yaml", f"a: {'9' * 5000}", "a.yaml, line 1, column 4: is not YAML: '999"),
        ("a.yaml", f"a: {'[' * 9999}", "a.yaml: is not YAML: nested too deeply"),
        ("a.yaml", "a: !!int ''", "a.yaml, line 1, column 4: is not YAML: ''"),
        ("a.yaml", "a: !!bool x", "a.yaml, line 1, column 4: is not YAML: 'x'"),
        ("a.yaml", "a: !!timestamp x", "a.yaml, line 1, column 4: is not YAML: 'x'"),
        ("a.yaml", "a: !!python/object:os.system x", "a.yaml, line 1, column 4: is not YAML"),
        ("a.yaml", "a: 1\nb: \0", "a.yaml, line 2, column 4: is not YAML: character U+0000"),
        ("a.yaml", "a: 1\n---\nb: 2", "a.yaml, line 2, column 1: is not YAML"),
        ("a.yaml", "- 1", "a.yaml: must hold a table of keys, got a list"),
        ("a.yaml", "", "a.yaml: must hold a table of keys, got nothing"),
        ("a.yaml", "1: x", "a.yaml: key 1 is not a text (put it in quotes)"),
        ("a.json", "{}", "a.json: must end in .toml, .yaml or .yml"),
        ("toml", "", "toml: must end in .toml, .yaml or .yml"),
    ],
)
def test_a_mistake_is_told_with_its_place(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table(text.encode(), name=name)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("gbk", "a.yaml, line 2, column 7: is not UTF-8: byte 0xbc"),
        ("utf-16", "a.yaml, line 1, column 1: is UTF-16: byte 0xff"),
    ],
)
def test_another_encoding_is_told_with_what_to_do(encoding: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table("a: 1\nname: 检查".encode(encoding), name="a.yaml")
    assert str(caught.value) == f"{message} (save it as UTF-8)"


@given(st.one_of(st.binary(), st.text().map(str.encode)), st.sampled_from(["a.toml", "a.yaml"]))
def test_no_bytes_raise_anything_else(raw: bytes, name: str) -> None:
    try:
        assert all(isinstance(key, str) for key in read_table(raw, name=name))
    except ConfigError as exc:
        assert exc.message.startswith(name)


def test_the_parsers_are_loaded_on_use() -> None:
    program = "import sys, hermes.core.tables; print({'yaml', 'tomllib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_a_yaml_key_that_stands_twice_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match="line 2, column 1: .*key 'name' stands twice"):
        read_table(b"name: a\nname: b\n", name="agent.yaml")
