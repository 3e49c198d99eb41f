"""Results of calls that only read, given again for a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from hermes.core.clock import Clock

from .base import ToolResult
from .runner import Prepared

KEPT = 500
"""Results; those not used longest go first."""
KEPT_BYTES = 1_000_000
"""The full text of a result above this is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    at_s: float
    result: ToolResult


class ToolCache:
    """What tools with `cache_s` have read, by tool, its code and the arguments; one a process.

    Args:
        clock: Tells how old a result is.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()

    def get(self, prepared: Prepared) -> ToolResult | None:
        """The result of the same call, if it is still fresh; it says `cached`."""
        cache_s = prepared.tool.cache_s
        kept = None if cache_s is None else self._kept.get(_key(prepared))
        if cache_s is None or kept is None or self._clock.monotonic() - kept.at_s >= cache_s:
            return None
        self._kept.move_to_end(_key(prepared))
        return replace(kept.result, cached=True, duration_s=0.0)

    def put(self, prepared: Prepared, result: ToolResult) -> None:
        """Keep a result, if it is a whole one of a tool that wants it."""
        if prepared.tool.cache_s is None or result.status != "ok" or result.waiting is not None:
            return
        if len(result.full or b"") > KEPT_BYTES:
            return
        self._kept[_key(prepared)] = _Kept(at_s=self._clock.monotonic(), result=result)
        self._kept.move_to_end(_key(prepared))
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _key(prepared: Prepared) -> tuple[str, str, str]:
    return prepared.tool.name, prepared.tool.fingerprint, prepared.fingerprint
