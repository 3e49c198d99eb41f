"""Turning a request into a task and its message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.core import ids, json
from hermes.core.budget import Limits
from hermes.core.clock import Clock
from hermes.core.events import MessageSent, Recorded, TaskCreated, TaskDispatched, TaskEvent
from hermes.core.failpoints import hit
from hermes.core.ids import NewUUID
from hermes.core.message import Message
from hermes.core.request import AgentRequest
from hermes.core.task import Task
from hermes.errors import CodecError, InputError
from hermes.store import Store, Submitted

from .claiming import claimed

MAX_INPUT_CHARS = 1_000_000
RUN_SENDER = "gateway.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A request and how it is to be carried out.

    Attributes:
        receiver: Name of the agent.
        launch: What `resume` needs to find the same agent, tools and settings again.
        dedupe_key: A second order with this key finds the first one's task.
    """

    task_id: str
    receiver: str
    request: AgentRequest
    limits: Limits
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    launch: Mapping[str, object] = field(default_factory=dict[str, object])
    code_version: str = ""
    dedupe_key: str | None = None


async def submit(
    store: Store, order: Order, *, clock: Clock, new_id: NewUUID, claim_for: str | None = None
) -> tuple[Submitted, list[Recorded]]:
    """Store a task, its first events and its message in one transaction.

    Args:
        store: The journal.
        order: What is to be done.
        clock: Gives the events their time.
        new_id: Gives them their ids.
        claim_for: A worker that takes it at once, if nothing stands before it.

    Returns:
        The task, new or found by the dedupe key, and the events of a new one.

    Raises:
        InputError: The input is empty or too long.
    """
    goal = _goal(order)
    task_id, trace_id, now = order.task_id, ids.trace_id(new_id), clock.now()
    session = order.request.session_id
    message = Message(
        message_id=ids.message_id(new_id),
        sender=RUN_SENDER,
        receiver=order.receiver,
        message_type="task.dispatch",
        task_id=task_id,
        trace_id=trace_id,
        created_at=now,
        dedupe_key=order.dedupe_key,
        order_key=f"session:{session}" if session else task_id,
    )
    structured = not isinstance(order.request.input, str)
    events: list[TaskEvent] = [
        TaskCreated(
            agent=order.receiver,
            goal=goal,
            input=order.request.input if structured else None,
            session_id=session,
            limits=order.limits,
            code_version=order.code_version,
            variables=_plain(order.variables),
            metadata=order.request.metadata,
            launch=order.launch,
        ),
        MessageSent(message=message.to_wire()),
        TaskDispatched(receiver=order.receiver, message_id=message.message_id),
    ]
    records = [
        Recorded(
            event_id=new_id().hex,
            task_id=task_id,
            seq=seq,
            event=event,
            at=now,
            trace_id=trace_id,
        )
        for seq, event in enumerate(events, 1)
    ]
    hit("runtime.submit.before")
    done = await claimed(
        store,
        store.submit(records, message, claim_for=claim_for),
        leases=lambda got: [got.lease] if got.lease else [],
    )
    hit("runtime.submit.after")
    return done, records if done.is_new else []


def wake_message(task: Task, *, clock: Clock, new_id: NewUUID) -> Message:
    """A message that lets a waiting task go on; however often it is sent, it arrives once."""
    return Message(
        message_id=ids.message_id(new_id),
        sender=RUN_SENDER,
        receiver=task.spec.agent,
        message_type="task.wake",
        task_id=task.task_id,
        trace_id=task.trace_id,
        created_at=clock.now(),
        order_key=task.task_id,
        dedupe_key=f"wake:{task.task_id}:{task.status.seq}",
    )


def _plain(variables: Mapping[str, object]) -> dict[str, object]:
    """A copy that nobody else holds, as plain JSON."""
    try:
        return json.as_object(json.loads(json.encode(dict(variables)))) or {}
    except CodecError as exc:
        raise InputError(f"the variables of a task are plain JSON: {exc}") from exc


def _goal(order: Order) -> str:
    given, session = order.request.input, order.request.session_id
    goal = given if isinstance(given, str) else json.dumps(dict(given))
    if not goal.strip():
        raise InputError("the goal is empty", hint="say in a sentence what is to be done")
    if len(goal) > MAX_INPUT_CHARS:
        raise InputError(
            f"the goal has {len(goal):,} characters, at most {MAX_INPUT_CHARS:,} are taken",
            hint="put the material into a file and let a tool read it",
        )
    words = {"goal": goal, "session id": session or "", "dedupe key": order.dedupe_key or ""}
    for label, text in words.items():
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise InputError(f"the {label} holds bytes that are no UTF-8", hint="send UTF-8 text")
        if "\x00" in text:
            raise InputError(
                f"the {label} holds a NUL character", hint="send text, not binary data"
            )
    return goal
