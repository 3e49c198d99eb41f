"""What a summary may not lose, told from the record: what is done, what is open, the variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hermes.core import json
from hermes.core.chat import AssistantMessage, ChatMessage, ToolMessage
from hermes.errors import CodecError
from hermes.tools.results import HANDLE_CHARS

from .state import RunState

_ITEM_CHARS = 80
_VARIABLE_CHARS = 500
_HANDLES = 20
_NUMBER = re.compile(r"(.*?)(\d{1,12})(\D*)")


def progress(state: RunState, upto: int, *, handles: Sequence[str], room_chars: int) -> str:
    """How the work stands, for a model that is not shown the first messages any more.

    Args:
        state: Of the run.
        upto: How many messages are not shown.
        handles: Blobs of results among them.
        room_chars: About the most that the list of what is done may have.
    """
    parts = [
        "[State of the work, from the record] The request above is the current one and still "
        "open. What follows stands for its first messages, which are not shown any more."
    ]
    if state.earlier or state.others:
        parts.append("Requests before it in this session are over: do not take them up again.")
    parts += _block("Done, not to be done again", _done(state.messages[:upto], room_chars))
    parts += _block("Failed and not succeeded since", _failures(state))
    parts += _block(
        "Outcome unknown; a person decides about it",
        [
            f"{state.started[path].name} ({path})"
            for path in sorted(state.in_doubt)
            if path in state.started
        ],
    )
    parts += _block("Waited for", [item.text for item in state.waiting.values() if item.text])
    parts += _block("Cannot be called for now", list(state.hidden))
    opened = [f'read_more(handle="{blob[:HANDLE_CHARS]}")' for blob in handles[-_HANDLES:]]
    parts += _block("Whole results among those messages, the newest ones", opened)
    return "\n".join(parts)


def variables(values: Mapping[str, object]) -> str:
    """The variables as they are now; a long value by its beginning."""
    lines = [
        f"{name} = {_short(json.dumps(value), _VARIABLE_CHARS)}" for name, value in values.items()
    ]
    return "\n".join(_block("Variables at this moment", lines))


def _block(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"- {line}" for line in lines)] if lines else []


def _failures(state: RunState) -> list[str]:
    return [
        f"{name}, {count} in a row: {_short(state.last_failure.get(name, ''), 200)}"
        for name, count in state.failures.items()
    ]


def _done(messages: Sequence[ChatMessage], room_chars: int) -> list[str]:
    """Each tool with what it was called with where that succeeded."""
    good = {
        item.call_id for item in messages if isinstance(item, ToolMessage) and not item.is_error
    }
    found: dict[str, list[str]] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if call.id in good:
                    found.setdefault(call.name, []).append(_item(call.arguments))
    room = room_chars // max(1, len(found))
    return [
        f"{name}, {len(items)} call{'s' * (len(items) > 1)}: {_listed(items, room)}"
        for name, items in found.items()
    ]


def _item(arguments: str) -> str:
    try:
        table = json.as_object(json.loads(arguments or "{}"))
    except CodecError:
        table = None
    if table is None:
        return _short(arguments, _ITEM_CHARS)
    return _short(", ".join(f"{key}={_value(value)}" for key, value in table.items()), _ITEM_CHARS)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(items: Sequence[str], room_chars: int) -> str:
    """Items in order, neighbours that only count on as a range; the newest, if they are many."""
    runs: list[tuple[str, str, int]] = []  # first item, last item, how many
    for item in items:
        if runs and _counts_on(runs[-1][1], item):
            runs[-1] = runs[-1][0], item, runs[-1][2] + 1
        else:
            runs.append((item, item, 1))
    told: list[str] = []
    left, room = len(items), room_chars
    for first, last, count in reversed(runs):
        text = first if first == last else f"{first} to {last}"
        if told and len(text) + 2 > room:
            break
        told.append(text or "no arguments")
        room -= len(text) + 2
        left -= count
    before = [f"{left} earlier ones"] if left else []
    return "; ".join(before + told[::-1])


def _counts_on(before: str, item: str) -> bool:
    if before == item:
        return True
    old, new = _NUMBER.fullmatch(before), _NUMBER.fullmatch(item)
    if old is None or new is None:
        return False
    return (old[1], old[3]) == (new[1], new[3]) and int(new[2]) == int(old[2]) + 1


def _short(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text):,} characters in all)"
