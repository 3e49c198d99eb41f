"""Functions as tools: `@tool` reads the signature, `@register_tool` takes a JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ParamSpec, Protocol, TypeVar, overload

from hermes.core.effects import Effect
from hermes.core.json import as_list, as_object, digest
from hermes.errors import CodecError, ToolDefinitionError

from .base import (
    DEFAULT_TIMEOUT_S,
    Approval,
    ArgumentFault,
    Bind,
    BusinessKey,
    Health,
    Invoke,
    KeyScope,
    Preview,
    Reconcile,
    RunIn,
    Tool,
    ToolContext,
)
from .docstring import read_docstring
from .options import Options, Place
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
    effect: Effect | None = None,
    group: str = "",
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    reconcile: Reconcile | None = None,
    key: BusinessKey | str | None = None,
    key_scope: KeyScope = "root",
    requires_approval: Approval = False,
    preview: Preview | None = None,
    untrusted_output: bool = False,
    outbound: bool = False,
    retries: int = 0,
    concurrency: int | None = None,
    health: Health | None = None,
    run_in: RunIn = "thread",
) -> Decorator: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | None = None,
    group: str = "",
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    reconcile: Reconcile | None = None,
    key: BusinessKey | str | None = None,
    key_scope: KeyScope = "root",
    requires_approval: Approval = False,
    preview: Preview | None = None,
    untrusted_output: bool = False,
    outbound: bool = False,
    retries: int = 0,
    concurrency: int | None = None,
    health: Health | None = None,
    run_in: RunIn = "thread",
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
        effect: What a repeat would do to the world: `read`, `idempotent`, `reconcile` or
            `unsafe`; `unsafe` if neither this nor `reconcile` is given.
        group: Configuration switches a group on and off; "" is always on.
        timeout_s: Seconds that one call may take; None for no limit.
        reconcile: Called as `reconcile(idempotency_key, arguments)` when nobody knows whether a
            call took place: gives its result if it did, `NOT_DONE` if it surely did not, and
            raises if it cannot tell. Async or plain, within the tool's timeout.
        key: What makes two calls the same deed, whatever words they are in: a text with
            parameters in braces, `"{order_id}"`, or a function over the arguments. A deed is done
            once; a second call gets the first one's result.
        key_scope: Where a deed is the same: in the `root` task and all below it, or `global`.
        requires_approval: Whether a person is asked before a call: always, never, or as a function
            of the arguments says.
        preview: Called with the tool's arguments, says what a call would do; the person who
            decides reads it. A parameter `dry_run: bool` of the function itself does the same;
            models do not see it. Either changes nothing.
        untrusted_output: What it gives comes from outside and may hold instructions of others:
            from then on calls that change or send something need a person's leave, unless they
            are on the allow-list.
        outbound: It may carry data out even where it only reads, as any request to the web.
        retries: How often a call is made again after an error that says `retryable`; only for
            `read` and `idempotent` tools.
        concurrency: How many of its calls a process runs at a time.
        health: Says whether the tool can work: true or None if so, false or a text if not. While
            it cannot, models are not offered it.
        run_in: Where a plain function runs: in a `thread`, which nothing can stop, or in a
            `process` of its own, for code that holds the interpreter lock or must end in time.
            The latter takes the function from its module again: it must stand at the top of one,
            and take arguments that can be pickled.

    Raises:
        ToolDefinitionError: The function cannot be a tool as it is written.
    """
    options = Options(
        name=name,
        description=description,
        effect=effect,
        group=group,
        timeout_s=timeout_s,
        reconcile=reconcile,
        key=key,
        key_scope=key_scope,
        requires_approval=requires_approval,
        preview=preview,
        untrusted_output=untrusted_output,
        outbound=outbound,
        retries=retries,
        concurrency=concurrency,
        health=health,
        run_in=run_in,
        place=Place.of_caller(inspect.currentframe()),
    )
    if function is not None:
        return _by_signature(function, options)

    def decorate(function: Callable[P2, R2], /) -> Tool[P2, R2]:
        return _by_signature(function, options)

    return decorate


def register_tool(
    name: str,
    description: str,
    parameters_schema: Mapping[str, object],
    *,
    effect: Effect | None = None,
    group: str = "",
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    reconcile: Reconcile | None = None,
    key: BusinessKey | str | None = None,
    key_scope: KeyScope = "root",
    requires_approval: Approval = False,
    preview: Preview | None = None,
    untrusted_output: bool = False,
    outbound: bool = False,
    retries: int = 0,
    concurrency: int | None = None,
    health: Health | None = None,
    run_in: RunIn = "thread",
) -> Decorator:
    """Make a tool from a function and a JSON Schema written by hand.

    The function gets the arguments by name, as plain JSON; a parameter annotated `ToolContext`
    gets the context. An argument that the schema does not list is an error for the model, unless
    the schema says `additionalProperties` itself.

    Args:
        name: 1 to 64 letters, digits, `_` or `-`.
        description: What the model reads.
        parameters_schema: An object schema; `$ref` may point within it only.
        effect: As in `tool`, and so are all that follow.
        group: As in `tool`.
        timeout_s: As in `tool`.
        reconcile: As in `tool`.
        key: As in `tool`.
        key_scope: As in `tool`.
        requires_approval: As in `tool`.
        preview: As in `tool`.
        untrusted_output: As in `tool`.
        outbound: As in `tool`.
        retries: As in `tool`.
        concurrency: As in `tool`.
        health: As in `tool`.
        run_in: As in `tool`.

    Raises:
        ToolDefinitionError: The schema is wrong, or the function does not take its arguments.
    """
    options = Options(
        name=name,
        description=description,
        effect=effect,
        group=group,
        timeout_s=timeout_s,
        reconcile=reconcile,
        key=key,
        key_scope=key_scope,
        requires_approval=requires_approval,
        preview=preview,
        untrusted_output=untrusted_output,
        outbound=outbound,
        retries=retries,
        concurrency=concurrency,
        health=health,
        run_in=run_in,
        place=Place.of_caller(inspect.currentframe()),
    )

    def decorate(function: Callable[P2, R2], /) -> Tool[P2, R2]:
        return _by_schema(function, parameters_schema, options)

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
