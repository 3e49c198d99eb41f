"""Ids and names of calls that a provider allows: the same for the same conversation, each time."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from hermes.core.chat import AssistantMessage, ToolCall

UNKNOWN = "unknown"

_ID_CHARS = 24


class NameRules(Protocol):
    """What ids and names have to be; see `Rules`."""

    @property
    def id_pattern(self) -> str: ...

    @property
    def id_chars(self) -> int: ...

    @property
    def name_pattern(self) -> str: ...

    @property
    def name_chars(self) -> int: ...


class Names:
    """The ids of one conversation, each used once, and names that may stand in a call."""

    def __init__(self, rules: NameRules) -> None:
        self._ids, self._id_chars = re.compile(rules.id_pattern), rules.id_chars
        self._names, self._name_chars = re.compile(rules.name_pattern), rules.name_chars
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        # In the memo of a message that was looked at under these rules.
        self._mark = f"legal {rules.id_pattern} {rules.id_chars} {rules.name_chars}"

    def are_legal(self, message: AssistantMessage) -> bool:
        """Whether the ids and names of a message's calls are legal, each for itself."""
        if self._mark in message.memo:
            return True
        if all(self._is_id(call.id) and self._is_name(call.name) for call in message.calls):
            message.memo[self._mark] = b""
            return True
        return False

    def fit(self, message: AssistantMessage) -> AssistantMessage:
        """The message with ids that are legal and unique; the same object if they are so."""
        calls = tuple(map(self._fit, message.calls))
        if all(fit is call for fit, call in zip(calls, message.calls, strict=True)):
            return message
        return replace(message, calls=calls, memo={})

    def _fit(self, call: ToolCall) -> ToolCall:
        if call.id not in self._used and self._is_id(call.id) and self._is_name(call.name):
            self._used.add(call.id)
            return call
        new = replace(call, id=self._new_id(call.id), name=self._legal_name(call.name))
        self._used.add(new.id)
        return new

    def _new_id(self, known: str) -> str:
        if known not in self._used and self._is_id(known):
            return known
        while True:
            count = self._counts[known] = self._counts.get(known, 0) + 1
            new = _id_of(f"{count} {known}", min(self._id_chars, _ID_CHARS))
            if new not in self._used:
                return new

    def _legal_name(self, name: str) -> str:
        if self._is_name(name):
            return name
        kept = [char if self._names.fullmatch(char) else "_" for char in name]
        return "".join(kept)[: self._name_chars] or UNKNOWN

    def _is_id(self, text: str) -> bool:
        return len(text) <= self._id_chars and self._ids.fullmatch(text) is not None

    def _is_name(self, text: str) -> bool:
        return len(text) <= self._name_chars and self._names.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _id_of(text: str, chars: int) -> str:
    """Small letters and digits, the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest)[:chars].decode().lower()
