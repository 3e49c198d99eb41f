import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from hermes.errors import NotDone, ToolError
from hermes.tools.plugins.link import LineTooLong, Link, lines


class Peer:
    def __init__(self) -> None:
        self._over = anyio.Event()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def ended(self) -> str:
        await self._over.wait()
        return "it fell over"

    def fall(self) -> None:
        self._over.set()


class Place:
    """Where peers come from."""

    def __init__(self) -> None:
        self.opened: list[Peer] = []
        self.closed = 0
        self.fault: Exception | None = None
        self.now = 1000.0

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Peer]:
        if self.fault is not None:
            raise self.fault
        peer = Peer()
        self.opened.append(peer)
        yield peer
        self.closed += 1

    def link(self, group: anyio.abc.TaskGroup, *, start_timeout_s: float = 5) -> Link[Peer]:
        return Link(
            "plugin 'x'",
            self.connect,
            group=group,
            start_timeout_s=start_timeout_s,
            now=lambda: self.now,
        )


async def test_it_is_opened_on_need_and_once_for_all() -> None:
    place = Place()
    async with anyio.create_task_group() as group:
        link = place.link(group)
        assert place.opened == []

        first, second = await link.peer(), await link.peer()

        assert first is second
        await link.aclose()
        assert place.closed == 1


async def test_one_that_fell_is_opened_again_at_once_and_the_next_time_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place()
    async with anyio.create_task_group() as group:
        link = place.link(group)
        (await link.peer()).fall()

        second = await link.peer()

        assert len(place.opened) == 2
        second.fall()
        with pytest.raises(NotDone, match="is down: it fell over"):
            await link.peer()
        place.now += 2.1
        assert await link.peer() is place.opened[2]
        await link.aclose()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["plugin 'x' stopped: it fell over; all else goes on"] * 2


async def test_what_cannot_be_opened_is_told_once_and_tried_ever_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place()
    place.fault = ToolError("no such program")
    waits: list[float] = []
    async with anyio.create_task_group() as group:
        link = place.link(group)
        for _ in range(9):
            begin = place.now
            with pytest.raises(NotDone, match="no such program"):
                await link.peer()
            while (await _hint(link)).startswith("it is started again"):
                place.now += 0.5
            waits.append(place.now - begin)
        await link.aclose()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def _hint(link: Link[Peer]) -> str:
    try:
        await link.peer()
    except NotDone as exc:
        return exc.hint
    return ""


async def test_one_that_hangs_as_it_opens_is_left_after_its_time() -> None:
    @asynccontextmanager
    async def hang() -> AsyncGenerator[Peer]:
        await anyio.sleep_forever()
        yield Peer()

    async with anyio.create_task_group() as group:
        link = Link("plugin 'x'", hang, group=group, start_timeout_s=0.01)
        with pytest.raises(NotDone, match=r"was not ready within 0\.01 s"):
            await link.peer()


async def test_closing_does_not_wait_for_what_hangs_as_it_opens() -> None:
    @asynccontextmanager
    async def hang() -> AsyncGenerator[Peer]:
        await anyio.sleep_forever()
        yield Peer()

    async with anyio.create_task_group() as group:
        link = Link("plugin 'x'", hang, group=group, start_timeout_s=60)
        with anyio.move_on_after(0.01):
            await link.peer()
        with anyio.fail_after(1):
            await link.aclose()


async def test_a_caller_that_is_cancelled_leaves_the_opening_to_the_next() -> None:
    place, may_open = Place(), anyio.Event()

    @asynccontextmanager
    async def slow() -> AsyncGenerator[Peer]:
        await may_open.wait()
        async with place.connect() as peer:
            yield peer

    async with anyio.create_task_group() as group:
        link = Link("plugin 'x'", slow, group=group, start_timeout_s=5)
        with anyio.move_on_after(0.01):
            await link.peer()
        may_open.set()
        assert await link.peer() is place.opened[0]
        await link.aclose()


async def test_after_closing_nothing_is_opened() -> None:
    place = Place()
    async with anyio.create_task_group() as group:
        link = place.link(group)
        await link.aclose()
        with pytest.raises(NotDone, match="was closed"):
            await link.peer()


class Chunks(anyio.abc.ByteReceiveStream):
    def __init__(self, *chunks: bytes) -> None:
        self._chunks = list(chunks)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._chunks:
            raise anyio.EndOfStream
        return self._chunks.pop(0)

    async def aclose(self) -> None:
        pass


async def test_lines_are_put_together_from_pieces() -> None:
    stream = Chunks("你".encode()[:1], "你".encode()[1:] + b"\nb\n\nc")

    assert [line async for line in lines(stream, limit=10)] == ["你".encode(), b"b", b"", b"c"]


async def test_a_line_without_end_is_not_kept() -> None:
    with pytest.raises(LineTooLong):
        assert [line async for line in lines(Chunks(b"x" * 6, b"x" * 6), limit=10)] == []
