"""A task of 300 turns with results of 3 KB: what it sends, and that nothing is done again."""

from __future__ import annotations

import pytest

from bench.context import Sent, exponent, play
from tests.providers import strict

TURNS = 300


@pytest.fixture(scope="module")
async def both() -> tuple[Sent, Sent]:
    return await play(TURNS), await play(TURNS, window=1 << 40)


async def test_300_turns_send_at_most_a_tenth(both: tuple[Sent, Sent]) -> None:
    short, whole = both

    assert sum(short.tokens) <= sum(whole.tokens) / 10
    assert max(short.tokens) < 32_768
    assert (short.status, whole.status) == ("succeeded", "succeeded")


async def test_no_finished_item_is_fetched_again(both: tuple[Sent, Sent]) -> None:
    for sent in both:
        assert sent.fetched == list(range(1, TURNS + 1))


async def test_consecutive_requests_begin_alike(both: tuple[Sent, Sent]) -> None:
    short, whole = both

    assert short.reuse > 0.9
    assert whole.reuse > 0.9
    # Each other request begins with all messages of the one before, to the byte.
    assert len(whole.breaks) == 1
    assert 1 < len(short.breaks) <= TURNS / 10


async def test_every_request_is_valid() -> None:
    sent = await play(60, window=8_000, keep=True)

    assert sent.summaries > 1
    for body in sent.bodies:
        strict.check("openai", body)


async def test_with_compaction_the_sum_grows_as_a_line() -> None:
    turns = (40, 80, 160)
    short = [sum((await play(n, window=8_000)).tokens) for n in turns]
    whole = [sum((await play(n, window=1 << 40)).tokens) for n in turns]

    assert exponent(turns, short) < 1.2
    assert exponent(turns, whole) > 1.8
