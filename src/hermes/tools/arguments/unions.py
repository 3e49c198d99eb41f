"""Schemas with several forms: which one a value is, and whose faults to tell if it is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.core.json import as_list, as_object
from hermes.tools.schema import ALIASES, Schema, followed

from .exact import Path, kind_of, same, seen
from .examples import in_words
from .fits import Fits
from .shapes import SHAPE_RULES

_BESIDE = frozenset({ALIASES, "description"})
_ONLY_MEMBERS = frozenset({"enum", "const", "type", "title", "description", "default"})


def members_of(node: Schema) -> Sequence[object] | None:
    """All that a closed set allows; None if the schema is none.

    Branches that each name one member, as some generators write an enum, are one too.
    """
    if "enum" in node:
        return as_list(node["enum"])
    if "const" in node:
        return [node["const"]]
    branches = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
    if not branches or "type" in node or not all(_names_members(item) for item in branches):
        return None
    found: list[object] = []
    for branch in branches:
        inner = as_object(branch) or {}
        found += [inner["const"]] if "const" in inner else as_list(inner["enum"])
    repeats = any(same(one, other) for n, one in enumerate(found) for other in found[:n])
    return None if repeats else found


def _names_members(branch: object) -> bool:
    node = as_object(branch)
    return (
        node is not None and node.keys() <= _ONLY_MEMBERS and bool({"enum", "const"} & node.keys())
    )


def fit_branches(fitter: Fits, node: Schema, keyword: str, value: object, path: Path) -> object:
    """The value as the one form that it fits, first as it is, then with the mildest repairs."""
    branches = [_with_words(node, branch) for branch in as_list(node[keyword])]
    trials: list[tuple[Fits, object]] = []
    for branch in branches:
        trial, fitted = fitter.trial(branch, value, path)
        if keyword == "anyOf" and not trial.problems and not trial.repairs:
            return fitted
        trials.append((trial, fitted))
    fitting = [item for item in trials if not item[0].problems]
    as_it_is = [item for item in fitting if not item[0].repairs]
    if len(as_it_is) == 1:
        return as_it_is[0][1]
    mildest = min((_rank(trial) for trial, _ in fitting), default=0)
    fitting = [item for item in fitting if _rank(item[0]) == mildest]
    if as_it_is or not all(same(fitting[0][1], fitted) for _, fitted in fitting):
        fitter.problem(path, f"{seen(value)} fits more than one of the allowed forms")
    elif fitting:
        fitter.repairs += fitting[0][0].repairs
        return fitting[0][1]
    else:
        _tell_faults(fitter, branches, [trial for trial, _ in trials], value, path)
    return value


def _with_words(node: Schema, branch: object) -> object:
    """A branch with the aliases and the description that stand beside all branches."""
    own = as_object(branch)
    if own is None or ALIASES not in node and "description" not in node:
        return branch
    return {**{name: node[name] for name in _BESIDE if name in node}, **own}


def _rank(trial: Fits) -> int:
    return sum(repair.rule in SHAPE_RULES for repair in trial.repairs)


def _tell_faults(
    fitter: Fits, branches: Sequence[object], trials: Sequence[Fits], value: object, path: Path
) -> None:
    """The nearest form tells most: the one of the same tag, or of the same type."""
    tags = [_tag(fitter.root, branch, value) for branch in branches]
    near = [trial for trial, tag in zip(trials, tags, strict=True) if tag is True]
    if not near and _tells_tags(fitter.root, branches, value, fitter, path):
        return
    if len(near) != 1:
        near = [
            trial
            for trial, branch in zip(trials, branches, strict=True)
            if not _is_other_kind(fitter.root, branch, value)
        ]
    if len(near) == 1:
        fitter.problems += near[0].problems
    else:
        forms = " or ".join(dict.fromkeys(in_words(fitter.root, item) for item in branches))
        fitter.problem(path, f"{seen(value)} is not {forms}")


def _tag(root: Schema, branch: object, value: object) -> bool | None:
    """Whether the value names this branch by a constant property; None if there is none."""
    given = as_object(value)
    found = None
    for name, member in _constants(root, branch).items():
        if given is not None and name in given:
            if not same(given[name], member):
                return False
            found = True
    return found


def _tells_tags(
    root: Schema, branches: Sequence[object], value: object, fitter: Fits, path: Path
) -> bool:
    """Tell which tags there are, if each branch has one of the same name and none was meant."""
    given = as_object(value)
    tables = [_constants(root, branch) for branch in branches]
    if given is None or len(tables) < 2:
        return False
    shared = [name for name in tables[0] if all(name in table for table in tables)]
    if len(shared) != 1:
        return False
    tag = shared[0]
    allowed = ", ".join(json.dumps(table[tag], ensure_ascii=False) for table in tables)
    if tag in given:
        fitter.problem((*path, tag), f"{seen(given[tag])} is not allowed; allowed: {allowed:.600}")
    else:
        fitter.problem((*path, tag), f"is required and missing; allowed: {allowed:.600}")
    return True


def _constants(root: Schema, branch: object) -> Mapping[str, object]:
    node = as_object(branch)
    node = followed(root, node) if node is not None else None
    found: dict[str, object] = {}
    for name, body in (as_object((node or {}).get("properties")) or {}).items():
        inner = as_object(body) or {}
        members = as_list(inner.get("enum"))
        if "const" in inner:
            found[name] = inner["const"]
        elif len(members) == 1:
            found[name] = members[0]
    return found


def _is_other_kind(root: Schema, branch: object, value: object) -> bool:
    node = as_object(branch)
    node = followed(root, node) if node is not None else None
    kind = node.get("type") if node is not None else None
    return isinstance(kind, str) and kind_of(value) != kind
