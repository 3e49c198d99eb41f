"""The work of `hermes tools`: which tools there are, and all that is known of one."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from hermes.agents import AgentDefinition, Launch
from hermes.app import Agent, Hermes
from hermes.config import Settings, load_settings
from hermes.core import json as codec
from hermes.core.problems import did_you_mean
from hermes.errors import NotFoundError
from hermes.tools import Tool, ToolRegistry, builtin_tools
from hermes.tools.lint.parameters import walk
from hermes.tools.plugins.brought import Brought

from . import output
from .streams import stdout_kept_clean

_ALLOWED_CHARS = 60
_TEXT_CHARS = 100
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Every tool that can be named here.

    Attributes:
        found: Built-in ones, those of plugins, and those of the agent or the files, in this order.
        own: Of the agent or the files.
        on: What a run would have.
        brought: What plugins bring.
    """

    settings: Settings
    definition: AgentDefinition
    found: Sequence[Tool]
    on: ToolRegistry
    brought: Brought

    @property
    def own(self) -> Sequence[Tool]:
        return self.definition.tools

    def named(self, name: str) -> Tool:
        """The tool of that name, on or not; of several the one that is on, else the first.

        Raises:
            NotFoundError: There is none.
        """
        known = {tool.name: tool for tool in (*reversed(self.found), *self.on)}
        if name not in known:
            there = "`hermes tools` lists them; --tools FILE brings your own"
            raise NotFoundError(
                f"there is no tool {name!r:.80}", hint=did_you_mean(name, known) or there
            )
        return known[name]


@asynccontextmanager
async def opened(agent: Path | None, files: Sequence[Path]) -> AsyncGenerator[Toolbox]:
    """All tools, with the programs of plugins at work; no journal is made."""
    settings = load_settings().settings
    launch = Launch.of(agent=agent, tools=files, playbook=None, model=None, max_steps=None)
    definition = launch.definition()
    async with Hermes("memory://", settings=settings) as app:
        worker = Agent.of(definition)
        brought = await app.plugins(worker)
        on = app.tools(worker)
        own = {tool.name for tool in (*definition.tools, *brought.tools)}
        builtin = builtin_tools(options=settings.builtin)
        yield Toolbox(
            settings=settings,
            definition=definition,
            found=(
                *(tool for tool in builtin if tool.name not in own),
                *brought.tools,
                *definition.tools,
            ),
            on=on,
            brought=brought,
        )


def read(agent: Path | None, files: Sequence[Path]) -> Toolbox:
    """All tools, only to be looked at."""

    async def look() -> Toolbox:
        async with opened(agent, files) as box:
            return box

    with stdout_kept_clean():
        return anyio.run(look)


def list_(agent: Path | None, files: Sequence[Path], *, json: bool) -> None:
    """Print every tool there is, with group and effect, and what a run would have."""
    box = read(agent, files)
    if json:
        shown: dict[str, object] = {"tools": [_short_object(tool, box) for tool in box.found]}
        if box.brought.plugins:
            shown["plugins"] = [plugin.as_record() for plugin in box.brought.plugins]
        output.print_json(shown)
    else:
        rows = [("tool", "group", "effect", "on", "description")]
        rows.extend(
            (
                tool.name,
                tool.group or "-",
                tool.effect,
                "yes" if _is_on(tool, box) else "no",
                output.short(tool.description, 80),
            )
            for tool in box.found
        )
        output.print_text("\n".join(output.table(rows)))


def show(name: str, agent: Path | None, files: Sequence[Path], *, json: bool) -> None:
    """Print all that is known of one tool."""
    box = read(agent, files)
    tool = box.named(name)
    if json:
        output.print_json(_object(tool, box))
        return
    lines = [f"{tool.name}  {tool.effect}", ""]
    for part in tool.description.splitlines():
        lines.extend(textwrap.wrap(part, _WIDTH) or [""])
    lines.extend(["", *_parameters(tool), ""])
    facts = _facts(tool, box)
    width = max(map(len, facts))
    lines.extend(f"{label:<{width}}  {text}" for label, text in facts.items())
    output.print_text("\n".join(lines))


def _is_on(tool: Tool, box: Toolbox) -> bool:
    """Whether a run would have it; a tool of another group may have the same name."""
    found = box.on.get(tool.name)
    return found is not None and found.group == tool.group


def _short_object(tool: Tool, box: Toolbox) -> dict[str, object]:
    plugin = box.brought.plugin_of(tool.name)
    return {
        "name": tool.name,
        "group": tool.group,
        "effect": tool.effect,
        "enabled": _is_on(tool, box),
        "timeout_s": tool.timeout_s,
        "description": tool.description,
        "parameters": tool.parameters,
        "plugin": plugin and {"name": plugin.name, "version": plugin.version},
    }


