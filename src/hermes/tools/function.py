"""Functions as tools: `@tool` reads the signature, `@register_tool` takes a JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ParamSpec, Protocol, TypeVar, Unpack, overload

from hermes.core.json import as_list, as_object, digest
from hermes.errors import CodecError, ToolDefinitionError

from .base import (
    ArgumentFault,
    Bind,
    Invoke,
    RunIn,
    Tool,
    ToolContext,
)
from .docstring import read_docstring
from .options import Options, Place, ToolOptions
from .threads import call_in_thread

P = ParamSpec("P")
P2 = ParamSpec("P2")
R = TypeVar("R")
R2 = TypeVar("R2")

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Decorator(Protocol):
    """What `@tool(...)` and `@register_tool(...)` come to."""

    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]:
        """Make a tool from the function."""
        ...


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Decorator: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[P, R] | Decorator:
    """Make a tool from an async or plain function, or from a bound method.

    Its parameters become a JSON Schema by their annotations, with the docstring's `Args:` as
    descriptions. A parameter annotated `ToolContext` gets the context and is not shown. Plain
    functions run in a thread.

    Args:
        function: The function itself, where the decorator stands without parentheses.
        name: 1 to 64 letters, digits, `_` or `-`; the function's own name if not given.
        description: What the model reads; the docstring without `Args:` and `Raises:` if not
            given, the name in words if there is none.
        options: What the tool says of itself; see `ToolOptions`.

    Raises:
        ToolDefinitionError: The function cannot be a tool as it is written.
    """
    made = Options.of(
        options, name=name, description=description, place=Place.of_caller(inspect.currentframe())
    )
    if function is not None:
        return _by_signature(function, made)

    def decorate(function: Callable[P2, R2], /) -> Tool[P2, R2]:
        return _by_signature(function, made)

    return decorate


def register_tool(
    name: str,
    description: str,
    parameters_schema: Mapping[str, object],
    **options: Unpack[ToolOptions],
) -> Decorator:
    """Make a tool from a function and a JSON Schema written by hand.

    The function gets the arguments by name, as plain JSON; a parameter annotated `ToolContext`
    gets the context. An argument that the schema does not list is an error for the model, unless
    the schema says `additionalProperties` itself.

    Args:
        name: 1 to 64 letters, digits, `_` or `-`.
        description: What the model reads.
        parameters_schema: An object schema; `$ref` may point within it only.
        options: As in `tool`.

    Raises:
        ToolDefinitionError: The schema is wrong, or the function does not take its arguments.
    """
    made = Options.of(
        options, name=name, description=description, place=Place.of_caller(inspect.currentframe())
    )

    def decorate(function: Callable[P2, R2], /) -> Tool[P2, R2]:
        return _by_schema(function, parameters_schema, made)

    return decorate


def _by_signature(function: Callable[P, R], options: Options) -> Tool[P, R]:
    # Loaded on need, and with it pydantic: whoever only imports Hermes has no tool yet.
    from .signature import read_signature

    name = _name(function, options.name)
    docs = read_docstring(function.__doc__)
    signature = read_signature(function, tool=name, texts=docs.arguments, names=options.place.names)
    description = docs.description if options.description is None else options.description
    return _made(
        function,
        replace(options, name=name, description=description),
        parameters=signature.schema,
        bind=signature.bind,
        context=signature.context,
        dry_run=signature.dry_run,
    )


def _by_schema(
    function: Callable[P, R], given: Mapping[str, object], options: Options
) -> Tool[P, R]:
    from .signature import DRY_RUN, for_real

    name = _name(function, options.name)
    schema = _own_schema(given, tool=name)
    taken = _taken(function, tool=name, names=options.place.names)
    listed = as_object(schema["properties"]) or {}
    dry_run = DRY_RUN in taken.names or (taken.any_name and DRY_RUN in listed)
    _check_fits(schema, taken, tool=name)
    if dry_run:
        schema, taken = _without(schema, DRY_RUN), taken.without(DRY_RUN)
    bind = _by_name(schema, taken)
    return _made(
        function,
        options,
        parameters=schema,
        bind=for_real(bind) if dry_run else bind,
        context=taken.context,
        dry_run=dry_run,
    )


def _without(schema: Mapping[str, object], name: str) -> dict[str, object]:
    """The schema as a model sees it."""
    properties = {k: v for k, v in (as_object(schema["properties"]) or {}).items() if k != name}
    required = [item for item in as_list(schema.get("required", [])) if item != name]
    rest = {k: v for k, v in schema.items() if k != "required"}
    return {**rest, "properties": properties} | ({"required": required} if required else {})


def _made(
    function: Callable[P, R],
    options: Options,
    *,
    parameters: Mapping[str, object],
    bind: Bind,
    context: tuple[str, ...],
    dry_run: bool = False,
) -> Tool[P, R]:
    name = options.name or ""
    effect = options.settled_effect(name)
    options.check(name, parameters)
    return Tool(
        name=name,
        description=(options.description or "").strip() or name.replace("_", " "),
        parameters=parameters,
        function=function,
        bind=bind,
        invoke=_invoker(function, context, run_in=options.run_in, tool=name),
        effect=effect,
        group=options.group,
        timeout_s=options.timeout_s,
        fingerprint=options.fingerprint(name, parameters, effect),
        origin=options.place.origin,
        reconcile=options.reconcile,
        key=options.business_key(name, parameters),
        key_scope=options.key_scope,
        requires_approval=options.requires_approval,
        preview=options.preview,
        dry_run=dry_run,
        untrusted=options.untrusted_output,
        outbound=options.outbound,
        retries=options.retries,
        concurrency=options.concurrency,
        max_calls=options.max_calls,
        cache_s=options.cache_s,
        health=options.health,
        run_in=options.run_in,
    )


def _name(function: Callable[..., object], given: str | None) -> str:
    name = given if given is not None else getattr(function, "__name__", "")
    if not inspect.isroutine(function):
        raise ToolDefinitionError(
            f"tool {name!r}: {function!r:.80} is not a function",
            hint="make the tool from a function or a bound method",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"tool {name!r}: a generator function has no single result",
            hint="return a list, and tell what is going on by ToolContext.progress",
        )
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"tool {name!r}: a name is 1 to 64 ASCII letters, digits, `_` or `-`",
            hint="give another one by name=",
        )
    return name


def _invoker(
    function: Callable[..., object], context: tuple[str, ...], *, run_in: RunIn, tool: str
) -> Invoke:
    """How the function is run: awaited, in a thread, or in a process; with the context it wants."""
    if run_in == "process":
        from .process_call import process_invoker  # loaded on need: few tools are run so

        return process_invoker(function, context, tool=tool)

    def arguments(bound: Mapping[str, object], given: ToolContext) -> Mapping[str, object]:
        return {**bound, **dict.fromkeys(context, given)} if context else bound

    if inspect.iscoroutinefunction(function):

        async def invoke_async(bound: Mapping[str, object], given: ToolContext) -> object:
            return await function(**arguments(bound, given))

        return invoke_async

    async def invoke_plain(bound: Mapping[str, object], given: ToolContext) -> object:
        call = functools.partial(function, **arguments(bound, given))
        result = await call_in_thread(call, name=given.idempotency_key)
        # A plain function may wrap an async one.
        return await result if inspect.isawaitable(result) else result

    return invoke_plain


def _own_schema(given: Mapping[str, object], *, tool: str) -> dict[str, object]:
    """A copy of the schema, which nobody can change later."""
    try:
        schema: dict[str, object] = {"type": "object", **copy.deepcopy(dict(given))}
        schema.setdefault("properties", {})
        digest(schema)
    except (CodecError, TypeError, ValueError) as exc:
        raise ToolDefinitionError(f"tool {tool!r}: its schema is not plain JSON: {exc}") from exc
    # Loaded on need: it takes longer than the rest of Hermes together.
    from .validation import faults_of_schema

    if schema["type"] != "object":
        raise ToolDefinitionError(
            f"tool {tool!r}: the arguments are an object, but the schema's type is "
            f"{schema['type']!r}"
        )
    if fault := faults_of_schema(schema):
        raise ToolDefinitionError(f"tool {tool!r}: its schema is wrong at {fault}")
    return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What a function takes by name.

    Attributes:
        context: Parameters for the `ToolContext`.
        names: All other parameters.
        needed: Those without a default.
        any_name: Whether it has a `**` parameter.
    """

    context: tuple[str, ...]
    names: frozenset[str]
    needed: frozenset[str]
    any_name: bool

    def without(self, name: str) -> _Taken:
        """The same for a function without that parameter."""
        return replace(self, names=self.names - {name}, needed=self.needed - {name})


