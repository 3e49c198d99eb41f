"""From a function's signature to a schema for the model and typed objects for the function."""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import UnionType
from typing import NotRequired, Required, Union, cast, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema, to_jsonable_python

from hermes.core.json import as_object, encode
from hermes.errors import CodecError, ToolDefinitionError

from .annotations import SUPPORTED, UnsupportedAnnotation, readable, spelled, typed_dict
from .base import ArgumentFault, Bind, ToolContext
from .schema import plain

DRY_RUN = "dry_run"
_MISSING = inspect.Parameter.empty
_SEEN_CHARS = 60
_MAX_FAULTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function's parameters mean for a tool.

    Attributes:
        schema: JSON Schema of the arguments, without the context.
        bind: As in `Tool`.
        context: Names of the parameters that take the `ToolContext`.
        dry_run: Whether it has a parameter `dry_run`, which is the framework's.
    """

    schema: dict[str, object]
    bind: Bind
    context: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """One argument.

    Attributes:
        annotation: As pydantic reads it.
        default: What Python would use; `_MISSING` if the argument is required.
        fresh: Makes the default anew for each call; None where Python may use the one it has.
    """

    name: str
    annotation: object
    text: str
    default: object = _MISSING
    fresh: Callable[[], object] | None = None

    @property
    def is_required(self) -> bool:
        return self.default is _MISSING


def read_signature(
    function: Callable[..., object],
    *,
    tool: str,
    texts: Mapping[str, str],
    names: Mapping[str, object],
) -> Signature:
    """Read the signature of a tool function.

    Args:
        function: A function or bound method; each parameter is annotated.
        tool: The tool's name, for errors.
        texts: Descriptions by argument name; an annotation's own description is stronger.
        names: What annotations may name besides the function's globals.

    Raises:
        ToolDefinitionError: A parameter has no annotation or one that JSON cannot carry.
    """
    hints = type_hints(function, tool=tool, names=names)
    parameters: list[_Parameter] = []
    context: list[str] = []
    dry_run = False
    for name, parameter in inspect.signature(function).parameters.items():
        _refuse_odd_kinds(parameter, tool=tool)
        if name not in hints:
            raise _no_annotation(parameter, tool=tool)
        if takes_context(hints[name]):
            context.append(name)
        elif name == DRY_RUN:
            check_dry_run(hints[name], tool=tool)
            dry_run = True
        else:
            parameters.append(_read(parameter, hints[name], tool, texts.get(name, "")))
    adapter, schema = _adapter(parameters, tool=tool)
    bind = _binder(adapter, parameters)
    return Signature(
        schema=_described(schema, parameters),
        bind=for_real(bind) if dry_run else bind,
        context=tuple(context),
        dry_run=dry_run,
    )


def check_dry_run(hint: object, *, tool: str) -> None:
    """Refuse a parameter of that name that means something else.

    Raises:
        ToolDefinitionError: It is no bool.
    """
    if hint is not bool and get_args(hint)[:1] != (bool,):
        raise ToolDefinitionError(
            f"tool {tool!r}: `{DRY_RUN}` is given by Hermes and has to be a bool, not "
            f"{spelled(hint)}",
            hint="annotate it `bool`, or give the parameter another name",
        )


def for_real(bind: Bind) -> Bind:
    """The arguments of a call that is no dry run; a model that writes `dry_run` is refused."""

    def bound(arguments: Mapping[str, object]) -> dict[str, object]:
        if DRY_RUN in arguments:
            raise ArgumentFault(f"`{DRY_RUN}` is unknown")
        return {**bind(arguments), DRY_RUN: False}

    return bound


def type_hints(
    function: Callable[..., object], *, tool: str, names: Mapping[str, object]
) -> dict[str, object]:
    """The resolved annotations of a function.

    Raises:
        ToolDefinitionError: A name in them is not known where the function was defined.
    """
    try:
        return typing.get_type_hints(function, localns=names, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as exc:
        raise ToolDefinitionError(
            f"tool {tool!r}: an annotation cannot be resolved: {exc}",
            hint="import the name where the function is defined, not under TYPE_CHECKING",
        ) from exc


def takes_context(annotation: object) -> bool:
    """Whether a parameter is for the `ToolContext`, alone or as an option."""
    if get_origin(annotation) in (Union, UnionType):
        return ToolContext in get_args(annotation)
    return annotation is ToolContext


def _refuse_odd_kinds(parameter: inspect.Parameter, *, tool: str) -> None:
    what = {
        inspect.Parameter.VAR_POSITIONAL: f"`*{parameter.name}` takes any number of arguments",
        inspect.Parameter.VAR_KEYWORD: f"`**{parameter.name}` takes arguments of any name",
        inspect.Parameter.POSITIONAL_ONLY: f"`{parameter.name}` is positional-only",
    }.get(parameter.kind)
    if what:
        raise ToolDefinitionError(
            f"tool {tool!r}: {what}; a model names each argument",
            hint="name each parameter, or use a list or dict parameter",
        )


def _no_annotation(parameter: inspect.Parameter, *, tool: str) -> ToolDefinitionError:
    if parameter.name in ("self", "cls"):
        hint = "make the tool from the bound method: tool(instance.method)"
    else:
        hint = f"supported: {SUPPORTED}"
    return ToolDefinitionError(
        f"tool {tool!r}: parameter {parameter.name!r} has no annotation", hint=hint
    )


def _read(parameter: inspect.Parameter, hint: object, tool: str, text: str) -> _Parameter:
    try:
        annotation = readable(hint)
    except UnsupportedAnnotation as exc:
        raise _unsupported(tool, parameter.name, hint, because=str(exc)) from exc
    except RecursionError as exc:
        because = "a TypedDict that holds itself; take typing_extensions.TypedDict for it"
        raise _unsupported(tool, parameter.name, hint, because=because) from exc
    default: object = parameter.default
    fresh: Callable[[], object] | None = None
    if isinstance(default, FieldInfo):  # `count: int = Field(10, ge=1)`
        annotation = cast("dict[object, object]", typing.Annotated)[annotation, default]
        fresh = partial(default.get_default, call_default_factory=True)
        default = _MISSING if default.is_required() else fresh()
    elif _is_mutable(default):
        fresh = partial(copy.deepcopy, default)
    return _Parameter(
        name=parameter.name, annotation=annotation, text=text, default=default, fresh=fresh
    )


def _is_mutable(default: object) -> bool:
    """Whether calls could change the default for each other; what can be hashed stays as it is."""
    try:
        hash(default)
    except TypeError:
        return True
    return False


def _unsupported(tool: str, name: str, hint: object, *, because: str) -> ToolDefinitionError:
    whole = spelled(hint)
    part = f", because of {because}" if because and because != whole else ""
    return ToolDefinitionError(
        f"tool {tool!r}: parameter {name!r} is annotated as {whole}, which a model cannot "
        f"write{part}",
        hint=f"supported: {SUPPORTED}",
    )


class _Schema(GenerateJsonSchema):
    """Pydantic's schemas, with decimals as text: a JSON number would lose digits on its way."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "decimal"}


