"""The `reasoning_details` of OpenRouter: reasoning in pieces, some signed or sealed.

They have to go back as they came, or the model behind it cannot go on from what it thought.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes.core import json
from hermes.models.surrogates import mend_all

_GROWING = ("text", "summary", "data")


class DetailReader:
    """Puts the pieces of a stream together: those of one index and kind follow each other."""

    def __init__(self) -> None:
        self._items: list[dict[str, object]] = []

    def feed(self, items: Sequence[object]) -> str:
        """Take the details of one chunk; gives the readable reasoning in them."""
        readable = ""
        for item in items:
            piece = json.as_object(item)
            if piece is None:
                continue
            for name in ("text", "summary"):
                if isinstance(text := piece.get(name), str):
                    readable += text
            self._add(piece)
        return readable

    def close(self) -> list[object]:
        """All of them, to be sent back."""
        return [mend_all(item) for item in self._items]

    def _add(self, piece: dict[str, object]) -> None:
        last = self._items[-1] if self._items else None
        if last is None or not _continues(last, piece):
            self._items.append(dict(piece))
            return
        for name, value in piece.items():
            known = last.get(name)
            if name in _GROWING and isinstance(known, str) and isinstance(value, str):
                last[name] = known + value
            elif value is not None:
                last[name] = value


def _continues(last: dict[str, object], piece: dict[str, object]) -> bool:
    """Whether a piece goes on with the one before; a sealed one is always whole."""
    if "index" not in piece or piece.get("type") == "reasoning.encrypted":
        return False
    same = all(last.get(name) == piece.get(name) for name in ("index", "type"))
    ids = {value for each in (last, piece) if (value := each.get("id")) is not None}
    return same and len(ids) < 2
