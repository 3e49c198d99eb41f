"""Older tool results made short: cleaned of what says nothing, cut to head, tail and a handle."""

from __future__ import annotations

import re

from hermes.core.chat import ToolMessage, estimate_tokens, outside_line
from hermes.core.codec import sha256
from hermes.tools.results import HANDLE_CHARS, shorten

# Each part has a bound: what is read here was written by strangers.
_DATA_URL = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})?[;\w=.+-]{0,100};base64,[A-Za-z0-9+/=_-]{40,}"
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_-]*[0-9])[A-Za-z0-9+/_-]{200,}={0,2}")
_URL_TAIL = re.compile(r"(https?://[^\s\"'<>?#]{1,500})[?#][^\s\"'<>)\]]{60,}")
_MIN_RULES_CHARS = 200


def cleaned(text: str, rules: str = "") -> str:
    """A text without encoded binary data, long tails of addresses, and the rules told again.

    Args:
        text: Of a tool; a person's words are never cleaned.
        rules: The system message, which stands above anyway.
    """
    if len(rules) >= _MIN_RULES_CHARS and rules in text:
        text = text.replace(rules, "[the system message above]")
    text = _DATA_URL.sub(lambda found: _left_out(found[0], found[1] or "data"), text)
    text = _BASE64.sub(lambda found: _left_out(found[0], "base64"), text)
    return _URL_TAIL.sub(r"\1?…", text)


def _left_out(text: str, what: str) -> str:
    return f"[{what}, {len(text):,} characters left out]"


def shortened(
    message: ToolMessage,
    over_chars: int,
    *,
    rules: str = "",
    whole: tuple[str, int] | None = None,
) -> tuple[ToolMessage, bytes | None]:
    """An older result as it is sent.

    Args:
        message: The result as it came.
        over_chars: One above this is cut.
        rules: As in `cleaned`.
        whole: Blob and size in characters of the full result, where the message has it cut.

    Returns:
        The same object if nothing has to be left out; and the bytes that its handle opens, where
        they are no blob yet.
    """
    content = message.content
    clean = cleaned(content, rules)
    if len(content) <= over_chars and clean == content:
        return message, None
    raw = None if whole else content.encode("utf-8", "backslashreplace")
    blob, total = whole or (sha256(raw or b""), len(content))
    handle = blob[:HANDLE_CHARS]
    if len(clean) > over_chars:
        text = shorten(clean, over_chars, handle=handle, total=max(total, len(clean)))
    else:
        text = f'{clean}\n[… cleaned; read_more(handle="{handle}") shows the whole …]'
    if len(text) >= len(content):
        return message, None
    if message.origin:
        text = outside_line(message.origin) + text
    return (
        ToolMessage(
            call_id=message.call_id,
            name=message.name,
            text=text,
            is_error=message.is_error,
            origin=message.origin,
        ),
        raw,
    )


def clipped(text: str, tokens: int, *, note: str = "left out") -> str:
    """A text cut in its middle to about so many tokens, estimated; whole if it has no more."""
    has = estimate_tokens(text)
    if has <= tokens:
        return text
    room = max(40, int(len(text) * tokens / has))
    head, tail = room * 2 // 3, room // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters {note} …]\n{text[-tail:]}"
