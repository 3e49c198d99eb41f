"""What the parts of a fitter ask of the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hermes.core.effects import Effect
from hermes.tools.schema import Schema

from .exact import Path, Repair
from .quick import QuickLooks

Spell = Callable[[Path], str | None]
"""The text of the number at a path, digit for digit; None if it is not known."""


class TooComplex(Exception):
    """Value and schema together would take too long to compare."""


class Enough(Exception):
    """So many problems are known that nobody needs more."""


class Fits(Protocol):
    """Fits values to parts of one schema, as `fitting.Fitter` does.

    Attributes:
        root: The whole schema, where references lead.
        effect: Some repairs are made for `read` tools only.
        spell: How numbers were written.
        quick: Tells of most values at once that they fit.
        repairs: Each change, in order.
        problems: Each misfit, in words for the model; the value fits if there is none.
    """

    root: Schema
    effect: Effect
    spell: Spell
    quick: QuickLooks
    repairs: list[Repair]
    problems: list[str]

    def fit(self, schema: object, value: object, path: Path = ...) -> object:
        """The value in the form that the schema asks for; the same object if nothing changed."""
        ...

    def trial(
        self, schema: object, value: object, path: Path, *, spell: Spell | None = None
    ) -> tuple[Fits, object]:
        """A fitter of its own that has tried a value, and what came of it."""
        ...

    def charge(self, visits: int) -> None:
        """Count work beside looking at values."""
        ...

    def problem(self, path: Path, text: str) -> None:
        """Note a misfit at a place."""
        ...

    def add(self, text: str) -> None:
        """Note a misfit in words of its own."""
        ...

    def repaired(self, path: Path, before: object, after: object, rule: str) -> object:
        """Note a change, and give what the value became."""
        ...
