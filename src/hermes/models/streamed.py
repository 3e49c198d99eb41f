"""Reading a streamed answer in any dialect: bounded, and with what came kept in errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager

from hermes.core.chat import Usage
from hermes.errors import ModelError
from hermes.models.base import ModelReply, StreamPart
from hermes.models.charges import charge
from hermes.models.faults import MAX_REPLY_BYTES, Answer, Peer
from hermes.models.http import Connection
from hermes.models.sse import Event, EventReader

_STREAM_TYPE = "text/event-stream"


class StreamReader(ABC):
    """Reads a streamed answer, whatever the server made of it; no I/O here.

    A server that ignores `stream` and answers in one piece is read just as well.

    Args:
        peer: Who answers.
        kind: The content type, for messages.
        max_bytes: Where a stream that does not end is given up.

    Attributes:
        is_done: The server has said that nothing more comes.
    """

    def __init__(self, peer: Peer, *, kind: str = "", max_bytes: int = MAX_REPLY_BYTES) -> None:
        self._peer, self._kind, self._max_bytes = peer, kind, max_bytes
        self._events = EventReader()
        self._size = 0
        self.is_done = False

    def feed(self, chunk: bytes) -> list[StreamPart]:
        """The parts that `chunk` completes.

        Raises:
            ModelError: The stream reports an error or cannot be read.
        """
        self._size += len(chunk)
        if self._size > self._max_bytes:
            raise self.broken(f"it is over {self._max_bytes // 2**20} MiB")
        return self._take(self._events.feed(chunk))

    @abstractmethod
    def close(self, *, prompt: bytes) -> list[StreamPart]:
        """What the end of the stream completes; the last part is the reply.

        Args:
            prompt: The request body, to estimate tokens from.

        Raises:
            ModelError: The stream ended before the reply did.
        """

    def broken(self, reason: str) -> ModelError:
        """The error for a stream that cannot go on, with what had arrived."""
        return ModelError(
            f"the stream of {self._peer} broke: {self._peer.show(reason)}",
            code="stream",
            retryable=True,
            partial_text=self._text,
            hint="what had come is kept; do the task anew with `hermes retry`, and where it breaks "
            "again and again, look at the server, or at a proxy that ends long answers",
        )

    def blame(self, exc: ModelError, *, prompt: bytes) -> None:
        """Note on the error that ends the stream what had arrived, and what that may cost."""
        exc.partial_text = exc.partial_text or self._text
        if (usage := self._usage(prompt)) is not None:
            charge(exc, usage)

    @property
    @abstractmethod
    def _text(self) -> str:
        """The answer so far."""

    @abstractmethod
    def _usage(self, prompt: bytes) -> Usage | None:
        """What was used so far; None while no reply has begun."""

    @abstractmethod
    def _take(self, events: list[Event]) -> list[StreamPart]: ...

    def _no_stream(self, event: Event, *, hint: str) -> ModelError:
        """The error for an answer that is neither a stream nor JSON."""
        kind = self._peer.show(self._kind.partition(";")[0]) or "no content type"
        return ModelError(
            f"{self._peer} answered with no stream and no JSON "
            f"({kind}): {self._peer.show(event.data)!r}",
            code="bad_reply",
            hint=hint,
        )


async def parts_of(
    connection: Connection, body: bytes, reader_of: Callable[[str], StreamReader]
) -> AsyncGenerator[StreamPart]:
    """Send a request and give the parts of its answer as they come, last the whole reply.

    Args:
        connection: To the server.
        body: The request.
        reader_of: Makes the reader for an answer of this content type.

    Raises:
        ModelError: No usable reply; `partial_text` holds what had arrived, and `charged` what that
            may cost.
    """
    async with connection.open(body) as incoming:
        reader = reader_of(incoming.kind)
        with _blaming(reader, prompt=body):
            async for chunk in incoming.chunks:
                for part in reader.feed(chunk):
                    yield part
                if reader.is_done:
                    await connection.drain(incoming.chunks)
                    break
    with _blaming(reader, prompt=body):
        last = reader.close(prompt=body)
    for part in last:
        yield part


def is_stream(answer: Answer) -> bool:
    """Whether a server has streamed its answer, as some always do, though nobody asked for it."""
    if answer.body.startswith(b"{"):
        return False  # whatever it is called
    return answer.kind.strip().casefold().startswith(_STREAM_TYPE)


def read_stream(answer: Answer, reader: StreamReader, *, prompt: bytes) -> ModelReply:
    """The reply in a streamed answer that came whole.

    Args:
        answer: A successful one.
        reader: For its dialect.
        prompt: The request body, to estimate tokens from.

    Raises:
        ModelError: No usable reply, as with `parts_of`.
    """
    with _blaming(reader, prompt=prompt):
        reader.feed(answer.body)
        reply = reader.close(prompt=prompt)[-1]
    assert isinstance(reply, ModelReply)
    return reply


@contextmanager
def _blaming(reader: StreamReader, *, prompt: bytes) -> Generator[None]:
    import httpx2

    try:
        yield
    except httpx2.HTTPError as exc:
        broken = reader.broken(str(exc) or type(exc).__name__)
        reader.blame(broken, prompt=prompt)
        raise broken from exc
    except ModelError as exc:
        reader.blame(exc, prompt=prompt)
        raise
