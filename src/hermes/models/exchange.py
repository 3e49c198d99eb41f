"""Requests and replies as plain JSON, to be told apart and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from pydantic import TypeAdapter, ValidationError

from hermes.core import json
from hermes.core.chat import AssistantMessage, ChatMessage, ToolMessage, UserMessage
from hermes.errors import CodecError

from .base import ModelReply, ModelRequest


def request_form(model: str, request: ModelRequest) -> dict[str, object]:
    """All of a request that a provider is sent; pictures by their digest.

    Args:
        model: Its name.
        request: Without the variable pool, which is never sent.
    """
    return {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ],
        "output_schema": request.output_schema,
        "max_output_tokens": request.max_output_tokens,
        "may_finish": request.may_finish,
    }


def digest_of(form: Mapping[str, object]) -> str:
    """The name of a request: 32 hex digits, whatever the order of its keys."""
    return json.digest(form, length=32)


def reply_form(reply: ModelReply) -> dict[str, object]:
    """A reply as plain JSON; what is at its default is left out.

    Raises:
        CodecError: Something in it is not plain JSON.
    """
    form: object = _replies().dump_python(reply, mode="json", exclude_defaults=True)
    return json.as_object(form) or {}


def read_reply(form: object) -> ModelReply:
    """A reply out of its form.

    Raises:
        CodecError: It is none.
    """
    try:
        return _replies().validate_python(form)
    except ValidationError as exc:
        raise CodecError(f"no reply of a model: {exc.errors()[0]['msg']}") from exc


@cache
def _replies() -> TypeAdapter[ModelReply]:
    return TypeAdapter(ModelReply)


def _message(message: ChatMessage) -> dict[str, object]:
    form: dict[str, object] = {"kind": message.kind, "text": message.text}
    match message:
        case UserMessage() if message.images:
            form["images"] = [
                f"{image.media_type} {hashlib.sha256(image.data).hexdigest()}"
                for image in message.images
            ]
        case AssistantMessage():
            form["calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in message.calls
            ]
            form["reasoning"], form["opaque"] = message.reasoning, message.opaque
        case ToolMessage():
            form |= {
                "call_id": message.call_id,
                "name": message.name,
                "is_error": message.is_error,
            }
        case _:
            pass
    return form
