"""Call ids: the provider's own where they are present and unique, ours otherwise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hermes.core.chat import ToolCall
from hermes.core.ids import call_id


def unique_calls(
    calls: Sequence[ToolCall], path: str, used: Collection[str]
) -> tuple[ToolCall, ...]:
    """The same calls, each with an id that no other call of the conversation has.

    Args:
        calls: As the provider sent them; ids may be empty or repeated.
        path: The turn's path, from which new ids are made, the same at each repeat.
        used: Ids of earlier calls.
    """
    seen: list[str] = [call.id for call in calls]
    return tuple(
        call
        if call.id and seen.count(call.id) == 1 and call.id not in used
        else replace(call, id=call_id(path, number))
        for number, call in enumerate(calls, 1)
    )
