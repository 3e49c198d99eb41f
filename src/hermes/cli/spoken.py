"""A model's text on a terminal, as it comes."""

from __future__ import annotations

from typing import Protocol

from hermes.core import json
from hermes.errors import CodecError

from .output import plain


class Writer(Protocol):
    """Where text goes that does not end in a line."""

    def text(self, text: str, *, dim: bool = False) -> None:
        """Write it now, after what was written before."""
        ...

    def end_text(self) -> None:
        """End the line, if it has begun."""
        ...


class Spoken:
    """Shows replies piece by piece, and knows what was shown.

    Args:
        writer: Of a terminal.
        is_on: Show the text; without it nothing is shown at all.
        with_reasoning: Show reasoning too, dimmed.
    """

    def __init__(self, writer: Writer, *, is_on: bool, with_reasoning: bool) -> None:
        self._writer, self.is_on, self._with_reasoning = writer, is_on, with_reasoning
        self._pieces: list[str] = []
        self._reasons: bool | None = None  # what stands on the line that has begun
        self._held = ""  # half of a line end, maybe

    def begin(self) -> None:
        """Another reply comes."""
        self.pause()
        self._pieces.clear()

    def feed(self, text: str, *, reasoning: bool) -> bool:
        """Show a piece; False if it is not to be seen."""
        if not self.is_on or not text or (reasoning and not self._with_reasoning):
            return False
        if reasoning is not self._reasons:
            self.pause()
            if not reasoning:  # an answer that begins with blank lines begins with its words
                text = text if self._pieces else text.lstrip()
            if not text:
                return True
        self._reasons = reasoning
        if not reasoning:
            self._pieces.append(text)
        self._write(self._held + text, dim=reasoning)
        return True

    def _write(self, text: str, *, dim: bool) -> None:
        """Write what is complete: a carriage return may be the first half of a line end."""
        self._held = "\r" if text.endswith("\r") else ""
        if text := text.removesuffix(self._held):
            self._writer.text(plain(text), dim=dim)

    def pause(self) -> None:
        """Let something else have the next line."""
        if self._reasons is not None:
            if self._held:
                self._writer.text(plain(self._held), dim=self._reasons)
                self._held = ""
            self._writer.end_text()
            self._reasons = None

    @property
    def is_begun(self) -> bool:
        """Whether a part of the present reply is on the screen."""
        return bool(self._pieces)

    def has_shown(self, output: object) -> bool:
        """Whether the last reply was this, all of it; a value that is no text as its JSON."""
        shown = "".join(self._pieces).strip()
        if not shown or isinstance(output, str):
            return bool(shown) and shown == str(output).strip()
        try:
            return json.loads(shown) == output
        except CodecError:
            return False
