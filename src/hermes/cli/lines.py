"""`--events`: what happens in a run as JSON Lines on stdout, as it happens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import aclosing

import anyio.to_thread

from hermes.agents import Feed, item_object, streamed
from hermes.core import json
from hermes.core.events import Fault
from hermes.core.request import AgentResponse
from hermes.errors import HermesError

from . import exits, output


class Lines:
    """Prints what a run's feed gives.

    Attributes:
        feed: Has to be among the run's observers.
    """

    def __init__(self) -> None:
        self.feed = Feed()
        self._is_read = True

    async def follow(self, work: Callable[[], Awaitable[AgentResponse]], out: int) -> AgentResponse:
        """Do the work and print what happens meanwhile; who stops reading does not stop it.

        Args:
            work: A run that the feed watches.
            out: Descriptor of the true stdout.
        """
        async with aclosing(streamed(self.feed, work)) as items:
            async for item in items:
                if isinstance(item, AgentResponse):
                    return item
                if self._is_read:
                    await self._write(item_object(item), out)
        raise AssertionError("a feed ends in a response")

    async def _write(self, item: Mapping[str, object], out: int) -> None:
        # In a thread: a reader that is slow must not stop the run.
        # What UTF-8 cannot hold stands inside strings, where its escape is JSON too.
        data = f"{json.dumps(item)}\n".encode("utf-8", "backslashreplace")
        try:
            await anyio.to_thread.run_sync(_write_all, out, data, abandon_on_cancel=True)
        except OSError:
            self._is_read = False


def _write_all(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def print_response(response: AgentResponse) -> None:
    """The last line."""
    output.print_json({"kind": "response", **response.as_json()})


@contextlib.contextmanager
def faults_told(*, is_on: bool) -> Generator[None]:
    """End the lines in a structured error where there is no response."""
    try:
        yield
    except Exception as exc:
        if is_on:
            _print_fault(exc)
        raise


def _print_fault(exc: Exception) -> None:
    fault = Fault(code="internal", message=f"{type(exc).__name__}: {exc}")
    if isinstance(exc, HermesError):
        fault = Fault(code=exits.code_of(exc), message=exc.message, hint=exc.hint)
    with contextlib.suppress(output.OutputError):  # the exit code remains
        output.print_json({"kind": "response", **output.fault_result(fault)})
