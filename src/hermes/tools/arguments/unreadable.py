"""Why a text cannot be read as arguments."""

from __future__ import annotations


class Unreadable(Exception):
    """The text holds no JSON object that could be meant; the message says why, for the model."""


class Hopeless(Unreadable):
    """No repair may be tried: the text was cut off, computes something, or has two readings."""


class RepeatedKey(Exception):
    """An object names a key twice; its argument is the key."""


class BadNumber(Exception):
    """A number that is not JSON, or that no float can hold; its argument is the number."""


def cut_after(chars: int) -> Hopeless:
    """The text ends before its object does."""
    return Hopeless(f"the JSON ends too early, after {chars} characters: it was cut off")
