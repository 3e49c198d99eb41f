"""Handing work to child tasks, and making one result out of what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.core import ids
from hermes.core.budget import Limits, with_tree_bounds
from hermes.core.clock import Clock
from hermes.core.events import (
    BudgetExceeded,
    Fault,
    MessageSent,
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskSettled,
    TaskSplit,
)
from hermes.core.message import Message
from hermes.core.task import Task, TaskState
from hermes.errors import ToolError
from hermes.store import NewTask, TaskReader
from hermes.tools import Child, Children, render
from hermes.tools.policy import origins_line

from .journal import Journal
from .suspend import Held

_SHOWN_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one part of the work came to, by the task that did it last.

    Attributes:
        origin: Of what the task had read from outside.
        is_out_of_budget: It ended since the budget of the whole tree did.
    """

    task: Task
    output: object
    origin: str = ""
    is_out_of_budget: bool = False

    @property
    def is_met(self) -> bool:
        return self.task.state is TaskState.SUCCEEDED

    def as_json(self) -> dict[str, object]:
        """As the call's result shows it."""
        error = self.task.status.error
        return {
            "task_id": self.task.task_id,
            "status": self.task.state.value,
            "output": self.output,
            "error": None if error is None else {"code": error.code, "message": error.message},
        }


async def split(
    journal: Journal,
    reader: TaskReader,
    clock: Clock,
    path: str,
    name: str,
    wanted: Children,
    *,
    limits: Limits,
) -> Held:
    """The first round of a call's children.

    Args:
        journal: Of the parent.
        reader: Of the tasks above it.
        clock: For the children's first events.
        path: Of the call.
        name: Of its tool.
        wanted: The children.
        limits: Bounds of the tree, which the children have as well.

    Raises:
        ToolError: The task is itself too deep in its tree, or the work would go round in a circle.
    """
    parent = journal.task
    above = await _above(reader, parent)
    if limits.max_depth is not None and len(above) >= limits.max_depth:
        raise ToolError(
            f"child tasks are made {limits.max_depth} generations deep at most (max_depth), and "
            "this task is in the last one",
            code="too_deep",
            hint="do the work in this task",
        )
    _refuse_circles(parent, above, wanted)
    event = TaskSplit(
        path=path,
        round=1,
        children=tuple(
            _child_id(parent, path, 1, place) for place, _ in enumerate(wanted.tasks, 1)
        ),
        accept_ratio=wanted.accept_ratio,
        max_rounds=wanted.max_rounds,
    )
    read = origins_line(journal.state.origins)
    origin = f"{read}, in {parent.task_id}" if read else ""
    specs = [replace(_spec(parent, child, limits), origin=origin) for child in wanted.tasks]
    return _round(journal, clock, event, specs, name=name)


async def parts_of(reader: TaskReader, rounds: Sequence[TaskSplit]) -> list[Part]:
    """What each part of the work came to, in the order of the first round."""
    last = list(rounds[0].children)
    for later in rounds[1:]:
        for place, task_id in zip(later.unmet, later.children, strict=True):
            last[place] = task_id
    return [await _part(reader, task_id) for task_id in last]


def origin_of_parts(parts: Sequence[Part]) -> str:
    """Where what the parts bring came from, if that was from outside."""
    return origins_line({part.task.task_id: part.origin for part in parts if part.origin})


def may_go_on(rounds: Sequence[TaskSplit], parts: Sequence[Part]) -> bool:
    """Whether the unmet parts are to be made again without asking a person.

    Not one that somebody cancelled: that is a person's word. And not where the budget of the tree
    is at its end.
    """
    if any(part.task.state is TaskState.CANCELLED or part.is_out_of_budget for part in parts):
        return False
    met = sum(part.is_met for part in parts)
    first = rounds[0]
    return met < first.accept_ratio * len(parts) and len(rounds) <= first.max_rounds


def next_round(
    journal: Journal,
    clock: Clock,
    rounds: Sequence[TaskSplit],
    parts: Sequence[Part],
    *,
    name: str,
) -> Held:
    """The unmet parts once more, by new tasks."""
    path, number = rounds[0].path, len(rounds) + 1
    unmet = tuple(place for place, part in enumerate(parts) if not part.is_met)
    event = replace(
        rounds[0],
        round=number,
        children=tuple(_child_id(journal.task, path, number, place + 1) for place in unmet),
        unmet=unmet,
    )
    return _round(journal, clock, event, [parts[place].task.spec for place in unmet], name=name)


def ask_whether_enough(path: str, name: str, parts: Sequence[Part]) -> Held:
    """A person says whether what was reached will do."""
    met = sum(part.is_met for part in parts)
    return Held(
        path=path,
        kind="partial",
        name=name,
        text=f"{met} of {len(parts)} parts of {name} succeeded: is that enough?",
        data={"parts": [_shown(part) for part in parts]},
    )


