"""TOML and YAML files whose top is a table of keys: bytes in, plain values out."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from hermes.errors import ConfigError

if TYPE_CHECKING:
    import yaml

    _Construct = Callable[[yaml.SafeLoader, yaml.Node, bool], object]

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_table(raw: bytes, *, name: str) -> dict[str, object]:
    """The table that a file holds.

    Args:
        raw: The file's bytes: UTF-8, with or without a byte order mark.
        name: The file's path, which begins each message. Its suffix decides: `.toml`, `.yaml` or
            `.yml`.

    Raises:
        ConfigError: It is not UTF-8, not TOML or YAML, or no table at its top; says in which line
            and column where that is known.
    """
    suffix = PurePath(name).suffix.lower()
    text = _decode(raw, name)
    match suffix:
        case ".toml":
            value = _parse_toml(text, name)
        case ".yaml" | ".yml":
            value = _parse_yaml(text, name)
        case _:
            raise ConfigError(f"{name}: must end in .toml, .yaml or .yml")
    if not isinstance(value, dict):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        raise ConfigError(f"{name}: must hold a table of keys, got {found}")
    for key in cast("dict[object, object]", value):
        if not isinstance(key, str):
            raise ConfigError(f"{name}: key {key!r:.80} is not a text", hint="put it in quotes")
    return cast("dict[str, object]", value)


def read_yaml(raw: bytes, *, name: str) -> object:
    """What a YAML file holds, or a JSON one, with anything at its top.

    Args:
        raw: The file's bytes: UTF-8, with or without a byte order mark.
        name: The file's path, which begins each message.

    Raises:
        ConfigError: As `read_table`.
    """
    return _parse_yaml(_decode(raw, name), name)


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        is_utf16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
        before = raw[: exc.start].decode("utf-8-sig", "replace")
        raise ConfigError(
            f"{name}{_place(before)}: is {'UTF-16' if is_utf16 else 'not UTF-8'}: "
            f"byte 0x{raw[exc.start]:02x}",
            hint="save it as UTF-8",
        ) from exc


def _parse_toml(text: str, name: str) -> object:
    import tomllib  # loaded on use: most starts read no file

    try:
        return tomllib.loads(text)
    # ValueError: a number of thousands of digits; RecursionError: brackets in brackets.
    except (ValueError, RecursionError) as exc:
        reason, place = str(exc), ""
        if found := _TOML_PLACE.search(reason):
            line, column = found.groups()
            place = f", line {line}, column {column}" if line else _place(text)
            reason = reason[: found.start()]
        raise ConfigError(f"{name}{place}: is not TOML: {reason}") from exc


def _parse_yaml(text: str, name: str) -> object:
    import yaml  # loaded on use: most starts read no file

    try:
        return cast("object", yaml.load(text, _yaml_loader()))  # a `SafeLoader`
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{place}: is not YAML: {exc.problem}") from exc
    except yaml.reader.ReaderError as exc:
        place = _place(text[: exc.position])
        raise ConfigError(
            f"{name}{place}: is not YAML: character U+{ord(text[exc.position]):04X} is not allowed"
        ) from exc
    except RecursionError as exc:
        raise ConfigError(f"{name}: is not YAML: nested too deeply") from exc


@cache
def _yaml_loader() -> type[yaml.SafeLoader]:
    import yaml

    construct = cast("_Construct", yaml.SafeLoader.construct_object)  # has no type of its own

    class Loader(yaml.SafeLoader):
        """Tells the place of a scalar that is not what it looks like, and of a key said twice."""

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[Hashable, object]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                        raise yaml.constructor.ConstructorError(
                            problem=f"key {key.value!r:.80} stands twice",
                            problem_mark=key.start_mark,
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
            try:
                return construct(self, node, deep)
            # The last three come of a tag that does not fit its value, such as `!!int ""`.
            except (ValueError, LookupError, AttributeError, TypeError) as exc:
                raise yaml.constructor.ConstructorError(
                    problem=f"{node.value!r:.80}: {exc}", problem_mark=node.start_mark
                ) from exc

    return Loader


def _place(before: str) -> str:
    """Line and column of what follows this text."""
    line_start = before.rfind("\n") + 1
    return f", line {before.count(chr(10)) + 1}, column {len(before) - line_start + 1}"
