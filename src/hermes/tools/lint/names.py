"""Names against what a tool does, and whether its first words say what that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from hermes.tools.base import Tool
from hermes.tools.preview import has_preview

_Told = tuple[str, Literal["error", "warning"], str, str]

READS = frozenset(
    "get list read find search show fetch count check look lookup describe view query is has "
    "inspect compare measure".split()
)
DESTROYS = frozenset("delete remove drop purge erase destroy truncate wipe uninstall".split())
CHANGES = DESTROYS | frozenset(
    "send post create write append move rename update insert upload pay charge refund publish "
    "cancel kill restart deploy install book order approve reject close assign".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CJK = re.compile("[\u3400-\u9fff]")
_MIN_CHARS, _MIN_CJK = 12, 4


def words_of(name: str) -> list[str]:
    """The words of a name, `getOrderItems` and `get_order_items` alike."""
    return [word.lower() for word in _WORD.findall(name)]


def first_paragraph(description: str) -> str:
    """What a model reads first, on one line."""
    return " ".join(description.strip().partition("\n\n")[0].split())


def what_of(tool: Tool) -> Iterator[_Told]:
    """Whether the description says what the tool does, beyond its name."""
    first = first_paragraph(tool.description)
    if not first or words_of(first) == words_of(tool.name):
        yield (
            "what",
            "error",
            "there is no description: a model has to guess what it does",
            "write a docstring: what it does, what it returns, when to use it and when not",
        )
    elif len(first) < _MIN_CHARS and len(_CJK.findall(first)) < _MIN_CJK:
        yield (
            "what",
            "error",
            f"{first!r} does not say what it does",
            "one whole sentence: what it does to what",
        )


def names_of(tool: Tool) -> Iterator[_Told]:
    """Whether the name contradicts the effect, and whether what destroys can be looked at first."""
    verb = next(iter(words_of(tool.name)), "")
    if verb in READS and tool.effect in ("unsafe", "reconcile"):
        yield (
            "name",
            "error",
            f"`{verb}` says that it only reads, but its effect is {tool.effect!r}",
            'if it changes nothing say effect="read"; otherwise give it a name that tells',
        )
    elif verb in READS and tool.effect == "idempotent":
        yield (
            "name",
            "warning",
            f"`{verb}` says that it only reads, but its effect is 'idempotent'",
            'if it changes nothing say effect="read"; otherwise give it a name that tells',
        )
    elif verb in CHANGES and tool.effect == "read":
        yield (
            "name",
            "error",
            f"`{verb}` says that it changes something, but its effect is 'read': it would be "
            "called again after a crash and beside other calls",
            'say effect="unsafe" or "idempotent", or give it a name that tells that it only reads',
        )
    if verb in DESTROYS and tool.effect != "read":
        if not has_preview(tool) and tool.requires_approval is False:
            yield (
                "preview",
                "warning",
                "it destroys something, and nothing shows before what that would be",
                "give it a parameter `dry_run: bool`, a preview= or requires_approval=True",
            )
