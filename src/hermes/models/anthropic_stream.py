"""The bytes of an answer of the Messages API, whole or as they come; no I/O here."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.core import json
from hermes.core.chat import Usage
from hermes.errors import CodecError, ModelError
from hermes.models.anthropic_reply import ReplyReader
from hermes.models.base import ModelReply, StreamPart
from hermes.models.faults import (
    MAX_REPLY_BYTES,
    WHEN_BROKEN,
    Answer,
    Peer,
    is_of_chat,
    message_of,
    other_protocol,
    read_object,
)
from hermes.models.profiles import Prices
from hermes.models.sse import Event
from hermes.models.streamed import StreamReader
from hermes.models.surrogates import read_json

_CODES = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "auth",
    "not_found_error": "unknown_model",
    "request_too_large": "bad_request",
    "invalid_request_error": "bad_request",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
}
_PASSING = ("rate_limit_error", "timeout_error", "overloaded_error", "api_error")


def fault_of(body: Mapping[str, object], peer: Peer, *, code: str) -> ModelError | None:
    """The error that an answer with status 200 carries, or None if it carries none.

    Args:
        body: The JSON object, or one event of a stream.
        peer: Who answered.
        code: Where the error is of a type that is not known.
    """
    error = body.get("error")
    if not error and body.get("type") != "error":
        return None
    kind = (json.as_object(error) or {}).get("type")
    word = kind if isinstance(kind, str) else ""
    return ModelError(
        f"{peer} reported: {message_of(body, peer) or peer.show(json.dumps(error))}",
        code=_CODES.get(word, code),
        retryable=word in _PASSING,
        hint=WHEN_BROKEN if word in _PASSING else "",
    )


def read_whole(
    answer: Answer, peer: Peer, *, prompt: bytes, prices: Prices | None = None
) -> ModelReply:
    """The reply in an answer that was not streamed.

    Args:
        answer: A successful one.
        peer: Who answered.
        prompt: The request body, to estimate tokens from.
        prices: What its tokens cost, if that is known.

    Raises:
        ModelError: It is no reply.
    """
    body = read_object(answer, peer)
    if fault := fault_of(body, peer, code="server"):
        raise fault
    if is_of_chat(body):
        raise other_protocol(peer, is_chat=True)
    if not isinstance(body.get("content"), list):
        raise _no_message(peer)
    reader = ReplyReader(peer)
    reader.begin(body)
    return reader.close(prompt=prompt, prices=prices)


class AnthropicReader(StreamReader):
    """Reads a streamed answer of the Messages API.

    Args:
        peer: As for all.
        kind: As for all.
        prices: What tokens cost, if that is known.
        max_bytes: As for all.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        kind: str = "",
        prices: Prices | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        super().__init__(peer, kind=kind, max_bytes=max_bytes)
        self._reply, self._prices = ReplyReader(peer), prices

    def close(self, *, prompt: bytes) -> list[StreamPart]:
        parts = self._take(self._events.close())
        if not self._reply.is_begun:
            raise _no_message(self._peer)
        if not self.is_done:
            raise self.broken("it ended without message_stop")
        return [*parts, self._reply.close(prompt=prompt, prices=self._prices)]

    @property
    def _text(self) -> str:
        return self._reply.text

    def _usage(self, prompt: bytes) -> Usage | None:
        if not self._reply.is_begun:
            return None
        return self._reply.usage(prompt=prompt, prices=self._prices)

    def _take(self, events: list[Event]) -> list[StreamPart]:
        parts: list[StreamPart] = []
        for event in events:
            if self.is_done:
                break
            parts += self._feed_body(self._read(event))
        return parts

    def _read(self, event: Event) -> Mapping[str, object]:
        shown = self._peer.show(event.data)
        try:
            event.data.decode()
            body = json.as_object(read_json(event.data))
        except UnicodeDecodeError as exc:
            raise self.broken(f"byte {exc.start} of an event is not UTF-8") from exc
        except CodecError as exc:
            if event.is_bare and not self._reply.is_begun:
                hint = "check API_BASE: the Messages API is at API_BASE/v1/messages"
                raise self._no_stream(event, hint=hint) from exc
            raise self.broken(f"an event is {exc.message}: {shown!r}") from exc
        if body is None:
            raise self.broken(f"an event is no JSON object: {shown!r}")
        return body

    def _feed_body(self, body: Mapping[str, object]) -> list[StreamPart]:
        if fault := fault_of(body, self._peer, code="stream"):
            fault.partial_text = self._reply.text
            raise fault
        if is_of_chat(body):
            raise other_protocol(self._peer, is_chat=True)
        index = body.get("index")
        at = index if isinstance(index, int) else -1
        match body.get("type"):
            case "message_start":
                return self._reply.begin(_object(body, "message"))
            case "content_block_start":
                return self._reply.open_block(at, _object(body, "content_block"))
            case "content_block_delta":
                return self._reply.grow_block(at, _object(body, "delta"))
            case "message_delta":
                self._reply.end(_object(body, "delta"), body.get("usage"))
            case "message_stop":
                self.is_done = True
            case "message" if not self._reply.is_begun:
                self.is_done = True
                return self._reply.begin(body)
            case _:
                pass  # ping, content_block_stop, and what is not invented yet
        return []


def _object(body: Mapping[str, object], name: str) -> Mapping[str, object]:
    return json.as_object(body.get(name)) or {}


def _no_message(peer: Peer) -> ModelError:
    return ModelError(
        f"{peer} answered without a message",
        code="bad_reply",
        retryable=True,
        hint="look whether this server speaks the Messages API; `hermes models test` asks it",
    )
