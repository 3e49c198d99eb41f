"""One canonical message as chat completions servers read it."""

from __future__ import annotations

from base64 import b64encode
from typing import assert_never

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes.errors import CodecError, ModelError
from hermes.models.profiles import Profile
from hermes.models.surrogates import mend_all

DIALECT = "openai"
"""Where a message's `opaque` has what is meant for servers of this kind."""

HOST = "host"
DETAILS = "reasoning_details"
EXTRAS = "extra_content"


class Encoder:
    """Encodes messages for one model; `mending` has made their contents such as any reader takes.

    Args:
        profile: What the model reads, and what its server wants back.
        host: Of the server.
    """

    def __init__(self, profile: Profile, *, host: str) -> None:
        self._profile, self._host = profile, host
        plain = profile.images is False and profile.reasoning_back == "never"
        # What one server is sent, another may refuse.
        self.key = DIALECT if plain and not host else f"{DIALECT} {host} {_traits(profile)}"

    def encode(self, message: ChatMessage) -> bytes:
        """One message as JSON; empty for an assistant that neither said nor asked anything.

        Kimi and others refuse an assistant message without content, so such a one is left out.

        Raises:
            ModelError: It has an image, and the model reads none.
        """
        if isinstance(message, AssistantMessage) and not (message.text or message.calls):
            return b""
        plain = self._render(message)
        try:
            return json.encode(plain)
        except CodecError:
            return json.encode(mend_all(plain))

    def _render(self, message: ChatMessage) -> dict[str, object]:
        match message:
            case SystemMessage():
                return {"role": "system", "content": message.text}
            case UserMessage(images=()):
                return {"role": "user", "content": message.text}
            case UserMessage():
                return {"role": "user", "content": self._parts(message)}
            case AssistantMessage():
                return self._assistant(message)
            case ToolMessage():
                # Some servers refuse an empty result; a model reads this better, too.
                text = message.text or "(empty)"
                return {"role": "tool", "tool_call_id": message.call_id, "content": text}
            case _:
                assert_never(message)

    def _assistant(self, message: AssistantMessage) -> dict[str, object]:
        # null beside calls is what OpenAI itself answers; "" is refused by some.
        content = message.text or None if message.calls else message.text
        found: dict[str, object] = {"role": "assistant", "content": content}
        back = self._profile.reasoning_back
        if back == "always" or (back == "calls" and message.calls):
            found["reasoning_content"] = message.reasoning
        own = json.as_object(message.opaque.get(DIALECT)) or {}
        is_ours = own.get(HOST) == self._host
        if is_ours and (details := own.get(DETAILS)):
            found[DETAILS] = details
        if message.calls:
            extras = json.as_list(own.get(EXTRAS)) if is_ours else []
            found["tool_calls"] = [
                _call(call, extras[place] if len(extras) == len(message.calls) else None)
                for place, call in enumerate(message.calls)
            ]
        return found

    def _parts(self, message: UserMessage) -> list[dict[str, object]]:
        name = self._profile.name
        if not self._profile.images:
            raise ModelError(
                f"model {name!r} is not known to read images, and a message has "
                f"{len(message.images)} of them; nothing was sent",
                code="bad_request",
                hint=f'choose a model that does, or say `images = true` for "{name}" in a profile '
                "(HERMES_MODEL_PROFILES)",
            )
        parts: list[dict[str, object]] = []
        if message.text:
            parts.append({"type": "text", "text": message.text})
        for image in message.images:
            data = b64encode(image.data).decode("ascii")
            url = f"data:{image.media_type};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return parts


def _traits(profile: Profile) -> str:
    return f"{profile.reasoning_back}{' images' if profile.images else ''}"


def _call(call: ToolCall, extra: object) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    found: dict[str, object] = {"id": call.id, "type": "function", "function": function}
    return found if extra is None else {**found, EXTRAS: extra}
