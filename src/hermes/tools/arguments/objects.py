"""Objects: each value by its key, keys that the tool does not know, keys that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core.json import as_list, as_object
from hermes.core.problems import did_you_mean
from hermes.tools.schema import Schema

from .exact import SEEN_CHARS, Path, joined
from .examples import in_words
from .fits import Fits
from .keys import renamed

_MAX_NAMED = 8


def fit_object(
    fitter: Fits, node: Schema, value: dict[str, object], path: Path, *, closed: bool
) -> dict[str, object]:
    """An object with each value fitted to its property; the same one if nothing changed."""
    properties = as_object(node.get("properties")) or {}
    required = [str(name) for name in as_list(node.get("required"))]
    other = node.get("additionalProperties", not closed)
    if "patternProperties" in node:
        other = True  # jsonschema looks at these keys
    unknown = [name for name in value if name not in properties] if other is False else []
    names = _names(fitter, properties, unknown, value, path)
    fitted: dict[str, object] = {}
    changed = bool(names)
    for name, item in value.items():
        known = names.get(name, name)
        inner = properties.get(known, other)
        if known not in properties and other is False:
            fitted[name] = item
        elif item is None and _left_out(fitter, inner, known, required, properties, path):
            changed = True
        elif fitter.quick.of(inner)(item):
            fitted[known] = item
        else:
            fitted[known] = fitter.fit(inner, item, (*path, name))
            changed = changed or fitted[known] is not item
    missing = [name for name in required if name not in fitted and name not in value]
    _report_keys(fitter, path, properties, [name for name in unknown if name not in names])
    if missing:
        _report_missing(fitter, path, properties, missing)
    return fitted if changed else value


def _names(
    fitter: Fits,
    properties: Mapping[str, object],
    unknown: Sequence[str],
    value: Mapping[str, object],
    path: Path,
) -> dict[str, str]:
    """By unknown key, the property that it surely is, if its value fits there."""
    if not unknown or len(unknown) > _MAX_NAMED:
        return {}
    found = renamed(unknown, properties, value, effect=fitter.effect)
    names: dict[str, str] = {}
    for name, known in found.items():
        trial, _ = fitter.trial(properties[known], value[name], (*path, name))
        if not trial.problems:
            names[name] = known
            fitter.repaired((*path, name), name, known, "key")
    return names


def _left_out(
    fitter: Fits,
    schema: object,
    name: str,
    required: Sequence[str],
    properties: Mapping[str, object],
    path: Path,
) -> bool:
    """Whether a null stands for "not given"; it does where the schema knows no null."""
    if fitter.effect != "read" or name in required or name not in properties:
        return False
    if not fitter.trial(schema, None, (*path, name))[0].problems:
        return False
    fitter.repaired((*path, name), None, "left out", "null_left_out")
    return True


def _report_keys(
    fitter: Fits, path: Path, properties: Mapping[str, object], unknown: Sequence[str]
) -> None:
    for name in unknown[:_MAX_NAMED]:
        hint = did_you_mean(name[:SEEN_CHARS], properties)
        known = f"known: {', '.join(f'`{key}`' for key in properties) or 'none'}"
        fitter.problem((*path, name), f"is unknown; {hint or known:.400}")


def _report_missing(
    fitter: Fits, path: Path, properties: Mapping[str, object], missing: Sequence[str]
) -> None:
    named = missing[:_MAX_NAMED]
    names = ", ".join(f"`{joined((*path, name))}`" for name in named)
    kinds = ", ".join(in_words(fitter.root, properties.get(name, {})) for name in named)
    are = "is" if len(missing) == 1 else "are"
    fitter.add(f"{names} {are} required and missing ({kinds})")
