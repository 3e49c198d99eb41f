"""Things to be done, which outlive the task that notes them; group `core`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from hermes.core.clock import Clock, SystemClock, rfc3339
from hermes.core.json import digest
from hermes.core.problems import did_you_mean
from hermes.core.todo import Todo
from hermes.errors import ToolError
from hermes.tools.base import TodoList, Tool, ToolContext
from hermes.tools.function import tool

from .options import BuiltinOptions

MAX_TEXT_CHARS = 1_000
MAX_SHOWN = 200
_ALL = 10_000


@tool(effect="read", group="core")
async def get_todos(
    ctx: ToolContext,
    state: Literal["open", "all"] = "open",
    limit: Annotated[int, Field(ge=1, le=MAX_SHOWN)] = 50,
) -> dict[str, object]:
    """List what is noted to be done, by this and all earlier tasks.

    Use it when asked what there is to do, and before complete_todo. Not for the steps of the work
    at hand.

    Example: get_todos(state="open").

    Args:
        state: open gives what is not done yet, oldest first; all gives the done ones too, newest
            first.
        limit: At most so many, 1 to 200.
        ctx: Lends the list.

    Returns:
        {"todos": [{"todo_id", "text", "made_at", "done_at"}], "more": whether there are others};
        times in UTC, done_at is null while it is open.
    """
    found = await _list(ctx).todos(is_open=state == "open", limit=limit + 1)
    return {"todos": [_shown(each) for each in found[:limit]], "more": len(found) > limit}


def _add_todo(clock: Clock) -> Tool:
    @tool(effect="idempotent", group="core")
    async def add_todo(
        text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)], ctx: ToolContext
    ) -> dict[str, object]:
        """Note one thing to be done, for people and for later tasks.

        Use it when asked to note or remind of something. Not for the steps of the work at hand,
        which you just do; it reminds nobody by itself.

        Example: add_todo(text="Call the supplier about order 17").

        Args:
            text: What is to be done, understandable without this conversation.
            ctx: Lends the list.

        Returns:
            The todo, with the todo_id that complete_todo takes.
        """
        text = text.strip()
        if not text:
            raise ToolError("the text is empty", code="bad_arguments")
        # The same at each repeat of this call: a crash in between notes nothing twice.
        todo_id = f"todo_{digest(['todo', ctx.idempotency_key])}"
        todo = Todo(todo_id=todo_id, text=text, made_at=clock.now())
        return _shown(await _list(ctx).put_todo(todo))

    return add_todo


def _complete_todo(clock: Clock) -> Tool:
    @tool(effect="idempotent", group="core")
    async def complete_todo(todo_id: str, ctx: ToolContext) -> dict[str, object]:
        """Mark one todo as done; one that is done already stays as it is.

        Use it once the thing has been done, or a person says so. It cannot be undone.

        Example: complete_todo(todo_id="todo_8f2a90c1d2e3f405").

        Args:
            todo_id: Exactly as get_todos gives it.
            ctx: Lends the list.

        Returns:
            The todo as it is now.
        """
        todos = _list(ctx)
        known = {each.todo_id: each for each in await todos.todos(is_open=False, limit=_ALL)}
        todo = known.get(todo_id.strip())
        if todo is None:
            raise ToolError(
                f"there is no todo {todo_id!r:.80}",
                code="not_found",
                hint=did_you_mean(todo_id, known) or "get_todos tells the ids",
            )
        return _shown(await todos.put_todo(replace(todo, done_at=clock.now())))

    return complete_todo


def _list(ctx: ToolContext) -> TodoList:
    if ctx.todos is None:
        raise ToolError("there is no journal here to keep todos in", code="no_journal")
    return ctx.todos


def _shown(todo: Todo) -> dict[str, object]:
    return {
        "todo_id": todo.todo_id,
        "text": todo.text,
        "made_at": rfc3339(todo.made_at),
        "done_at": None if todo.done_at is None else rfc3339(todo.done_at),
    }


def make(clock: Clock) -> tuple[Tool, ...]:
    """The three, with a clock of the caller's."""
    return get_todos, _add_todo(clock), _complete_todo(clock)


def tools(_: BuiltinOptions) -> tuple[Tool, ...]:
    """What is to be done."""
    return make(SystemClock())
