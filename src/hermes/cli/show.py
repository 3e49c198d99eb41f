"""`hermes tasks`, `hermes show`, `hermes trace`: views of the journal."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from hermes.agents import response_of
from hermes.app import Hermes
from hermes.config import load_settings
from hermes.core.events import Recorded
from hermes.core.problems import did_you_mean
from hermes.core.request import AgentResponse
from hermes.core.task import Task, TaskState
from hermes.errors import InputError, NotFoundError
from hermes.store import TaskQuery
from hermes.telemetry import as_jsonl, children_of
from hermes.telemetry import trace as trace_of

from . import exits, output
from .budget import budget_lines, money_of
from .family import Family, family_object, family_of, reasons, relations, whereabouts
from .find import all_tasks, find_task, require_journal
from .timeline import timeline

_GOAL_WIDTH = 60
_STYLES = ("timeline", "json", "jsonl")


def tasks(
    states: Sequence[str], *, agent: str | None, session: str | None, limit: int, json: bool
) -> None:
    """Print the list of tasks."""
    query = TaskQuery(
        states=[_state(name) for name in states], agent=agent, session_id=session, limit=limit
    )

    found = _found(query)
    if json:
        output.print_json({"tasks": [output.task_object(task) for task in found]})
    elif not found:
        output.print_text("no tasks; `hermes run GOAL` starts one")
    else:
        output.print_text("\n".join(output.table([_HEADER, *map(_row, found)], numbers=(3, 4))))


def _found(query: TaskQuery) -> list[Task]:
    try:
        journal = _journal()
    except NotFoundError as exc:
        exits.tell(str(exc))
        return []

    async def read() -> list[Task]:
        async with journal as app:
            return await app.store.tasks(query)

    return anyio.run(read)


def show(wanted: str, *, json: bool) -> None:
    """Print what a task was and came to."""

    async def read() -> tuple[Family, list[Recorded]]:
        async with _journal() as app:
            task = await find_task(app.store, wanted)
            family = await family_of(app.store, task, lease_s=app.settings.lease_s)
            return family, await app.store.events(task.task_id)

    family, records = anyio.run(read)
    response = response_of(records)
    if json:
        shown = output.task_object(family.task) | response.as_json()
        output.print_json(shown | family_object(family))
        return
    output.print_text("\n".join(_explain(family, response)))


def trace(wanted: str | None, *, session: str | None, format: str | None, json: bool) -> None:
    """Print the calls of a task, or of all tasks of a session.

    Args:
        wanted: A task, or None for a session.
        session: A session, or None for a task; as JSON its newest task is first, as in the list.
        format: `timeline` (the default), `json`, or `jsonl` for the raw record in order of time.
        json: The same as the format `json`.
    """
    style = format or ("json" if json else "timeline")
    if style not in _STYLES:
        hint = did_you_mean(style, _STYLES) or f"one of {', '.join(_STYLES)}"
        raise InputError(f"--format {style!r} is unknown; {hint}")
    if json and style != "json":
        raise InputError(f"--json and --format {style} exclude each other", hint="give one of them")
    if (wanted is None) == (session is None):
        raise InputError("give a TASK or --session ID", hint="`hermes tasks` lists both")

    async def read() -> list[list[Recorded]]:
        async with _journal() as app:
            if wanted is not None:
                task = await find_task(app.store, wanted)
                return [await app.store.events(task.task_id)]
            found = await all_tasks(app.store, TaskQuery(session_id=session))
            if not found:
                raise NotFoundError(f"no task in session {session!r}")
            return [await app.store.events(task.task_id) for task in found]

    newest_first = anyio.run(read)
    if style == "json":
        output.print_json(_trace_object(newest_first, one=wanted is not None))
        return
    oldest_first = newest_first[::-1]
    if style == "jsonl":
        output.print_json_lines(line for records in oldest_first for line in as_jsonl(records))
    else:
        output.print_text("\n\n".join("\n".join(_timeline(records)) for records in oldest_first))


def _trace_object(streams: Sequence[Sequence[Recorded]], *, one: bool) -> dict[str, object]:
    found: list[dict[str, object]] = []
    for records in streams:
        response = response_of(records)
        found.append(
            {
                "task_id": response.task_id,
                "status": response.status,
                "usage": response.usage.as_json(),
                "trace": [entry.as_json() for entry in response.trace],
                "children": children_of(records),
            }
        )
    return found[0] if one else {"tasks": found}


def _timeline(records: Sequence[Recorded]) -> list[str]:
    response = response_of(records)
    head = f"{response.task_id}  {response.status}"
    lines = [head, "", *timeline(trace_of(records))]
    children = children_of(records)
    if children:
        lines.extend(["", *(f"child  hermes trace {child}" for child in children)])
    return lines


_HEADER = ("task", "status", "agent", "turns", "tokens", "created (UTC)", "goal")


def _row(task: Task) -> tuple[str, ...]:
    spent = task.status.spent
    return (
        task.task_id,
        task.state.value,
        task.spec.agent,
        str(spent.steps),
        f"{spent.usage.total_tokens:,}",
        task.created_at.strftime("%Y-%m-%d %H:%M:%S"),
        output.short(task.spec.goal, _GOAL_WIDTH),
    )


def _explain(family: Family, response: AgentResponse) -> list[str]:
    task, spent = family.task, family.task.status.spent
    lines = [
        f"{task.task_id}  {response.status}",
        f"goal     {output.short(task.spec.goal, 200)}",
        f"agent    {task.spec.agent}",
    ]
    if task.spec.session_id:
        lines.append(f"session  {task.spec.session_id}")
    lines.extend(relations(family))
    calls = f"{output.count(spent.steps, 'turn')}, {output.count(spent.tool_calls, 'tool call')}"
    lines.append(f"created  {task.created_at:%Y-%m-%d %H:%M:%S} UTC")
    tokens = f"{spent.usage.total_tokens:,} tokens"
    if spent.usage.cost_nano:
        tokens += f", {money_of(spent.usage.cost_nano)}"
    lines.append(f"spent    {calls}, {tokens}, {spent.seconds:.1f} s")
    lines.extend(budget_lines(task, family.tree))
    lines.extend(_made_again(response))
    if not task.state.is_terminal:
        ended = {wait.wait_id for wait in family.waits if wait.ended}
        pending = tuple(item for item in response.pending if item.wait_id not in ended)
        waits = [line for item in pending for line in output.waiting(item, task.task_id)]
        lines.extend(["", *waits])
        lines.extend(reasons(family.held_up_by))
    if task.state.is_terminal and task.state != TaskState.SUCCEEDED:
        lines.extend(["", *output.explanation(response)])
    lines.extend(whereabouts(family))
    if response.output is not None:
        title = "answer" if task.state == TaskState.SUCCEEDED else "known so far"
        lines.extend(["", f"{title}:", output.output_text(response.output)])
    lines.extend(["", f"hermes trace {task.task_id}"])
    return lines


def _made_again(response: AgentResponse) -> list[str]:
    again = [entry for entry in response.trace if entry.tries > 1]
    told = [f"{entry.name} at {entry.path} {entry.tries} tries" for entry in again]
    return [f"again    {', '.join(told)}"] if told else []


def _state(name: str) -> TaskState:
    try:
        return TaskState(name.lower())
    except ValueError as exc:
        known = [state.value for state in TaskState]
        hint = did_you_mean(name, known) or f"one of {', '.join(known)}"
        raise InputError(f"--status {name!r} is unknown; {hint}") from exc


def _journal() -> Hermes:
    """The application to read from; reading makes no journal.

    Raises:
        NotFoundError: There is none.
    """
    settings = load_settings().settings
    require_journal(settings)
    return Hermes(settings=settings)
