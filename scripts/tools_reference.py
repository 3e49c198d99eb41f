"""Writes docs/tools.md from the built-in tools; `check` says whether it is what they are."""

from __future__ import annotations

import sys
from pathlib import Path

from hermes.core.json import as_list, as_object, dumps
from hermes.tools import BUILTIN_GROUPS, Tool, builtin_tools

TARGET = Path(__file__).parents[1] / "docs" / "tools.md"
HEAD = """\
# Built-in tools

Made from the tools themselves by `python scripts/tools_reference.py write`; do not edit.

`TOOL_ENABLED_GROUPS` (default `core,http`) or `groups` of an agent switches groups on.
*untrusted*: what it gives comes from outside, and may hold instructions of others. *outbound*: it
may carry data out. [Tools for dangerous work](dangerous-tools.md) says what follows from that.
"""


def reference() -> str:
    """The whole document."""
    return "\n".join([HEAD, *(_group(name) for name in BUILTIN_GROUPS if builtin_tools([name]))])


def _group(name: str) -> str:
    tools = builtin_tools([name])
    lines = [f"## {name}", "", "| tool | effect | time | marks |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{tool.name}` | {tool.effect} | {_time(tool)} | {_marks(tool)} |" for tool in tools
    ]
    return "\n".join([*lines, "", *map(_tool, tools)])


def _time(tool: Tool) -> str:
    return "no limit" if tool.timeout_s is None else f"{tool.timeout_s:g} s"


def _marks(tool: Tool) -> str:
    marks = {
        "approval": tool.requires_approval is True,
        "approval by arguments": callable(tool.requires_approval),
        "preview": tool.preview is not None or tool.dry_run,
        "business key": tool.key is not None,
        "untrusted": tool.untrusted,
        "outbound": tool.outbound,
    }
    return ", ".join(mark for mark, holds in marks.items() if holds)


def _tool(tool: Tool) -> str:
    lines = [f"### {tool.name}", "", tool.description.strip(), ""]
    properties = as_object(tool.parameters.get("properties")) or {}
    if properties:
        lines += ["| argument | type | default | |", "| --- | --- | --- | --- |"]
    required = as_list(tool.parameters.get("required"))
    for name, schema in properties.items():
        body = as_object(schema) or {}
        default = "required" if name in required else _default(body)
        text = str(body.get("description", "")).replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `{name}` | {_kind(body)} | {default} | {text} |")
    return "\n".join([*lines, ""] if properties else lines)


def _default(body: dict[str, object]) -> str:
    return f"`{dumps(body['default'])}`" if "default" in body else ""


def _kind(body: dict[str, object]) -> str:
    if "enum" in body:
        return ", ".join(f"`{member}`" for member in as_list(body["enum"]))
    if "anyOf" in body:
        kinds = [_kind(as_object(item) or {}) for item in as_list(body["anyOf"])]
        return " or ".join(dict.fromkeys(kinds))
    kind = str(body.get("type", "any" if "$ref" not in body else "object"))
    return f"{kind} ({body['format']})" if "format" in body else kind


def main() -> int:
    """Write, or compare; the exit code."""
    if sys.argv[1:] == ["write"]:
        TARGET.write_text(reference(), encoding="utf-8")
        return 0
    if sys.argv[1:] == ["check"]:
        if TARGET.read_text(encoding="utf-8") == reference():
            return 0
        print(
            f"{TARGET} is not what the tools are; run `python {sys.argv[0]} write`", file=sys.stderr
        )
        return 1
    print("usage: tools_reference.py write|check", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
