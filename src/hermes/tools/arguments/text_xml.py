"""Calls whose parameters stand in tags of their own; their values are bare texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from hermes.core.json import as_list, as_object
from hermes.tools.schema import Schema, followed

from .text_json import Broken, Names, WrittenCall
from .text_marks import CLOSE
from .text_python import spelled

_DSML = r"(?:[|｜]DSML[|｜])?"
_TAG = (
    r"(?:=[ \t]*[\"']?(?P<a>[^<>\"'\n]{1,128}?)[\"']?"
    r"|[ \t]{1,4}name=[\"'](?P<b>[^<>\"'\n]{1,128})[\"'])"
    r"(?:[ \t][^<>\n]{0,80})?>"
)
BLOCK = re.compile(rf"<{_DSML}(?P<tag>function|invoke){_TAG}\s*")
BLOCK_END = re.compile(rf"\s*</{_DSML}(?:function|invoke)>")
_PARAMETER = re.compile(rf"\s*<{_DSML}(?:parameter|param){_TAG}")
_PARAMETER_END = re.compile(
    rf"</{_DSML}(?:parameter|param)>(?=\s*(?:<{_DSML}(?:parameter|param)[=\s]"
    rf"|</{_DSML}(?:function|invoke|tool_call)|\Z))"
)
_PAIR = re.compile(r"\s*<arg_key>\s*(?P<a>[^<>]{1,128}?)\s*</arg_key>\s*<arg_value>")
_PAIR_END = re.compile(r"</arg_value>(?=\s*(?:<arg_key>|</tool_call|\Z))")
_MAX_HOPS = 8


class Tagged:
    """Reads the parameters of calls to some tools."""

    def __init__(self, text: str, names: Names) -> None:
        self._text, self._names = text, names

    def parameters(self, name: str, at: int, tag: str) -> tuple[WrittenCall, int]:
        """`<parameter=key>value</parameter>` to the end of the block, and where that is.

        Raises:
            Broken: A value or the block does not end, so that something may be missing.
        """
        entries: list[tuple[str, str]] = []
        while opening := _PARAMETER.match(self._text, at):
            key = (opening["a"] or opening["b"]).strip()
            value, at = self._value(key, opening.end(), _PARAMETER_END)
            entries.append((key, _unframed(value)))
        end = BLOCK_END.match(self._text, at) or CLOSE.match(self._text, at)
        if end is None:
            raise Broken(f"the call to `{name}` does not end with `</{tag}>`")
        return self._call(name, entries), end.end()

    def pairs(self, name: str, at: int) -> tuple[WrittenCall, int]:
        """`<arg_key>key</arg_key><arg_value>value</arg_value>`, and where the last one ends.

        Raises:
            Broken: As `parameters`.
        """
        entries: list[tuple[str, str]] = []
        while opening := _PAIR.match(self._text, at):
            value, at = self._value(opening["a"], opening.end(), _PAIR_END)
            entries.append((opening["a"], value))
        if CLOSE.match(self._text, at) is None:
            raise Broken(f"the call to `{name}` does not end with `</tool_call>`")
        return self._call(name, entries), at

    def _value(self, key: str, at: int, ending: re.Pattern[str]) -> tuple[str, int]:
        closing = ending.search(self._text, at)
        if closing is None:
            raise Broken(f"the value of `{key}` does not end: it was cut off, or a tag is open")
        return self._text[at : closing.start()], closing.end()

    def _call(self, name: str, entries: Sequence[tuple[str, str]]) -> WrittenCall:
        schema = self._names.tools[name]
        properties: Mapping[str, object] = as_object(schema.get("properties")) or {}
        parts = [
            f"{spelled(key)}: {_as_json(schema, properties.get(key), value)}"
            for key, value in entries
        ]
        return WrittenCall(name=name, raw=f"{{{', '.join(parts)}}}")


def _unframed(value: str) -> str:
    """Without the one line break that the dialect puts on either side of a value."""
    line_break = "\r\n" if value.startswith("\r\n") else "\n"
    return value.removeprefix(line_break).removesuffix(line_break)


def _as_json(root: Schema, schema: object, value: str) -> str:
    """A bare text: the JSON that it is where the schema takes no text, else a JSON string."""
    if _takes_text(root, schema):
        return spelled(value)
    plain = value.strip()
    try:
        json.loads(plain)
    except (ValueError, RecursionError):
        return spelled(plain)
    return plain


def _takes_text(root: Schema, schema: object, hops: int = _MAX_HOPS) -> bool:
    node = as_object(schema)
    node = followed(root, node) if node is not None else None
    if node is None or hops == 0:
        return True
    branches = [*as_list(node.get("anyOf")), *as_list(node.get("oneOf"))]
    if branches:
        return any(_takes_text(root, item, hops - 1) for item in branches)
    if "enum" in node or "const" in node:
        members = as_list(node["enum"]) if "enum" in node else [node["const"]]
        return any(isinstance(item, str) for item in members)
    kinds = node.get("type")
    if kinds is None:
        return "properties" not in node and "items" not in node
    return kinds == "string" or "string" in as_list(kinds)
