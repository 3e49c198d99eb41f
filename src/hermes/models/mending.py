"""Contents of a message that any provider's reader takes: text, and arguments that are JSON."""

from __future__ import annotations

from dataclasses import replace

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes.errors import CodecError
from hermes.models.surrogates import mend

EMPTY = "(empty)"
NO_CHARACTER = "\ufffd"

FIT = "fit"  # stands in the memo of a message that was looked at and needs no change


def mended(message: ChatMessage) -> ChatMessage | None:
    """The message with contents that no reader refuses; the same object if they are so already.

    Halves of characters and zero bytes become U+FFFD, an empty text says that it is empty, and
    arguments that are no JSON object are wrapped in one.

    Returns:
        None for a message that says nothing: an assistant's with neither text nor calls, which
        Kimi and DeepSeek refuse, or a system's without text.
    """
    if FIT in message.memo:
        return message
    fit = _mended(message)
    if fit is not None:
        fit.memo[FIT] = b""
    return fit


def _mended(message: ChatMessage) -> ChatMessage | None:
    text = whole(message.text)
    match message:
        case SystemMessage():
            if not text.strip():
                return None
        case UserMessage(images=images):
            text = text if text.strip() or images else EMPTY
        case ToolMessage():
            text = text if text.strip() else EMPTY
        case AssistantMessage(calls=calls):
            text = text if text.strip() else ""
            if not (text or calls):
                return None
            fit_calls = tuple(map(_fit_call, calls))
            if any(fit is not call for fit, call in zip(fit_calls, calls, strict=True)):
                return replace(message, text=text, calls=fit_calls, memo={})
    return message if text == message.text else replace(message, text=text, memo={})


def whole(text: str) -> str:
    """The text without halves of characters and zero bytes, which stop many a reader."""
    return mend(text).replace("\x00", NO_CHARACTER)


def _fit_call(call: ToolCall) -> ToolCall:
    arguments = fit_arguments(call.arguments)
    return call if arguments == call.arguments else replace(call, arguments=arguments)


def fit_arguments(text: str) -> str:
    """Arguments as a JSON object in text, whatever the model wrote.

    Servers put past arguments through their own JSON reader and answer 400 where it fails, so
    nothing becomes `{}` and what cannot be read is wrapped.
    """
    if text.strip() in ("", "null"):
        return "{}"
    try:
        found = json.as_object(json.loads(text))
    except CodecError:
        found = None
    if found is None:
        return json.dumps({"_unreadable": whole(text)})
    if "\\u0000" in text:
        return json.dumps(_without_zeros(found))
    return text


def _without_zeros(value: object) -> object:
    if isinstance(value, str):
        return whole(value)
    if items := json.as_list(value):
        return [_without_zeros(item) for item in items]
    found = json.as_object(value)
    if found is None:
        return value
    return {whole(name): _without_zeros(item) for name, item in found.items()}
