"""What is to be done, on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hermes.core.clock import Clock
from hermes.core.todo import Todo
from hermes.errors import CodecError
from hermes.store import Store, open_store
from hermes.testing import FakeClock


def todo(number: int, clock: Clock, text: str = "") -> Todo:
    return Todo(todo_id=f"todo_{number}", text=text or f"事情 {number}", made_at=clock.now())


async def test_todos_come_back_in_their_order(store: Store, clock: FakeClock) -> None:
    made = [todo(number, clock) for number in (3, 1, 2)]
    for each in made:
        assert await store.put_todo(each) == each
    assert await store.todos() == made
    assert await store.todos(limit=2) == made[:2]
    assert await store.todos(is_open=False, limit=2) == made[:0:-1]


async def test_a_repeat_changes_nothing(store: Store, clock: FakeClock) -> None:
    first = await store.put_todo(todo(1, clock))
    clock.advance(60)
    assert await store.put_todo(todo(1, clock, "other")) == first
    assert await store.todos() == [first]


async def test_what_is_done_stays_done(store: Store, clock: FakeClock) -> None:
    first = await store.put_todo(todo(1, clock))
    other = await store.put_todo(todo(2, clock))
    done = replace(first, done_at=clock.now() + timedelta(seconds=5))
    assert await store.put_todo(done) == done
    later = replace(first, done_at=clock.now() + timedelta(hours=1))
    assert await store.put_todo(later) == done
    assert await store.put_todo(first) == done
    assert await store.todos() == [other]
    assert await store.todos(is_open=False) == [other, done]


@pytest.mark.parametrize("text", ["half \ud800", "zero \0"])
async def test_a_text_that_no_database_holds_is_refused(
    store: Store, clock: FakeClock, text: str
) -> None:
    with pytest.raises(CodecError):
        await store.put_todo(todo(1, clock, text))
    assert await store.todos() == []


async def test_todos_outlive_the_process(kind: str, url: str, clock: FakeClock) -> None:
    if kind == "memory":
        return
    async with open_store(url, clock=clock) as store:
        kept = await store.put_todo(todo(1, clock))
    async with open_store(url, clock=clock) as store:
        assert await store.todos() == [kept]
