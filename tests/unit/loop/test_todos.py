"""The list of things to be done, as models use it."""

from __future__ import annotations

import json

from hermes.core.chat import ToolMessage
from hermes.testing import call
from hermes.tools.builtin.todos import make
from tests.unit.loop.stage import Stage

ADD = call("add_todo", text="给供应商打电话")


def told(stage: Stage) -> list[dict[str, object]]:
    messages = stage.model.requests[-1].messages
    return [json.loads(each.text) for each in messages if isinstance(each, ToolMessage)]


async def test_a_todo_is_noted_listed_and_done(stage: Stage) -> None:
    stage.play([ADD, call("get_todos"), "Noted."], *make(stage.clock))
    await stage.start()
    added, listed = told(stage)
    assert added["text"] == "给供应商打电话"
    assert listed == {"todos": [added], "more": False}

    done = call("complete_todo", todo_id=str(added["todo_id"]))
    everything = call("get_todos", state="all", limit=1)
    stage.clock.advance(60)
    stage.play([done, done, call("get_todos"), everything, "Done."], *make(stage.clock))
    await stage.start()
    first, again, left, kept = told(stage)
    assert first == again == {**added, "done_at": "2026-01-01T00:01:00Z"}
    assert left == {"todos": [], "more": False}
    assert kept == {"todos": [first], "more": False}


async def test_a_repeat_after_a_crash_notes_nothing_twice(stage: Stage) -> None:
    stage.play([ADD, "Noted."], *make(stage.clock))
    task_id = await stage.submit()
    await stage.break_off(task_id)
    assert len(await stage.store.todos()) == 1
    await stage.carry(task_id)
    assert len(await stage.store.todos()) == 1


async def test_two_calls_note_two_things(stage: Stage) -> None:
    stage.play([ADD, ADD, "Noted."], *make(stage.clock))
    await stage.start()
    assert len(await stage.store.todos()) == 2


async def test_an_unknown_todo_is_told(stage: Stage) -> None:
    stage.play([call("complete_todo", todo_id="todo_1"), "No."], *make(stage.clock))
    await stage.start()
    [failed] = told(stage)
    assert failed["status"] == "error"
    assert "there is no todo 'todo_1'" in json.dumps(failed)