def _taken(function: Callable[..., object], *, tool: str, names: Mapping[str, object]) -> _Taken:
    # With pydantic behind it, like `read_signature`.
    from .signature import DRY_RUN, check_dry_run, takes_context, type_hints

    hints = type_hints(function, tool=tool, names=names)
    hints.pop("return", None)
    if DRY_RUN in hints:
        check_dry_run(hints[DRY_RUN], tool=tool)
    context = tuple(name for name, hint in hints.items() if takes_context(hint))
    parameters = inspect.signature(function).parameters.values()
    named = [
        item
        for item in parameters
        if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY) and item.name not in context
    ]
    for item in parameters:
        if item.kind is item.POSITIONAL_ONLY:
            raise ToolDefinitionError(
                f"tool {tool!r}: `{item.name}` is positional-only; arguments come by name"
            )
    return _Taken(
        context=context,
        names=frozenset(item.name for item in named),
        needed=frozenset(item.name for item in named if item.default is item.empty),
        any_name=any(item.kind is item.VAR_KEYWORD for item in parameters),
    )


def _check_fits(schema: Mapping[str, object], taken: _Taken, *, tool: str) -> None:
    listed = (as_object(schema["properties"]) or {}).keys()
    for name in listed - taken.names if not taken.any_name else ():
        raise ToolDefinitionError(
            f"tool {tool!r}: the schema lists {name!r}, which the function does not take"
        )
    for name in taken.needed - listed - {"dry_run"}:
        raise ToolDefinitionError(
            f"tool {tool!r}: the function needs {name!r}, which the schema does not list",
            hint="list it in `properties`, or give the parameter a default",
        )


def _by_name(schema: Mapping[str, object], taken: _Taken) -> Bind:
    """Arguments as they are, with the schema's defaults where Python has none."""
    properties = as_object(schema["properties"]) or {}
    defaults = {
        name: body["default"]
        for name, item in properties.items()
        if (body := as_object(item)) is not None
        and "default" in body
        and (name in taken.needed or name not in taken.names)
    }

    def bind(arguments: Mapping[str, object]) -> dict[str, object]:
        # A copy, since what a tool does to its arguments must not reach the record.
        bound = copy.deepcopy({**defaults, **arguments})
        missing = taken.needed - bound.keys()
        unknown = frozenset[str]() if taken.any_name else bound.keys() - taken.names
        if missing or unknown:
            faults = [f"`{name}` is required and missing" for name in sorted(missing)]
            faults += [f"`{name}` is unknown" for name in sorted(unknown)]
            raise ArgumentFault("; ".join(faults))
        return bound

    return bind
