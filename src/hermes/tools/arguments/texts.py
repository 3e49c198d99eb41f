"""Text against what a schema says of it: length, pattern, format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.core.effects import Effect
from hermes.tools.schema import Schema

from .exact import seen
from .formats import FORMATS, tidy
from .patterns import too_slow

_KEYWORDS = frozenset({"minLength", "maxLength", "pattern", "format"})


def misfit(node: Schema, text: str) -> str:
    """What about a text breaks the schema, in words for the model; "" if nothing does.

    Raises:
        re.error: The schema's pattern is none.
    """
    low, high = node.get("minLength"), node.get("maxLength")
    if isinstance(low, int | float) and len(text) < low:
        return f"has {len(text)} characters; at least {low} are needed"
    if isinstance(high, int | float) and len(text) > high:
        return f"has {len(text)} characters; at most {high} are allowed"
    form = FORMATS.get(str(node.get("format")))
    if form is not None and not form.is_one(text):
        return f"{seen(text)} is not {form.named}"
    pattern = node.get("pattern")
    if isinstance(pattern, str) and (fault := too_slow(pattern, text)):
        return fault
    if isinstance(pattern, str) and not re.search(pattern, text):
        return f"{seen(text)} does not match the pattern {pattern:.80}"
    return ""


def nearest(node: Schema, text: str, *, effect: Effect) -> tuple[str, str] | None:
    """The text that fits and says the same as one that does not, and the rule; None if none does.

    A text with a line break is kept to the letter.
    """
    if node.keys().isdisjoint(_KEYWORDS) or "\n" in text or "\r" in text:
        return None
    for candidate, rule in _candidates(node, text, effect):
        if candidate != text and not misfit(node, candidate):
            return candidate, rule
    return None


def _candidates(node: Schema, text: str, effect: Effect) -> Iterator[tuple[str, str]]:
    yield text.strip(), "trimmed"
    yield tidy(text), "stray_marks"
    form = FORMATS.get(str(node.get("format")))
    if form is not None:
        yield form.nearest(text, effect), str(node["format"]).replace("-", "_")
