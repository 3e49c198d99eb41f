"""What stands before a task's own conversation: the rules, what the session said, the goal.

Layers, nearest first: the exchanges right before the task, as conversation within a bound; other
tasks of the session that ended within the last half hour, a sentence each; all else is left to be
looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    UserMessage,
    estimate_tokens,
)
from hermes.core.events import TaskSettled
from hermes.core.task import TERMINAL, Task
from hermes.loop import Prompts, RunState, system_prompt
from hermes.loop.prompts import criteria
from hermes.loop.shortening import clipped
from hermes.store import Store, TaskQuery
from hermes.tools.policy import origins_line

from .definition import AgentDefinition

EXCHANGES = 10
"""How many tasks of a session a new one is shown as conversation, at most."""
EXCHANGES_TOKENS = 4_000
ANSWER_TOKENS = 2_000
OTHERS_WITHIN = timedelta(minutes=30)
_LOOKED_AT = 50
_SENTENCES = 5
_GOAL_CHARS = 120
_ANSWER_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A settled task of the session and how it ended."""

    task: Task
    end: TaskSettled

    @property
    def answer(self) -> str:
        output = self.end.output
        if output is None:
            return ""
        return output if isinstance(output, str) else json.dumps(output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What a new task is told of its session.

    Attributes:
        exchanges: Ids of the tasks that are shown as conversation, oldest first.
        others: Some sentences on other tasks of the last half hour; "" if there are none.
        origin: Where what these tasks had read came from, if that was from outside.
    """

    exchanges: tuple[str, ...] = ()
    others: str = ""
    origin: str = ""


async def earlier_of(store: Store, task: Task, *, now: datetime, window: int | None) -> Earlier:
    """What a task that begins now is told of its session.

    Args:
        store: The journal.
        task: Not begun yet.
        now: The time.
        window: Of its model in tokens, if that is known: the exchanges have an eighth at most.
    """
    if task.spec.session_id is None:
        return Earlier()
    query = TaskQuery(session_id=task.spec.session_id, states=sorted(TERMINAL), limit=_LOOKED_AT)
    found = [await _end_of(store, each) for each in await store.tasks(query)]
    newest_first = [each for each in found if each is not None]
    shown = _shown(newest_first, min(EXCHANGES_TOKENS, (window or 1_000_000) // 8))
    since = now - OTHERS_WITHIN
    others = [
        each for each in newest_first if each not in shown and each.task.status.updated_at >= since
    ]
    told = [*shown, *others]
    return Earlier(
        exchanges=tuple(each.task.task_id for each in reversed(shown)),
        others=_sentences(others),
        origin=origins_line(
            {each.task.task_id: each.end.origin for each in told[::-1] if each.end.origin}
        ),
    )


async def opening(
    store: Store,
    task: Task,
    state: RunState,
    agent: AgentDefinition,
    *,
    rules: str | None = None,
    prompts: Prompts | None = None,
) -> tuple[ChatMessage, ...]:
    """The messages before the conversation of a task.

    Args:
        store: The journal.
        task: The task.
        state: Its run; says what of the session it is shown.
        agent: It is done with.
        rules: The system message, where it is not to be made from the agent.
        prompts: The texts around that; the shipped English ones if None.
    """
    if rules is None:
        rules = system_prompt(
            role=agent.role,
            instructions=agent.instructions,
            variables=task.spec.variables,
            output_schema=agent.output_schema,
            prompts=prompts,
        )
    found: list[ChatMessage] = [SystemMessage(text=rules)]
    if state.others:
        found.append(UserMessage(text=state.others, reminder=True))
    for task_id in state.earlier:
        ended = await _end_of(store, await store.task(task_id))
        if ended is not None and ended.answer:
            text = clipped(ended.answer, ANSWER_TOKENS, note=f"left out; task {task_id} has them")
            found += [UserMessage(text=ended.task.spec.goal), AssistantMessage(text=text)]
    found.append(UserMessage(text=task.spec.goal))
    if task.spec.criteria:
        wanted = criteria(task.spec.criteria, prompts)
        found.append(UserMessage(text=wanted, reminder=True))
    return tuple(found)


async def _end_of(store: Store, task: Task) -> _Ended | None:
    # The end stands at the end, but for notes that messages were handled.
    for after in (max(0, task.status.seq - 3), 0):
        for record in reversed(await store.events(task.task_id, after=after)):
            if isinstance(record.event, TaskSettled):
                return _Ended(task=task, end=record.event)
    return None


def _shown(newest_first: Sequence[_Ended], room_tokens: int) -> list[_Ended]:
    """The exchanges right before, as many as fit; at least the last one that has an answer."""
    shown: list[_Ended] = []
    for each in newest_first:
        if not each.answer:
            continue
        room_tokens -= estimate_tokens(each.task.spec.goal)
        room_tokens -= min(ANSWER_TOKENS, estimate_tokens(each.answer))
        if len(shown) == EXCHANGES or (shown and room_tokens < 0):
            break
        shown.append(each)
    return shown


def _sentences(newest_first: Sequence[_Ended]) -> str:
    """At most five sentences on tasks, oldest first."""
    if not newest_first:
        return ""
    many = len(newest_first) > _SENTENCES
    told = newest_first[: _SENTENCES - 1] if many else newest_first
    lines = ["[Earlier in this session, within the last half hour; all of it is over]"]
    if many:
        lines.append(f"- {len(newest_first) - len(told)} other tasks ended before these.")
    for each in reversed(told):
        goal, answer = _line(each.task.spec.goal, _GOAL_CHARS), _line(each.answer, _ANSWER_CHARS)
        if not answer and each.end.error is not None:
            answer = _line(each.end.error.message, _ANSWER_CHARS)
        lines.append(f"- “{goal}” {each.end.outcome}{f': {answer}' if answer else ''}")
    return "\n".join(lines)


def _line(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[:chars].rstrip()}…"