def _shown(part: Part) -> dict[str, object]:
    """A part for a person to judge; a long output by its beginning."""
    output = render(part.output)
    return {
        **part.as_json(),
        "goal": part.task.spec.goal,
        "output": part.output if len(output) <= _SHOWN_CHARS else f"{output[:_SHOWN_CHARS]}…",
    }


def not_accepted(parts: Sequence[Part], words: str) -> Fault:
    """What the model is told after a person's no."""
    met = sum(part.is_met for part in parts)
    unmet = "; ".join(
        f"{part.task.spec.goal:.80}: {part.task.state}" for part in parts if not part.is_met
    )
    said = f": {words}" if words else ""
    return Fault(
        code="rejected",
        message=f"{met} of {len(parts)} parts succeeded and a person does not accept that{said}. "
        f"Unmet: {unmet}",
        hint="do not simply ask for the same parts again",
    )


def _round(
    journal: Journal, clock: Clock, event: TaskSplit, specs: Sequence[TaskCreated], *, name: str
) -> Held:
    key = f"{event.path}#{event.round}"
    children = [
        _new_task(journal, clock, task_id, replace(spec, parent_path=key))
        for task_id, spec in zip(event.children, specs, strict=True)
    ]
    again = f", round {event.round}" if event.round > 1 else ""
    return Held(
        path=event.path,
        kind="children",
        name=name,
        text=f"{name} waits for {len(children)} child task(s){again}",
        key=key,
        split=event,
        children=children,
    )


def _spec(parent: Task, child: Child, tree: Limits) -> TaskCreated:
    spec = parent.spec
    agent = child.agent or spec.agent
    # The bounds of the tree may have been given anew since the parent was made.
    limits = with_tree_bounds(spec.limits, tree)
    if child.max_steps is not None:
        limits = replace(limits, max_steps=child.max_steps)
    # Another agent's files are not this one's; the settings of the run are the same for both.
    other = {name: spec.launch[name] for name in ("by", "settings") if name in spec.launch}
    return TaskCreated(
        agent=agent,
        goal=child.goal,
        parent_id=parent.task_id,
        root_id=parent.root_id,
        limits=limits,
        priority=spec.priority,
        labels=spec.labels,
        tenant=spec.tenant,
        code_version=spec.code_version if agent == spec.agent else "",
        variables=child.variables,
        launch=spec.launch if agent == spec.agent else other,
    )


def _new_task(journal: Journal, clock: Clock, task_id: str, spec: TaskCreated) -> NewTask:
    trace_id = journal.task.trace_id
    message = Message(
        message_id=task_id.replace("task_", "msg_", 1),
        sender=journal.task.spec.agent,
        receiver=spec.agent,
        message_type="task.dispatch",
        task_id=task_id,
        trace_id=trace_id,
        created_at=clock.now(),
        causation_id=journal.lease.message.message_id,
        order_key=task_id,
        priority=spec.priority,
    )
    events = [
        spec,
        MessageSent(message=message.to_wire()),
        TaskDispatched(receiver=spec.agent, message_id=message.message_id),
    ]
    records = journal.new_records(events, task_id=task_id, trace_id=trace_id)
    return NewTask(records=records, message=message)


def _child_id(parent: Task, path: str, number: int, place: int) -> str:
    return ids.child_task_id(parent.task_id, f"{path}#{number}.{place}")


def _refuse_circles(parent: Task, above: Sequence[Task], wanted: Children) -> None:
    """Raise ToolError for work that goes back to an agent that waits for it further up.

    An agent may split its own work, as deep as `max_depth` allows: that is no circle.
    """
    own = parent.spec.agent
    for child in wanted.tasks:
        names = [task.spec.agent for task in above]
        if child.agent in (None, own) or child.agent not in names:
            continue
        way = [*names[: names.index(child.agent) + 1][::-1], own, child.agent]
        raise ToolError(
            f"{child.agent} itself waits for this work, which would go round in a circle: "
            f"{' → '.join(way)}",
            code="circle",
            hint="do the work in this task, or give it to an agent that is not above it",
        )


async def _above(reader: TaskReader, task: Task) -> list[Task]:
    """The tasks above one, the parent first."""
    above: list[Task] = []
    while task.spec.parent_id is not None:
        task = await reader.task(task.spec.parent_id)
        above.append(task)
    return above


async def _part(reader: TaskReader, task_id: str) -> Part:
    task = await reader.task(task_id)
    # The end stands at the end, but for notes that messages were handled.
    records = await reader.events(task_id, after=max(0, task.status.seq - 3))
    end = _end(records) or _end(await reader.events(task_id))
    if end is None:
        return Part(task=task, output=None)
    return Part(
        task=task,
        output=end.output,
        origin=end.origin,
        is_out_of_budget=any(
            isinstance(record.event, BudgetExceeded) and record.event.limit != "max_steps"
            for record in records
        ),
    )


def _end(records: Sequence[Recorded]) -> TaskSettled | None:
    return next((r.event for r in reversed(records) if isinstance(r.event, TaskSettled)), None)