def _object(tool: Tool, box: Toolbox) -> dict[str, object]:
    return _short_object(tool, box) | {
        "requires_approval": _approval(tool),
        "preview": _preview(tool),
        "health": tool.health is not None,
        "retries": tool.retries,
        "concurrency": tool.concurrency,
        "max_calls": tool.max_calls,
        "business_key": tool.key is not None,
        "key_scope": tool.key_scope if tool.key is not None else None,
        "untrusted_output": tool.untrusted,
        "outbound": tool.outbound,
        "run_in": tool.run_in,
        "origin": _origin(tool, box),
        "fingerprint": tool.fingerprint,
    }


def _facts(tool: Tool, box: Toolbox) -> dict[str, str]:
    facts = {
        "effect": _EFFECTS[tool.effect],
        "group": _group(tool, box),
        "timeout": "none" if tool.timeout_s is None else f"{tool.timeout_s:g} s",
        "approval": _APPROVALS[_approval(tool)],
        "preview": _PREVIEWS[_preview(tool)],
        "health": "a check of its own" if tool.health else "told by its calls",
        "from": _origin(tool, box),
    }
    if tool.retries:
        facts["retries"] = f"{output.count(tool.retries, 'more try').replace('trys', 'tries')}"
    if tool.concurrency is not None:
        facts["at a time"] = output.count(tool.concurrency, "call")
    if tool.max_calls is not None:
        facts["calls"] = f"at most {tool.max_calls} in one task"
    if tool.key is not None:
        facts["key"] = f"a deed is done once, in {_SCOPES[tool.key_scope]}"
    if tool.untrusted:
        facts["output"] = "from outside: not trusted"
    if tool.outbound:
        facts["outbound"] = "may carry data out"
    return facts


_EFFECTS = {
    "read": "read: changes nothing, may be repeated",
    "idempotent": "idempotent: may be repeated with the same key",
    "reconcile": "reconcile: at most once; the tool can find out whether it took place",
    "unsafe": "unsafe: at most once unless a person decides",
    "internal": "internal: changes the task alone",
}
_APPROVALS = {
    "always": "a person decides before each call",
    "by_arguments": "its arguments decide whether a person is asked",
    "never": "not for its own sake",
}
_PREVIEWS = {
    "preview": "says before what a call would do",
    "dry_run": "can make a dry run",
    "none": "none",
}
_SCOPES = {"root": "a task and all below it", "global": "all tasks"}


def _approval(tool: Tool) -> str:
    if callable(tool.requires_approval):
        return "by_arguments"
    return "always" if tool.requires_approval else "never"


def _preview(tool: Tool) -> str:
    if tool.preview is not None:
        return "preview"
    return "dry_run" if tool.dry_run else "none"


def _group(tool: Tool, box: Toolbox) -> str:
    if not tool.group:
        return "none: always on" if tool.name in box.on else "none: off, it is denied"
    if tool.name in box.on:
        return f"{tool.group}: on"
    return f"{tool.group}: off; TOOL_ENABLED_GROUPS switches groups on"


def _origin(tool: Tool, box: Toolbox) -> str:
    plugin = box.brought.plugin_of(tool.name)
    if plugin is not None and all(own is not tool for own in box.own):
        version = f" {plugin.version}" if plugin.version else ""
        return f"{plugin}{version}, {plugin.place}"
    if all(own is not tool for own in box.own):
        return "Hermes"
    return tool.origin or "a tool made by hand"


def _parameters(tool: Tool) -> list[str]:
    rows = [("parameter", "type", "needed", "allowed", "description")]
    rows.extend(
        (path, _type(schema), _needed(schema, is_required), _allowed(schema), _said(schema))
        for path, schema, is_required in walk(tool.parameters)
    )
    return output.table(rows) if len(rows) > 1 else ["it takes no arguments"]


def _said(schema: Mapping[str, object]) -> str:
    return output.short(str(schema.get("description") or "-"), _TEXT_CHARS)


def _type(schema: Mapping[str, object]) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    kinds = codec.as_list(kind) or [
        (codec.as_object(item) or {}).get("type", "?")
        for item in codec.as_list(schema.get("anyOf"))
    ]
    return " or ".join(map(str, kinds)) or "any"


def _needed(schema: Mapping[str, object], is_required: bool) -> str:
    if is_required:
        return "yes"
    return (
        f"no: {output.short(codec.dumps(schema['default']), 20)}" if "default" in schema else "no"
    )


def _allowed(schema: Mapping[str, object]) -> str:
    values = codec.as_list(schema.get("enum"))
    if values:
        return output.short(", ".join(map(codec.dumps, values)), _ALLOWED_CHARS)
    told = [f"{word} {codec.dumps(schema[key])}" for key, word in _BOUNDS.items() if key in schema]
    return output.short(", ".join(told), _ALLOWED_CHARS)


_BOUNDS = {
    "const": "only",
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "below",
    "multipleOf": "in steps of",
    "minLength": "characters from",
    "maxLength": "characters to",
    "minItems": "items from",
    "maxItems": "items to",
    "pattern": "as",
    "format": "as",
}
