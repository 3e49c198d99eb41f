"""What a server is asked so that the answer fits a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.core import json
from hermes.models.profiles import Profile

_MAX_DEPTH = 5
_MAX_PROPERTIES = 100
_REFUSED = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
        *("unevaluatedProperties", "unevaluatedItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "uniqueItems", "default"),
    }
)


def response_format(schema: Mapping[str, object], profile: Profile) -> Mapping[str, object] | None:
    """The `response_format` for a schema, or None where the server cannot help with it.

    Args:
        schema: What the answer has to fit.
        profile: Its `json_mode` says what the server can do.
    """
    is_object = schema.get("type") == "object"
    match profile.json_mode:
        case "none":
            return None
        case "object":
            return {"type": "json_object"} if is_object else None
        case "schema":
            form: dict[str, object] = {"name": "answer", "schema": schema}
            if profile.strict_schema:
                if not is_object:
                    return None  # OpenAI takes nothing else at the top
                form["strict"] = is_strict(schema)
            return {"type": "json_schema", "json_schema": form}


def is_strict(schema: Mapping[str, object]) -> bool:
    """Whether OpenAI can promise this schema.

    Each object names all its properties as required and allows no others; some keywords are not
    supported, nor a root that is no object, a deep nesting or very many properties. One that is
    not of that kind would be refused with `strict`, and is a mere hint without.

    Source:
        OpenAI, "Structured model outputs", supported schemas. The bounds are the older, narrower
        ones, which Azure still has.
    """
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    counted = [0]
    return _fits(schema, 1, counted) and counted[0] <= _MAX_PROPERTIES


def _fits(value: object, depth: int, counted: list[int]) -> bool:
    schema = json.as_object(value)
    if schema is None or depth > _MAX_DEPTH or _REFUSED & schema.keys():
        return False
    kinds = schema.get("type")
    if kinds == "object" or "object" in json.as_list(kinds) or "properties" in schema:
        properties = json.as_object(schema.get("properties"))
        if properties is None or schema.get("additionalProperties") is not False:
            return False
        if set(json.as_list(schema.get("required"))) != set(properties):
            return False
        counted[0] += len(properties)
        if not all(_fits(inner, depth + 1, counted) for inner in properties.values()):
            return False
    elif not (_SAYS_WHAT & schema.keys()):
        return False  # anything at all
    inner = [*json.as_list(schema.get("anyOf"))]
    for name in ("$defs", "definitions"):
        inner += (json.as_object(schema.get(name)) or {}).values()
    if kinds == "array" or "array" in json.as_list(kinds):
        inner.append(schema.get("items"))
    return all(_fits(each, depth + 1, counted) for each in inner)


_SAYS_WHAT = frozenset({"type", "anyOf", "$ref", "enum", "const"})
