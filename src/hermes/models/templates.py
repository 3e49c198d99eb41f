"""Jinja2 for playbooks: compiled once, strict about names, kept in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar, cast

from jinja2 import StrictUndefined, TemplateError, Undefined, meta, nodes
from jinja2.environment import Template, TemplateExpression
from jinja2.runtime import Context
from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment

from hermes.core import json
from hermes.errors import CodecError, HermesError

_T = TypeVar("_T")

_FAULTS = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    CodecError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class TemplateFault(HermesError):
    """A template cannot be compiled, or cannot be filled with what is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTemplate:
    """A text with `{{ … }}` in it.

    Attributes:
        names: The names it needs.
    """

    source: str
    names: frozenset[str]
    template: Template

    def value(self, names: Mapping[str, object]) -> str:
        """The text, with objects and lists in it as JSON.

        Raises:
            TemplateFault: A name or attribute is missing, or an operation is impossible.
        """
        return _attempt(lambda: self.template.render(names), self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One expression, without braces.

    Attributes:
        names: The names it needs.
    """

    source: str
    names: frozenset[str]
    compiled: TemplateExpression

    def value(self, names: Mapping[str, object]) -> object:
        """The value in plain JSON types.

        Raises:
            TemplateFault: As `TextTemplate.value`; also for a value that is not plain.
        """
        return _attempt(lambda: _plain(self.compiled(names)), self.source)


def expression(source: str) -> Expression:
    """Compile an expression.

    Raises:
        TemplateFault: It is not exactly one.
    """
    parsed = _attempt(lambda: _sandbox().parse("{{ " + source + " }}"), source)
    only = _only_expression(parsed)
    if only is None:
        raise TemplateFault(f"{source!r} is not one expression", hint="write it without braces")
    return _compiled(only, parsed, source)


def template(source: str) -> TextTemplate | Expression:
    """Compile a text; one that is exactly one `{{ expression }}` keeps the value's own type.

    Raises:
        TemplateFault: It is not valid Jinja2.
    """
    parsed = _attempt(lambda: _sandbox().parse(source), source)
    only = _only_expression(parsed)
    if only is not None:
        return _compiled(only, parsed, source)
    return TextTemplate(
        source=source,
        names=_names(parsed, source),
        template=_attempt(lambda: _sandbox().from_string(source), source),
    )


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_shown)
        # The same goal and results give the same answer every time.
        del self.globals["lipsum"], self.filters["random"]
        self.filters["tojson"] = json.dumps

    def getattr(self, obj: object, attribute: str) -> object:
        """An attribute; a key of an object goes before a method of Python's dict.

        Results have keys like `items` or `count`.
        """
        found = json.as_object(obj)
        if found is not None and attribute in found:
            return found[attribute]
        return cast("object", super().getattr(obj, attribute))

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """The result of `*`, `**` or `%`, if it is of a sane size."""
        sides = (left, right)
        if operator == "*" and any(isinstance(side, str | list | tuple) for side in sides):
            size = _size(left) * _size(right)
        elif operator == "**" and all(isinstance(side, int) for side in sides):
            size = _size(left).bit_length() * _size(right)
        elif operator == "%" and isinstance(left, str):
            raise TemplateFault("`%` formatting of a text is switched off", hint="use `~` to join")
        else:
            size = 0
        if size > MAX_RANGE:
            raise TemplateFault(f"`{operator}` would make something of size {size}")
        return cast("object", super().call_binop(context, operator, left, right))


@cache
def _sandbox() -> _Sandbox:
    return _Sandbox()


def _size(value: object) -> int:
    if isinstance(value, str | list | tuple):
        return len(cast("str", value))
    return abs(value) if isinstance(value, int) else 1


def _names(parsed: nodes.Template, source: str) -> frozenset[str]:
    found = _attempt(lambda: meta.find_undeclared_variables(parsed), source)
    return frozenset(found) - _sandbox().globals.keys()


def _only_expression(parsed: nodes.Template) -> nodes.Expr | None:
    match parsed.body:
        case [nodes.Output(nodes=[nodes.Expr() as only])]:
            return None if isinstance(only, nodes.TemplateData) else only
        case _:
            return None


def _compiled(only: nodes.Expr, parsed: nodes.Template, source: str) -> Expression:
    # What `Environment.compile_expression` does, from the tree that is already there.
    names = _names(parsed, source)
    assign = nodes.Assign(nodes.Name("result", "store", lineno=1), only, lineno=1)
    program = nodes.Template([assign], lineno=1)
    program.set_environment(_sandbox())
    compiled = _attempt(lambda: _sandbox().from_string(program), source)
    return Expression(source=source, names=names, compiled=TemplateExpression(compiled, False))


def _attempt(make: Callable[[], _T], source: str) -> _T:
    try:
        return make()
    except _FAULTS as exc:
        hint = "a variable is given with --var NAME=VALUE" if "vars." in source else ""
        raise TemplateFault(f"{source!r}: {exc}", hint=hint) from exc


def _plain(value: object) -> object:
    """A value in plain JSON types: what filters make lazily becomes a list.

    Raises:
        TypeError: It is something else, such as a method that was not called.
    """
    if isinstance(value, Undefined):
        str(value)  # raises the error that names it
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {str(name): _plain(item) for name, item in pairs}
    if isinstance(value, Iterable):
        return [_plain(item) for item in cast("Iterable[object]", value)]
    raise TypeError(f"it gives a {type(value).__name__}, which is no plain value")


def _shown(value: object) -> object:
    """How a value looks within a text."""
    if isinstance(value, str | Undefined):
        return value
    plain = _plain(value)
    return "" if plain is None else json.dumps(plain)
