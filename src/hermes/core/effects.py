"""What a repeat of a tool call would do to the world."""

from __future__ import annotations

from typing import Literal

Effect = Literal["read", "idempotent", "reconcile", "unsafe", "internal"]
"""`read`: repeatable. `idempotent`: repeatable with the same key. `reconcile`: at most once, and
the tool can find out whether it took place. `unsafe`: at most once unless a person decides.
`internal`: effect and outcome share a commit of the journal."""

EFFECTS: tuple[Effect, ...] = ("read", "idempotent", "reconcile", "unsafe", "internal")


def may_repeat(effect: Effect) -> bool:
    """Whether a call whose outcome is unknown may be made again without asking."""
    return effect not in ("unsafe", "reconcile")


def may_overlap(effect: Effect) -> bool:
    """Whether calls of this class may run beside each other within a turn."""
    return effect in ("read", "idempotent")
