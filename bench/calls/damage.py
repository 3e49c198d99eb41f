"""Ten ways in which models damage the arguments of a call, and calls written as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

from .dataset import Call, Case, JsonObject, Schema

Damaged = tuple[str, JsonObject]
Damage = Callable[[Call, Schema, Random], Damaged | None]
"""The damaged text and the arguments that are meant; None where there is nothing to damage."""


def _dumps(value: object, rng: Random) -> str:
    return json.dumps(value, ensure_ascii=False, indent=rng.choice((None, None, 2)))


def unharmed(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """Strict JSON."""
    return _dumps(call.arguments, rng), call.arguments


def fenced(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """In a fence with prose around it."""
    before = rng.choice(("Here are the arguments:\n\n", "好的，参数如下：\n", "Sure!\n", ""))
    after = rng.choice(("\n\nLet me know if you need more.", "\n以上。", ""))
    fence = rng.choice(("```json\n", "```\n", "~~~\n"))
    return f"{before}{fence}{_dumps(call.arguments, rng)}\n{fence[:3]}{after}", call.arguments


def python_literals(call: Call, _schema: Schema, _rng: Random) -> Damaged | None:
    """Single quotes, True, False and None."""
    return repr(call.arguments), call.arguments


def trailing_commas(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """A comma too many before each closing bracket."""
    if not call.arguments:
        return None
    return _written(call.arguments, rng, comma=","), call.arguments


def _written(value: object, rng: Random, *, comma: str = "", quote: bool = True) -> str:
    if isinstance(value, dict):
        table = cast("JsonObject", value)
        parts = [
            f"{json.dumps(key, ensure_ascii=False) if quote else key}: "
            f"{_written(item, rng, comma=comma, quote=quote)}"
            for key, item in table.items()
        ]
        return f"{{{', '.join(parts)}{comma if parts else ''}}}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        parts = [_written(item, rng, comma=comma, quote=quote) for item in items]
        return f"[{', '.join(parts)}{comma if parts else ''}]"
    return json.dumps(value, ensure_ascii=False)


def truncated(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """Cut off somewhere; what is right is to refuse it, or to guess just what was meant."""
    text = json.dumps(call.arguments, ensure_ascii=False)
    return (text[: rng.randrange(1, len(text))], call.arguments) if len(text) > 2 else None


def numbers_as_text(call: Call, schema: Schema, rng: Random) -> Damaged | None:
    """Numbers and booleans in quotes, where the schema says that they are such."""
    changed = _quoted(schema, call.arguments)
    return None if changed == call.arguments else (_dumps(changed, rng), call.arguments)


def _quoted(schema: Schema, value: object) -> object:
    if isinstance(value, dict):
        properties = cast("dict[str, Schema]", schema.get("properties", {}))
        table = cast("JsonObject", value)
        return {key: _quoted(properties.get(key, {}), item) for key, item in table.items()}
    if isinstance(value, list):
        inner = cast("Schema", schema.get("items", {}))
        return [_quoted(inner, item) for item in cast("list[object]", value)]
    is_scalar = schema.get("type") in ("integer", "number", "boolean")
    return json.dumps(value) if is_scalar and value is not None else value


def enum_case(call: Call, schema: Schema, rng: Random) -> Damaged | None:
    """Enum members in another case, with spaces around them."""
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    changed = dict(call.arguments)
    for key, value in call.arguments.items():
        members = cast("list[object]", properties.get(key, {}).get("enum", []))
        if isinstance(value, str) and value in members:
            other = rng.choice((value.upper(), value.title(), f" {value} ", f"{value}\n"))
            changed[key] = value if other in members else other
    return None if changed == call.arguments else (_dumps(changed, rng), call.arguments)


def encoded_twice(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """The object as a JSON string."""
    return json.dumps(_dumps(call.arguments, rng), ensure_ascii=False), call.arguments


_PATHS = (r"C:\Users\me\report.pdf", r"D:\data\2026\temp.csv", r"C:\new\table.txt", r"\\srv\a\b")


def windows_paths(call: Call, schema: Schema, rng: Random) -> Damaged | None:
    """A Windows path with single backslashes, which makes it no JSON."""
    damaged = _with_path(call, schema, rng)
    return None if damaged is None or _is_json(damaged[0]) else damaged


def hidden_paths(call: Call, schema: Schema, rng: Random) -> Damaged | None:
    r"""The same where it is JSON by chance, as `C:\new`: well-formed JSON must not be touched."""
    damaged = _with_path(call, schema, rng)
    return damaged if damaged is not None and _is_json(damaged[0]) else None


def _with_path(call: Call, schema: Schema, rng: Random) -> Damaged | None:
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    free = [
        key
        for key, value in call.arguments.items()
        if isinstance(value, str) and not {"enum", "format", "pattern"} & properties[key].keys()
    ]
    if not free:
        return None
    meant = {**call.arguments, rng.choice(free): rng.choice(_PATHS)}
    return json.dumps(meant, ensure_ascii=False).replace("\\\\", "\\"), meant


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def bare_keys(call: Call, _schema: Schema, rng: Random) -> Damaged | None:
    """Keys without quotes."""
    return (_written(call.arguments, rng, quote=False), call.arguments) if call.arguments else None


DAMAGES: dict[str, Damage] = {
    "unharmed": unharmed,
    "1 fence and prose": fenced,
    "2 single quotes, Python literals": python_literals,
    "3 trailing commas": trailing_commas,
    "4 cut off": truncated,
    "5 numbers as text": numbers_as_text,
    "6 enum in other case, spaces": enum_case,
    "7 encoded twice": encoded_twice,
    "8 Windows backslashes": windows_paths,
    "  the same, well-formed by chance": hidden_paths,
    "9 keys without quotes": bare_keys,
}


def _json_calls(calls: Sequence[Call]) -> list[JsonObject]:
    return [{"name": call.name, "arguments": call.arguments} for call in calls]


def several(case: Case, rng: Random) -> str:
    """All calls of a case in one text of JSON."""
    items = [json.dumps(item, ensure_ascii=False) for item in _json_calls(case.calls)]
    form = rng.choice(("[{}]", "{}", "```json\n[{}]\n```", "{}"))
    join = ", " if "[" in form else rng.choice(("\n", "\n\n", "; ", " "))
    return form.replace("{}", join.join(items))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _hermes(call: Call) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _qwen(call: Call) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{_plain(value)}\n</parameter>\n"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


def _invoke(call: Call) -> str:
    parameters = "".join(
        f'<parameter name="{key}">{_plain(value)}</parameter>\n'
        for key, value in call.arguments.items()
    )
    block = f'<invoke name="{call.name}">\n{parameters}</invoke>'
    return f"<minimax:tool_call>\n{block}\n</minimax:tool_call>"


def _llama(call: Call) -> str:
    return f"<function={call.name}>{json.dumps(call.arguments, ensure_ascii=False)}</function>"


def _mistral(call: Call) -> str:
    return f"[TOOL_CALLS]{call.name}[ARGS]{json.dumps(call.arguments, ensure_ascii=False)}"


def _deepseek(call: Call) -> str:
    body = json.dumps(call.arguments, ensure_ascii=False)
    return f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{body}<｜tool▁call▁end｜>"


def _glm(call: Call) -> str:
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_plain(value)}</arg_value>\n"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{pairs}</tool_call>"


def _python(call: Call) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


_FORMS = (_hermes, _qwen, _invoke, _llama, _mistral, _deepseek, _glm, _python)
_KEYWORD = re.compile(r"[A-Za-z_]\w*")


def dialect(case: Case, rng: Random) -> str:
    """All calls of a case in the form of one family of models."""
    form = rng.choice(_FORMS)
    texts = [form(call) for call in case.calls]
    if form is not _python:
        return rng.choice(("", "\n")).join(texts)
    if all(_KEYWORD.fullmatch(key) for call in case.calls for key in call.arguments):
        return f"[{', '.join(texts)}]"
    return _hermes(case.calls[0]) if len(case.calls) == 1 else "\n".join(map(_hermes, case.calls))
