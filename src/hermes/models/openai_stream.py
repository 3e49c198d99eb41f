"""The bytes of an answer, in one piece or as they come, read into parts; no I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core import json
from hermes.core.chat import Usage
from hermes.errors import CodecError, ModelError
from hermes.models.base import ModelReply, StreamPart
from hermes.models.charges import charge
from hermes.models.faults import (
    MAX_REPLY_BYTES,
    Answer,
    Peer,
    fault_of_body,
    is_of_messages,
    other_protocol,
    read_object,
)
from hermes.models.openai_reply import ReplyReader
from hermes.models.profiles import Prices
from hermes.models.sse import Event
from hermes.models.streamed import StreamReader
from hermes.models.surrogates import read_json

_DONE = b"[DONE]"


def read_whole(
    answer: Answer, peer: Peer, *, prompt: bytes, prices: Prices | None = None
) -> ModelReply:
    """The reply in an answer that was not streamed.

    Args:
        answer: A successful one.
        peer: Who answered.
        prompt: The request body, to estimate tokens from.
        prices: What tokens cost, if that is known.

    Raises:
        ModelError: It is no reply.
    """
    body = read_object(answer, peer)
    if fault := fault_of_body(body, peer, code="server"):
        raise fault
    if is_of_messages(body):
        raise other_protocol(peer, is_chat=False)
    reader = ReplyReader(peer, prices=prices)
    reader.feed(body)
    if not reader.has_choice:
        raise _no_choice(peer)
    try:
        _, reply = reader.close(prompt=prompt)
    except ModelError as exc:  # the provider says that it broke off
        charge(exc, reader.usage(prompt=prompt))
        raise
    return reply


class OpenAIReader(StreamReader):
    """Reads a streamed answer of chat completions.

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
        self._reply = ReplyReader(peer, prices=prices)

    def close(self, *, prompt: bytes) -> list[StreamPart]:
        parts = self._take(self._events.close())
        if not self._reply.has_choice:
            raise _no_choice(self._peer)
        if not (self.is_done or self._reply.is_finished):
            raise self.broken("it ended without a finish reason")
        held_back, reply = self._reply.close(prompt=prompt)
        return [*parts, *held_back, reply]

    @property
    def _text(self) -> str:
        return self._reply.text

    def _usage(self, prompt: bytes) -> Usage | None:
        return self._reply.usage(prompt=prompt) if self._reply.has_choice else None

    def _take(self, events: list[Event]) -> list[StreamPart]:
        parts: list[StreamPart] = []
        for event in events:
            if self.is_done:
                break
            if event.data.strip() == _DONE:
                self.is_done = True
            else:
                for body in self._read(event):
                    parts += self._feed_body(body)
        return parts

    def _read(self, event: Event) -> Sequence[Mapping[str, object]]:
        try:
            values = [read_json(event.data)]
        except CodecError as exc:
            values = self._read_lines(event, exc)
        found = [body for value in values if (body := json.as_object(value)) is not None]
        if len(found) != len(values):
            raise self.broken(f"a chunk is no JSON object: {self._peer.show(event.data)!r}")
        return found

    def _read_lines(self, event: Event, exc: CodecError) -> list[object]:
        """The values of an event whose lines are JSON each: its blank lines were lost."""
        lines = event.data.splitlines()
        try:
            values = [read_json(line) for line in lines if line != _DONE]
        except CodecError:
            pass
        else:
            self.is_done = _DONE in lines
            return values
        if event.is_bare and not self._reply.has_choice:
            hint = "check API_BASE: for most servers it ends in /v1"
            raise self._no_stream(event, hint=hint) from exc
        try:
            event.data.decode()
        except UnicodeDecodeError as wrong:
            raise self.broken(f"byte {wrong.start} of a chunk is not UTF-8") from exc
        raise self.broken(f"a chunk is {exc.message}: {self._peer.show(event.data)!r}") from exc

    def _feed_body(self, body: Mapping[str, object]) -> list[StreamPart]:
        try:
            if is_of_messages(body):  # its `message` would be taken for the words of an error
                raise other_protocol(self._peer, is_chat=False)
            if fault := fault_of_body(body, self._peer, code="stream"):
                raise fault
            return self._reply.feed(body)
        except ModelError as exc:
            exc.partial_text = self._reply.text
            raise


def _no_choice(peer: Peer) -> ModelError:
    return ModelError(
        f"{peer} answered without any choice",
        code="bad_reply",
        retryable=True,
        hint="look whether this server speaks chat completions; `hermes models test` asks it",
    )
