"""The questions and answers of bfcl-eval, as tools and the right calls to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import jsonschema

Schema = dict[str, object]
JsonObject = dict[str, object]

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = ROOT / "locks" / "bfcl.txt"
CACHE = ROOT / ".cache" / "bfcl"
PARTS = (
    *("simple_python", "multiple", "parallel", "parallel_multiple"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
)
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class NoData(Exception):
    """The set is not there and could not be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A right call."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question's tools, and the calls that answer it."""

    id: str
    tools: Mapping[str, Schema]
    calls: Sequence[Call]


def load() -> tuple[list[Case], int]:
    """All cases whose answer fits its own schema, and how many were left out.

    Raises:
        NoData: The package cannot be fetched.
    """
    folder = _fetched()
    cases: list[Case] = []
    left_out = 0
    for part in PARTS:
        answers = {row["id"]: row for row in _rows(folder / "possible_answer", part)}
        for row in _rows(folder, part):
            case = _case(row, answers[row["id"]])
            if case is None:
                left_out += 1
            else:
                cases.append(case)
    return cases, left_out


def _fetched() -> Path:
    folder = CACHE / "bfcl_eval" / "data"
    if not folder.is_dir():
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
        command += ["--require-hashes", "--requirement", str(LOCK), "--target", str(CACHE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoData(done.stderr.strip())
    return folder


def _rows(folder: Path, part: str) -> Iterator[JsonObject]:
    for line in (folder / f"BFCL_v4_{part}.json").read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _case(question: JsonObject, answer: JsonObject) -> Case | None:
    functions = cast("list[JsonObject]", question["function"])
    tools = {str(item["name"]): _schema(cast("Schema", item["parameters"])) for item in functions}
    calls: list[Call] = []
    for item in cast("list[dict[str, dict[str, list[object]]]]", answer["ground_truth"]):
        for name, parameters in item.items():
            arguments = {
                key: _plain(allowed[0])
                for key, allowed in parameters.items()
                if allowed and "" not in allowed
            }
            if name not in tools or not fits(tools[name], arguments):
                return None
            calls.append(Call(name=name, arguments=arguments))
    return Case(id=str(question["id"]), tools=tools, calls=calls) if calls else None


def _schema(node: Schema) -> Schema:
    """The set's own dialect of JSON Schema, as JSON Schema; every object is closed."""
    copy = {key: value for key, value in node.items() if key not in ("optional", "default")}
    kind = copy.get("type")
    if kind == "any":
        del copy["type"]
    elif isinstance(kind, str):
        copy["type"] = _TYPES.get(kind, kind)
    if isinstance(copy.get("properties"), dict):
        properties = cast("dict[str, Schema]", copy["properties"])
        copy["properties"] = {key: _schema(item) for key, item in properties.items()}
        copy.setdefault("additionalProperties", False)
    if isinstance(copy.get("items"), dict):
        copy["items"] = _schema(cast("Schema", copy["items"]))
    return copy


def _plain(value: object) -> object:
    """An allowed value; inside objects the set lists what is allowed for each key."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        found: JsonObject = {}
        for key, allowed in table.items():
            if not isinstance(allowed, list):
                found[key] = allowed
            elif allowed and "" not in cast("list[object]", allowed):
                found[key] = _plain(cast("list[object]", allowed)[0])
        return found
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    return value


def fits(schema: Schema, value: object) -> bool:
    """Whether a value is valid, to the letter."""
    is_valid = cast("Callable[[object], bool]", jsonschema.Draft202012Validator(schema).is_valid)
    try:
        return is_valid(value)
    except jsonschema.SchemaError:
        return False
