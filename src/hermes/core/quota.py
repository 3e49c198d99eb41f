"""The rate at which a provider may be asked, shared by all who use the same key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a provider allows; None means no bound.

    Attributes:
        requests: A minute.
        tokens: A minute, in and out.
    """

    requests: float | None = None
    tokens: float | None = None


class Quota(Protocol):
    """Reserves what a request is going to use, and settles what it did use.

    One `key` stands for one account at one provider; it never holds a secret.
    """

    async def reserve(self, key: str, rate: Rate, *, tokens: int) -> float:
        """Take one request and so many tokens.

        Returns:
            Seconds to wait before the request may be sent, 0 or more. It is reserved already:
            whoever comes next waits longer.
        """
        ...

    async def settle(self, key: str, rate: Rate, *, reserved: int, used: int) -> None:
        """Correct the tokens of a reservation by what was used; 0 if nothing was sent."""
        ...

    async def pause(self, key: str, seconds: float) -> None:
        """Let nobody send anything for so long: the provider asked for it."""
        ...
