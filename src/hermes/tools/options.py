"""What stands in the parentheses of `@tool(...)`, checked when the tool is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from types import FrameType
from typing import Self, TypedDict, get_args

from hermes.core.effects import EFFECTS, Effect, may_repeat
from hermes.core.json import as_object, digest, dumps
from hermes.core.problems import did_you_mean
from hermes.errors import ToolDefinitionError

from .base import (
    DEFAULT_TIMEOUT_S,
    Approval,
    BusinessKey,
    Health,
    KeyScope,
    Preview,
    Reconcile,
    RunIn,
)

_OFFERED = tuple(effect for effect in EFFECTS if effect != "internal")  # that is Hermes' own


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a decorator stands, and the local names that annotations may use there."""

    origin: str = ""
    names: Mapping[str, object] = field(default_factory=dict[str, object])

    @classmethod
    def of_caller(cls, frame: FrameType | None) -> Self:
        """The place that a frame was called from."""
        caller = frame.f_back if frame else None
        if caller is None:
            return cls()
        origin = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        return cls(origin=origin, names=dict(caller.f_locals))


class ToolOptions(TypedDict, total=False):
    """What a tool says of itself, beside its name and description.

    Attributes:
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
        max_calls: How often one task may call it; models are not offered it any more then.
        cache_s: For so long the same call gets the same result, in all tasks of a process; only for
            `read` tools whose result depends on nothing but their arguments.
        health: Says whether the tool can work: true or None if so, false or a text if not. While
            it cannot, models are not offered it.
        run_in: Where a plain function runs: in a `thread`, which nothing can stop, or in a
            `process` of its own, for code that holds the interpreter lock or must end in time.
            The latter takes the function from its module again: it must stand at the top of one,
            and take arguments that can be pickled.
    """

    effect: Effect | None
    group: str
    timeout_s: float | None
    reconcile: Reconcile | None
    key: BusinessKey | str | None
    key_scope: KeyScope
    requires_approval: Approval
    preview: Preview | None
    untrusted_output: bool
    outbound: bool
    retries: int
    concurrency: int | None
    max_calls: int | None
    cache_s: float | None
    health: Health | None
    run_in: RunIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`ToolOptions` with its defaults; `effect` is None where it follows from `reconcile`."""

    name: str | None
    description: str | None
    place: Place
    effect: Effect | None = None
    group: str = ""
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    reconcile: Reconcile | None = None
    key: BusinessKey | str | None = None
    key_scope: KeyScope = "root"
    requires_approval: Approval = False
    preview: Preview | None = None
    untrusted_output: bool = False
    outbound: bool = False
    retries: int = 0
    concurrency: int | None = None
    max_calls: int | None = None
    cache_s: float | None = None
    health: Health | None = None
    run_in: RunIn = "thread"

    @classmethod
    def of(
        cls, given: ToolOptions, *, name: str | None, description: str | None, place: Place
    ) -> Self:
        """The options as given, the rest by default.

        Raises:
            ToolDefinitionError: There is no such option.
        """
        for word in given.keys() - ToolOptions.__annotations__.keys():
            raise ToolDefinitionError(
                f"tool {name or place.origin!r}: there is no option {word!r}",
                hint=did_you_mean(word, ToolOptions.__annotations__)
                or f"options: {', '.join(ToolOptions.__annotations__)}",
            )
        return cls(name=name, description=description, place=place, **given)

    def settled_effect(self, tool: str) -> Effect:
        """The effect class, given or implied.

        Raises:
            ToolDefinitionError: It is unknown, or does not go with `reconcile`.
        """
        effect = self.effect or ("unsafe" if self.reconcile is None else "reconcile")
        if effect not in _OFFERED:
            raise ToolDefinitionError(
                f"tool {tool!r}: effect {effect!r} is none of {', '.join(_OFFERED)}"
            )
        if effect == "reconcile" and self.reconcile is None:
            raise ToolDefinitionError(
                f"tool {tool!r}: effect 'reconcile' needs reconcile=, a function that finds out "
                "whether a call took place",
                hint="give reconcile=, or choose the effect 'unsafe'",
            )
        if effect != "reconcile" and self.reconcile is not None:
            raise ToolDefinitionError(
                f"tool {tool!r}: reconcile= is for the effect 'reconcile', not {effect!r}",
                hint="leave effect= out",
            )
        return effect

    def check(self, tool: str, parameters: Mapping[str, object]) -> None:
        """Refuse values that no tool can have.

        Args:
            tool: Its name.
            parameters: The schema of its arguments.

        Raises:
            ToolDefinitionError: The message names the option.
        """
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ToolDefinitionError(
                f"tool {tool!r}: timeout_s must be more than 0, got {self.timeout_s!r}",
                hint="None is no limit",
            )
        for label, value, known in (
            ("key_scope", self.key_scope, get_args(KeyScope)),
            ("run_in", self.run_in, get_args(RunIn)),
        ):
            if value not in known:
                raise ToolDefinitionError(
                    f"tool {tool!r}: {label} {value!r} is none of {', '.join(known)}"
                )
        if self.retries < 0:
            raise ToolDefinitionError(f"tool {tool!r}: retries must be 0 or more")
        if self.retries and not may_repeat(self.settled_effect(tool)):
            raise ToolDefinitionError(
                f"tool {tool!r}: retries= would repeat a call that may have taken place; its "
                f"effect is {self.settled_effect(tool)!r}",
                hint="only `read` and `idempotent` tools may be called again unasked",
            )
        if self.concurrency is not None and self.concurrency < 1:
            raise ToolDefinitionError(
                f"tool {tool!r}: concurrency must be at least 1", hint="None is no limit"
            )
        if self.max_calls is not None and self.max_calls < 1:
            raise ToolDefinitionError(
                f"tool {tool!r}: max_calls must be at least 1, got {self.max_calls!r}",
                hint="None is no limit",
            )
        if self.cache_s is not None and self.settled_effect(tool) != "read":
            raise ToolDefinitionError(
                f"tool {tool!r}: cache_s= would leave a call out that has an effect; its effect "
                f"is {self.settled_effect(tool)!r}",
                hint="only the results of `read` tools may be given again",
            )
        if self.cache_s is not None and not self.cache_s > 0:
            raise ToolDefinitionError(
                f"tool {tool!r}: cache_s must be above 0, got {self.cache_s!r}",
                hint="None is no cache",
            )
        if callable(self.requires_approval):
            _check_takes(
                self.requires_approval, 1, tool=tool, what="requires_approval", args="(arguments)"
            )
        if self.preview is not None:
            _check_preview(self.preview, tool, parameters)
        if self.health is not None:
            _check_takes(self.health, 0, tool=tool, what="health", args="()")
        if self.reconcile is not None:
            _check_takes(self.reconcile, 2, tool=tool, what="reconcile", args="(key, arguments)")

    def business_key(self, tool: str, parameters: Mapping[str, object]) -> BusinessKey | None:
        """The key as a function; a template is checked against the tool's parameters.

        Raises:
            ToolDefinitionError: The template is no template, or names an unknown parameter.
        """
        if self.key is None:
            return None
        if not isinstance(self.key, str):
            _check_takes(self.key, 1, tool=tool, what="key", args="(arguments)")
            return self.key
        return _by_template(self.key, parameters, tool=tool)

    def fingerprint(self, tool: str, parameters: Mapping[str, object], effect: Effect) -> str:
        """Digest of what a resumed run has to find again."""
        more: list[object] = []
        if self.key is not None:
            more += [self.key if isinstance(self.key, str) else True, self.key_scope]
        if self.requires_approval:
            more.append("approval")
        return digest([tool, parameters, effect, *more])


def _check_takes(
    function: Callable[..., object], count: int, *, tool: str, what: str, args: str
) -> None:
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError) as exc:
        raise ToolDefinitionError(
            f"tool {tool!r}: {what}= must be a function that takes {args}: {exc}"
        ) from exc


def _check_preview(ask: Preview, tool: str, parameters: Mapping[str, object]) -> None:
    """Refuse a preview that needs what the tool does not get."""
    known = list(as_object(parameters.get("properties")) or {})
    try:
        taken = inspect.signature(ask).parameters.values()
    except (TypeError, ValueError) as exc:
        raise ToolDefinitionError(f"tool {tool!r}: preview= must be a function: {exc}") from exc
    for item in taken:
        if item.kind in (item.VAR_KEYWORD, item.VAR_POSITIONAL):
            continue
        if item.kind is item.POSITIONAL_ONLY or (
            item.name not in known and item.default is item.empty
        ):
            raise ToolDefinitionError(
                f"tool {tool!r}: preview= needs {item.name!r}, which is no argument of the tool",
                hint=f"it is called with the tool's own, by name: {', '.join(known) or 'none'}",
            )


def _by_template(template: str, parameters: Mapping[str, object], *, tool: str) -> BusinessKey:
    try:
        parts = [(text, name, spec, how) for text, name, spec, how in Formatter().parse(template)]
    except ValueError as exc:
        raise ToolDefinitionError(f"tool {tool!r}: key={template!r} is no template: {exc}") from exc
    if not template.strip():
        raise ToolDefinitionError(f"tool {tool!r}: key= is empty")
    known = (as_object(parameters.get("properties")) or {}).keys()
    for _, name, spec, how in parts:
        if name is None:
            continue
        if name not in known:
            there = f"its parameters: {', '.join(sorted(known)) or 'none'}"
            raise ToolDefinitionError(
                f"tool {tool!r}: key={template!r} names {name!r}, which is no parameter",
                hint=did_you_mean(name, known) or there,
            )
        if spec or how:
            raise ToolDefinitionError(
                f"tool {tool!r}: key={template!r} may only hold plain names, as {{{name}}}",
                hint="give a function for anything more",
            )

    def key(arguments: Mapping[str, object]) -> str:
        found: list[str] = []
        for text, name, _, _ in parts:
            found.append(text)
            if name is not None:
                value = arguments.get(name)
                found.append(value if isinstance(value, str) else dumps(value))
        return "".join(found)

    return key
