"""Faults of written input, in words: which key, what was seen, what was surely meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

from pydantic import BaseModel, ValidationError


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as "did you mean `max_steps`?", or "" when nothing known is close."""
    import difflib  # loaded for those who were mistaken

    by_fold = {item.casefold(): item for item in known}
    close = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    return f"did you mean `{by_fold[close[0]]}`?" if close else ""


def problems(exc: ValidationError, model: type[BaseModel], *, where: str) -> list[str]:
    """One line for each fault that pydantic found.

    Args:
        exc: What validation raised.
        model: The model that was validated; its fields are what "did you mean" knows.
        where: The file or source, which begins each line.
    """
    return [f"{where}: {_line(error, model)}" for error in exc.errors(include_url=False)]


def _line(error: Mapping[str, object], model: type[BaseModel]) -> str:
    parts = [str(part) for part in cast("Sequence[object]", error["loc"])]
    path = ".".join(parts)
    if error["type"] == "extra_forbidden":
        known = _fields(model, parts[:-1])
        hint = did_you_mean(parts[-1], known) or f"known keys: {', '.join(sorted(known))}"
        return f"unknown key `{path}`; {hint}"
    message = str(error["msg"])
    return f"`{path}`: {message[:1].lower()}{message[1:]}, got {error['input']!r:.80}"


def _fields(model: type[BaseModel], parents: Sequence[str]) -> list[str]:
    for name in parents:
        if name.isdigit():  # a place in a list
            continue
        field = model.model_fields.get(name)
        inner = _section(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _section(annotation: object) -> type[BaseModel] | None:
    """The model in an annotation such as `Limits` or `Limits | None`."""
    for item in (annotation, *get_args(annotation)):
        if isinstance(item, type) and issubclass(item, BaseModel):
            return item
    return None
