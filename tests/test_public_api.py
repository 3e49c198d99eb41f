"""The public surface, and what an import costs."""

from __future__ import annotations

import json
import subprocess
import sys

import hermes

PUBLIC = [
    "NOT_DONE",
    "Agent",
    "AgentRequest",
    "AgentResponse",
    "Child",
    "Children",
    "Event",
    "Hermes",
    "HermesError",
    "Limits",
    "NotDone",
    "Question",
    "Tool",
    "ToolContext",
    "ToolError",
    "TraceEntry",
    "Until",
    "Usage",
    "__version__",
    "register_tool",
    "tool",
]


def test_the_public_names_are_these_and_sorted() -> None:
    assert hermes.__all__ == PUBLIC


def test_every_public_name_is_there() -> None:
    for name in PUBLIC:
        assert getattr(hermes, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(hermes, "Agents")


def modules_after(code: str) -> set[str]:
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_r081_import_hermes_loads_nothing_but_the_standard_library() -> None:
    loaded = modules_after("import hermes")
    for heavy in ("pydantic", "httpx2", "apsw", "anyio", "typer", "rich", "yaml", "jinja2"):
        assert heavy not in loaded


def test_r081_naming_the_parts_loads_no_client_command_line_or_template_engine() -> None:
    loaded = modules_after("from hermes import Agent, Hermes, tool")
    for heavy in ("httpx2", "typer", "rich", "yaml", "jinja2", "pydantic_settings", "openai"):
        assert heavy not in loaded


def test_r081_help_loads_neither_store_nor_model() -> None:
    code = "from hermes.cli import invoke\ninvoke(['--help'])"
    loaded = modules_after(code)
    for heavy in ("pydantic", "httpx2", "apsw", "anyio", "yaml", "jinja2", "rich"):
        assert heavy not in loaded
