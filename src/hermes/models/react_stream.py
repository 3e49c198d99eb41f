"""The final answer's text out of a JSON object that is still being written."""

from __future__ import annotations

import json
import re

from .base import ModelReply, ReasoningDelta, StreamPart, TextDelta
from .react_read import ACTION, THOUGHT, is_finish, plain_key
from .react_scan import decoded, members

_ANSWER = "finalanswer"
_LONG_CHARS = 2_000
_KEY = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*+)"\s*:\s*(?=\S)', re.DOTALL)
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])",
    re.DOTALL,
)
_HIGH = re.compile(r"\\u[dD][89abAB]")


class AnswerStream:
    """Gives the text of `final_answer` piece by piece, and nothing else of the object.

    Only where `action` came first and says `finish`: an answer beside a call is none. What it is
    not sure of it leaves to `rest`.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_inside = False
        self._is_off = False
        self._is_final = False
        self._field: type[TextDelta] | type[ReasoningDelta] | None = None
        self._said = ""
        self._enough = 0

    def feed(self, text: str) -> list[StreamPart]:
        """What is certain after `text`."""
        if self._is_off:
            return []
        self._held += text
        parts: list[StreamPart] = []
        while self._step(parts):
            pass
        return parts

    def rest(self, reply: ModelReply) -> str:
        """What of the whole reply's text was not given yet."""
        if reply.problem or reply.calls or not reply.text.startswith(self._said):
            return ""
        return reply.text[len(self._said) :]

    def _step(self, parts: list[StreamPart]) -> bool:
        """Take one thing from what is held; False where more text is needed."""
        if self._is_off:
            return False
        if self._field is not None:
            return self._in_text(parts, self._field)
        if not self._is_inside:
            _, brace, after = self._held.partition("{")
            self._held, self._is_inside = after if brace else "", bool(brace)
            return bool(brace)
        return self._member()

    def _member(self) -> bool:
        found = _KEY.match(self._held)
        if found is None:
            # The end of the object, or something that is none; the whole reply says which.
            self._is_off = self._held.strip()[:1] not in ("", '"', ",")
            return False
        name, value = plain_key(found[1]), self._held[found.end() :]
        if value.startswith('"') and (name in THOUGHT or (name == _ANSWER and self._is_final)):
            self._field = ReasoningDelta if name in THOUGHT else TextDelta
            self._held = value[1:]
            return True
        if len(self._held) < self._enough:
            return False
        # One member read on its own: a closing brace or another key shows that it is whole.
        read = members("{" + self._held, 0)
        if read is None or read.problem or not read.items or not read.items[0][2]:
            # A long value is looked at ever more rarely, so that all looks together are linear.
            self._enough = len(self._held) * 5 // 4 if len(self._held) > _LONG_CHARS else 0
            return False
        raw = read.items[0][1]
        if name == _ANSWER:
            self._is_off = True
        elif name in ACTION:
            self._is_final = is_finish(raw)
        self._held, self._enough = value[len(raw) :], 0
        return True

    def _in_text(self, parts: list[StreamPart], field: type[TextDelta | ReasoningDelta]) -> bool:
        """Give what is sure of the string that is open."""
        at, pieces = 0, list[str]()
        while at < len(self._held) and self._held[at] != '"':
            plain = _PLAIN.match(self._held, at)
            token = plain or _ESCAPE.match(self._held, at)
            if token is None or (plain is None and self._may_be_half(token)):
                break
            pieces.append(token[0] if plain else _unescaped(token[0]))
            at = token.end()
        text = "".join(pieces)
        if text:
            parts.append(field(text=text))
            if field is TextDelta:
                self._said += text
        is_over = self._held[at : at + 1] == '"'
        self._held = self._held[at + 1 if is_over else at :]
        if is_over:
            # Whatever follows the answer is left to the reading of the whole.
            self._is_off = field is TextDelta
            self._field = None
        return is_over

    def _may_be_half(self, token: re.Match[str]) -> bool:
        """Whether the other half of a surrogate pair may still come."""
        is_high = len(token[0]) == 6 and _HIGH.match(token[0]) is not None
        return is_high and len(self._held) - token.end() < 6


def _unescaped(escape: str) -> str:
    try:
        return json.loads(f'"{escape}"')
    except ValueError:
        return decoded(f'"{escape}"')
