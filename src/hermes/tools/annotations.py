"""Which parameter types a tool may have, and how pydantic is told of them."""

from __future__ import annotations

import collections.abc
import dataclasses
import operator
import types
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of
from uuid import UUID

import typing_extensions
from pydantic import Field

SUPPORTED = (
    "str, int, float, bool, None, Decimal, datetime, date, time, timedelta, Path, UUID, Literal, "
    "Enum, list, tuple, set and dict of these, Optional and Union, Annotated, pydantic models, "
    "dataclasses, TypedDict, NamedTuple, and object for any JSON value"
)

_SCALARS: frozenset[object] = frozenset(
    {
        *(str, int, float, bool, Decimal, datetime, date, time, timedelta, UUID),
        *(Path, PurePath, PurePosixPath, types.NoneType, None, Any, object),
    }
)
_CONTAINERS: frozenset[object] = frozenset(
    {
        *(list, tuple, set, frozenset, dict),
        *(collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Set),
        *(collections.abc.Mapping, collections.abc.MutableMapping),
    }
)


_REQUIRED_KEYS = cast("Callable[[type], frozenset[str]]", operator.attrgetter("__required_keys__"))


class UnsupportedAnnotation(Exception):
    """A type whose values cannot be written as JSON and read back."""


def readable(annotation: object) -> object:
    """The annotation in the form that pydantic reads on every supported Python.

    Text in `Annotated[int, "how many"]` becomes a description, and `typing.TypedDict` becomes
    the one of `typing_extensions`.

    Raises:
        UnsupportedAnnotation: Some part of it is no type for an argument; its message names it.
        RecursionError: A `typing.TypedDict` in it holds itself.
    """
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return annotation
    if isinstance(annotation, NewType):
        readable(annotation.__supertype__)
        return annotation
    origin = get_origin(annotation)
    if origin is None:
        return _plain_type(annotation)
    if origin is Literal:
        return annotation
    if origin is Annotated:
        base, *extras = get_args(annotation)
        kept = (Field(description=extra) if isinstance(extra, str) else extra for extra in extras)
        return _subscripted(Annotated, (readable(base), *kept))
    form = Union if origin is types.UnionType else origin
    if form is Union or form in _CONTAINERS:
        inner = (item if item is ... else readable(item) for item in get_args(annotation))
        return _subscripted(form, tuple(inner))
    if isinstance(origin, type) and _is_readable_class(cast("type[object]", origin)):
        return annotation
    raise UnsupportedAnnotation(spelled(annotation))


def _plain_type(annotation: object) -> object:
    if isinstance(annotation, collections.abc.Hashable) and (
        annotation in _SCALARS or annotation in _CONTAINERS
    ):
        return annotation
    if typing_extensions.is_typeddict(annotation):
        return _typed_dict(cast("type", annotation))
    if isinstance(annotation, type) and _is_readable_class(cast("type[object]", annotation)):
        return cast("object", annotation)
    raise UnsupportedAnnotation(spelled(annotation))


def _is_readable_class(kind: type[object]) -> bool:
    """Enums, dataclasses, named tuples, and all that tells pydantic itself how to read it."""
    return (
        dataclasses.is_dataclass(kind)
        or hasattr(kind, "__get_pydantic_core_schema__")
        or (hasattr(kind, "_fields") and issubclass(kind, tuple))
        or issubclass(kind, Enum)
    )


def _typed_dict(annotation: type) -> object:
    if type(annotation).__module__ != "typing":
        return annotation
    hints = hints_of(annotation, include_extras=True)
    required = _REQUIRED_KEYS(annotation)
    fields: dict[str, object] = {}
    for name, hint in hints.items():
        while get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired):
            hint = get_args(hint)[0]
        form = typing_extensions.Required if name in required else typing_extensions.NotRequired
        fields[name] = _subscripted(form, readable(hint))
    return typed_dict(annotation.__name__, fields, doc=annotation.__doc__)


def typed_dict(name: str, fields: dict[str, object], *, doc: str | None = None) -> type:
    """A TypedDict made at run time; its fields are `Required[...]` or `NotRequired[...]`."""
    make = cast("Callable[[str, dict[str, object]], type]", typing_extensions.TypedDict)
    made = make(name, fields)
    made.__doc__ = doc
    return made


def _subscripted(form: object, arguments: object) -> object:
    return cast("dict[object, object]", form)[arguments]


def spelled(annotation: object) -> str:
    """An annotation as its author would write it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        own = annotation.__qualname__
        return own if annotation.__module__ == "builtins" else f"{annotation.__module__}.{own}"
    return str(annotation)
