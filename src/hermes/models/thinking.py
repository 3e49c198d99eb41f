"""Reasoning that a model writes at the head of its answer."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"


def after_thinking(text: str) -> tuple[str, str]:
    """The reasoning and the answer of a text whose reasoning has no opening tag.

    Some chat templates (those of DeepSeek R1, QwQ and Qwen3) write the tag into the prompt, so that
    the reply has the closing one alone, on a line of its own.
    """
    reasoning, closing, answer = text.partition(f"\n{_CLOSE}\n")
    if not closing or _OPEN in reasoning:
        return "", text
    return reasoning, answer.lstrip()


class ThinkSplitter:
    """Separates `<think>…</think>` at the head of a text from the answer after it.

    The text may be cut anywhere. White space before and after the tags belongs to neither side; a
    block that is never closed is reasoning to its end.
    """

    def __init__(self) -> None:
        self._state: Literal["head", "thinking", "gap", "answer"] = "head"
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """The reasoning and the answer that are certain after `text`."""
        if self._state == "answer":
            return "", text
        if self._state == "head":
            self._held += text
            begun = self._held.lstrip()
            if begun.startswith(_OPEN):
                self._state, self._held = "thinking", ""
                text = begun.removeprefix(_OPEN)
            elif _OPEN.startswith(begun):
                return "", ""
            else:
                self._state = "answer"
                return "", self._held
        if self._state == "gap":
            return "", self._after_gap(text)
        return self._think(text)

    def close(self) -> tuple[str, str]:
        """What was held back, as reasoning and answer."""
        held, self._held = self._held, ""
        match self._state:
            case "head":
                return "", held
            case "thinking":
                return held, ""
            case "gap" | "answer":
                return "", ""

    def _think(self, text: str) -> tuple[str, str]:
        text = self._held + text
        reasoning, closing, rest = text.partition(_CLOSE)
        if closing:
            self._state, self._held = "gap", ""
            return reasoning, self._after_gap(rest)
        keep = max(
            (size for size in range(1, len(_CLOSE)) if text.endswith(_CLOSE[:size])), default=0
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], ""

    def _after_gap(self, text: str) -> str:
        text = text.lstrip()
        if text:
            self._state = "answer"
        return text