def _adapter(
    parameters: list[_Parameter], *, tool: str
) -> tuple[TypeAdapter[dict[str, object]], dict[str, object]]:
    try:
        return _build(parameters)
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, RecursionError) as exc:
        for parameter in parameters:
            _build_alone(parameter, tool)
        raise ToolDefinitionError(f"tool {tool!r}: {_first_line(exc)}") from exc


def _build(
    parameters: list[_Parameter],
) -> tuple[TypeAdapter[dict[str, object]], dict[str, object]]:
    fields: dict[str, object] = {}
    for parameter in parameters:
        form = Required if parameter.is_required else NotRequired
        fields[parameter.name] = cast("dict[object, object]", form)[parameter.annotation]
    arguments = with_config(ConfigDict(extra="forbid"))(typed_dict("Arguments", fields))
    adapter = TypeAdapter(cast("type[dict[str, object]]", arguments))
    return adapter, plain(adapter.json_schema(schema_generator=_Schema))


def _build_alone(parameter: _Parameter, tool: str) -> None:
    try:
        _build([parameter])
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, RecursionError) as exc:
        raise _unsupported(
            tool, parameter.name, parameter.annotation, because=_first_line(exc)
        ) from exc


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]


def _described(schema: dict[str, object], parameters: list[_Parameter]) -> dict[str, object]:
    properties = dict(as_object(schema.get("properties")) or {})
    for parameter in parameters:
        found = dict(as_object(properties[parameter.name]) or {})
        if parameter.text:
            found.setdefault("description", parameter.text)
        if not parameter.is_required and (shown := _shown(parameter.default)) is not None:
            found["default"] = shown
        properties[parameter.name] = found
    return {"type": "object", **schema, "properties": properties}


def _shown(default: object) -> object:
    """A default as the model sees it; None where it says nothing or has no JSON form."""
    try:
        return cast("object", to_jsonable_python(default))
    except PydanticSerializationError:
        return None


def _binder(adapter: TypeAdapter[dict[str, object]], parameters: list[_Parameter]) -> Bind:
    validate = adapter.validator.validate_json
    fresh = {item.name: item.fresh for item in parameters if item.fresh and not item.is_required}

    def bind(arguments: Mapping[str, object]) -> dict[str, object]:
        # From JSON text and strictly: what is no exact value of its type is an error here too.
        try:
            bound: dict[str, object] = validate(encode(arguments), strict=True)
        except ValidationError as exc:
            raise ArgumentFault(_faults(exc)) from exc
        except CodecError as exc:
            raise ArgumentFault(str(exc)) from exc
        for name, make in fresh.items():
            if name not in bound:
                bound[name] = make()
        return bound

    return bind


def _faults(exc: ValidationError) -> str:
    lines: list[str] = []
    for error in exc.errors(include_url=False, include_context=False)[:_MAX_FAULTS]:
        path = ".".join(map(str, error["loc"]))
        got = repr(error["input"])
        shown = got if len(got) <= _SEEN_CHARS else f"{got[: _SEEN_CHARS - 1]}…"
        lines.append(f"`{path}`: {error['msg'][:1].lower()}{error['msg'][1:]}, got {shown}")
    return "; ".join(dict.fromkeys(lines))
