"""Tasks that the caller waits for: carried in its own process, with all that they hand on."""

from __future__ import annotations

from hermes.agents import Equipment, response_of
from hermes.core.events import ReviewDecision, ReviewReason
from hermes.core.request import AgentResponse
from hermes.core.task import TERMINAL, Task, TaskState
from hermes.errors import InputError, LeaseHeldError, NotFoundError
from hermes.loop import Decision, RunState, calls_in_doubt, tell

from .carrier import Carrier
from .dispatch import Order, submit, wake_message
from .recovery import free_task
from .tree import is_at_rest
from .worker import Equip, WorkLoop

_SETTLED = frozenset(state.value for state in TERMINAL)
_WORDS: dict[Decision, ReviewDecision] = {"done": "done", "again": "retry"}


class Inline:
    """Runs and resumes tasks where the caller waits for the result.

    A task that waits for its children, or for a moment that comes soon, is worked on together
    with them, until it is settled or waits for a person, an event or a later time.
    """

    def __init__(self, carrier: Carrier, *, concurrency: int) -> None:
        self._carrier, self._concurrency = carrier, concurrency
        self._store = carrier.store

    async def begin(self, order: Order, equipment: Equipment, equip: Equip) -> AgentResponse:
        """Submit a task and carry it.

        Args:
            order: What is to be done; one that was given before is gone on with.
            equipment: The agent to do it with.
            equip: Makes the agents of the tasks below it ready.
        """
        process = await self._carrier.process()
        done, records = await submit(
            self._store,
            order,
            clock=self._carrier.clock,
            new_id=self._carrier.new_id,
            claim_for=process.worker_id,
        )
        if not done.is_new:
            return await self.go_on(done.task_id, equipment, equip)
        for record in records:
            tell(equipment.observers, lambda observer, record=record: observer.recorded(record))
        if done.lease is not None:
            response = await self._carrier.carry(done.lease, equipment, records=records)
            return await self._see_through(response, equip)
        try:
            response = await self._claim_and_carry(done.task_id, equipment)
        except (LeaseHeldError, NotFoundError):  # a worker was quicker
            response = response_of(await self._store.events(done.task_id))
        return await self._see_through(response, equip)

    async def go_on(
        self,
        task_id: str,
        equipment: Equipment,
        equip: Equip,
        *,
        decision: Decision | None = None,
    ) -> AgentResponse:
        """Go on with a task; a settled one is only reported.

        Args:
            task_id: The task.
            equipment: The agent to do it with.
            equip: Makes the agents of the tasks below it ready.
            decision: A person's word on calls in doubt.

        Raises:
            LeaseHeldError: A live process works on it.
            InputError: There is a decision, and nothing is in doubt.
        """
        task = await self._store.task(task_id)
        if task.state.is_terminal:
            return response_of(await self._store.events(task_id))
        await self._free(task_id)
        if decision is not None:
            await self._check_doubt(task_id)
        if task.state == TaskState.WAITING:
            is_decided = await self._decide(task, decision)
            if decision is None or is_decided:
                response = response_of(await self._store.events(task_id))
                return await self._see_through(response, equip)
            await self._wake(task)
        reason = "decided by a person" if decision else "resumed at the command of a person"
        response = await self._claim_and_carry(task_id, equipment, reason=reason, decision=decision)
        return await self._see_through(response, equip)

    async def _see_through(self, response: AgentResponse, equip: Equip) -> AgentResponse:
        if response.status in _SETTLED:
            return response
        task_id, clock = response.task_id, self._carrier.clock
        loop = WorkLoop(self._carrier, equip=equip, concurrency=self._concurrency, root_id=task_id)

        async def is_over() -> bool:
            return await is_at_rest(self._store, task_id, clock=clock, left=loop.left_to_others)

        await loop.run(is_over)
        if loop.fault is not None:
            raise loop.fault
        return response_of(await self._store.events(task_id))

    async def _claim_and_carry(
        self,
        task_id: str,
        equipment: Equipment,
        *,
        reason: str = "",
        decision: Decision | None = None,
    ) -> AgentResponse:
        lease = await self._carrier.claim(task_id)
        try:
            is_settled = await self._carrier.settle_if_cancelled(lease, equipment.observers)
        except BaseException:
            await self._carrier.give_back(lease)
            raise
        if is_settled:
            return response_of(await self._store.events(task_id))
        return await self._carrier.carry(lease, equipment, reason=reason, decision=decision)

    async def _free(self, task_id: str) -> None:
        carrier = self._carrier
        await free_task(self._store, task_id, clock=carrier.clock, lease_s=carrier.times.lease_s)
        # And the tasks below it, without waiting for a heartbeat.
        await carrier.reap(by_clock=False)

    async def _check_doubt(self, task_id: str) -> None:
        records = await self._store.events(task_id)
        if not calls_in_doubt(RunState.of(record.event for record in records)):
            raise InputError(
                f"task {task_id} has no call in doubt", hint="resume it without a decision"
            )

    async def _decide(self, task: Task, decision: Decision | None) -> bool:
        """Answer what a resume answers: open doubts by the decision, dead messages by going on."""
        answers: dict[ReviewReason, ReviewDecision] = {"dead_letter": "retry"}
        if decision is not None:
            answers["in_doubt"] = _WORDS[decision]
        is_decided = False
        for review in await self._store.reviews(task_id=task.task_id):
            if answer := answers.get(review.reason):
                await self._store.decide(review.review_id, answer, by="person")
                is_decided = True
        return is_decided

    async def _wake(self, task: Task) -> None:
        """For a task that waits as earlier versions wrote it: without a wait of its own."""
        message = wake_message(task, clock=self._carrier.clock, new_id=self._carrier.new_id)
        await self._store.send(message)
