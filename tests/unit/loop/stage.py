"""A store, a worker and one agent, driven message by message."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from hermes.agents import AgentDefinition, Equipment, Executor, Holding
from hermes.core import ids
from hermes.core.budget import Limits
from hermes.core.events import ReviewDecision, TaskEvent
from hermes.core.failpoints import set_hook
from hermes.core.request import AgentRequest, AgentResponse
from hermes.errors import NotFoundError
from hermes.loop import Decision
from hermes.runtime import Order, submit
from hermes.runtime.dead import bury
from hermes.store import Lease, Review, Store, Worker, open_store
from hermes.testing import FakeClock, Scripted, ScriptedModel
from hermes.tools import Tool, ToolGuard

E = TypeVar("E", bound=TaskEvent)

WORKER = "worker_1"


class Death(BaseException):
    """Stands for the death of the process."""


class Stage:
    """Carries the messages of tasks one by one, as a worker would.

    Attributes:
        model: Answers all tasks.
        ran: For tools to write down what they did.
        allow: The agent's allow-list.
        guard: Knows the tools over all runs; each run has its own if None.
    """

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.model: ScriptedModel = ScriptedModel([])
        self.ran: list[str] = []
        self.tools: Sequence[Tool] = ()
        self.allow: Sequence[str] = ()
        self.limits = Limits()
        self.guard: ToolGuard | None = None

    def play(self, replies: Sequence[Scripted], *tools: Tool) -> None:
        """What the model says from here on, and which tools there are."""
        self.model, self.tools = ScriptedModel(replies), tools

    async def submit(self, goal: str = "go", *, session: str | None = None) -> str:
        """A new task; its id."""
        order = Order(
            task_id=ids.task_id(),
            receiver="a",
            request=AgentRequest(input=goal, session_id=session),
            limits=self.limits,
        )
        done, _ = await submit(self.store, order, clock=self.clock, new_id=ids.uuid7)
        return done.task_id

    async def start(self, goal: str = "go") -> AgentResponse:
        """A new task, carried until it rests."""
        return await self.carry(await self.submit(goal))

    async def lease(self, task_id: str | None = None) -> Lease:
        """The next ready message, of one task or of any."""
        leases = await self.store.claim(WORKER, task_id=task_id)
        if not leases:
            raise NotFoundError(f"nothing is ready for {task_id}")
        return leases[0]

    async def carry(
        self, task_id: str | None = None, holding: Holding | None = None
    ) -> AgentResponse:
        """Claim and carry one message."""
        return await self.work(await self.lease(task_id), holding)

    async def work(
        self,
        lease: Lease,
        holding: Holding | None = None,
        *,
        accept: bool = False,
        decision: Decision | None = None,
    ) -> AgentResponse:
        """Carry a leased message."""
        definition = AgentDefinition(name="a", tools=tuple(self.tools), allow=tuple(self.allow))
        registry = definition.registry(("core",))
        equipment = Equipment(
            agent=definition,
            model=self.model,
            registry=registry,
            policy=definition.policy(registry),
            limits=self.limits,
            accept_changes=accept,
            guard=self.guard,
        )
        executor = Executor(self.store, clock=self.clock)
        return await executor.carry(
            lease, equipment, holding=holding or Holding(), decision=decision
        )

    async def carry_accepting(self) -> AgentResponse:
        """As `carry`, with all changes of the program accepted."""
        return await self.work(await self.lease(), accept=True)

    async def decide(self, decision: ReviewDecision) -> AgentResponse:
        """Have a person decide the open review, and carry on."""
        await self.store.decide((await self.review()).review_id, decision, by="ann")
        return await self.carry()

    async def break_off(self, task_id: str | None = None) -> None:
        """Claim and carry, and die right after the first call of a tool."""

        def hook(name: str) -> None:
            if name == "loop.tool.after":
                raise Death

        set_hook(hook)
        try:
            with pytest.raises(Death):
                await self.carry(task_id)
        finally:
            set_hook(None)
        await self.crash()

    async def carry_all(self) -> None:
        """Carry whatever is ready until nothing is."""
        while leases := await self.store.claim(WORKER):
            await self.work(leases[0])

    async def crash(self) -> None:
        """The worker dies; another one of that name takes its place."""
        await self.store.retire(WORKER, crashed=True)
        await self.register()

    async def bury(self, lease: Lease) -> None:
        """Make a message dead."""
        await bury(self.store, lease, reason="it died", clock=self.clock, new_id=ids.uuid7)

    async def register(self) -> None:
        """Have the worker in the store."""
        worker = Worker(
            worker_id=WORKER, host="h", pid=1, lock_path="", renewed_at=self.clock.now()
        )
        await self.store.register(worker)

    async def review(self) -> Review:
        """The one open review."""
        [review] = await self.store.reviews()
        return review

    async def events(self, task_id: str, kind: type[E]) -> list[E]:
        """A task's events of one kind."""
        records = await self.store.events(task_id)
        return [record.event for record in records if isinstance(record.event, kind)]

    async def types(self, task_id: str, *, after: int = 0) -> list[str]:
        """The names of a task's events."""
        return [record.event.type for record in await self.store.events(task_id, after=after)]


@asynccontextmanager
async def staged(url: str) -> AsyncGenerator[Stage]:
    """An open stage."""
    clock = FakeClock()
    async with open_store(url, clock=clock, synchronous="NORMAL") as store:
        stage = Stage(store, clock)
        await stage.register()
        yield stage
