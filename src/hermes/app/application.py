"""The application: a journal, and the process that works on it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from hermes.agents import Feed, FeedItem, Launch, streamed
from hermes.agents.code import manifest, prompts_of, recorded_codes
from hermes.core import ids
from hermes.core.budget import Bounds, Limits
from hermes.core.clock import Clock, SystemClock
from hermes.core.ids import NewUUID, uuid7
from hermes.core.request import AgentRequest, AgentResponse
from hermes.core.task import Task
from hermes.errors import ConfigError, InputError, NotFoundError, StoreError
from hermes.loop import Decision
from hermes.runtime import (
    Carrier,
    ChildCommand,
    ChildProcesses,
    Inline,
    LeaseTimes,
    Order,
    Roster,
    Turns,
    WorkLoop,
    cancel_tree,
    submit,
)
from hermes.store import Lease, Store, StoreQuota, open_store
from hermes.tools import ToolRegistry
from hermes.tools.plugins.brought import Brought

from .agent import Agent, RunOptions
from .outfitter import Outfitter, check_own, request_of

if TYPE_CHECKING:
    from hermes.config import Settings
    from hermes.runtime.fork import Changes, Forked
    from hermes.runtime.replay import Replayed
    from hermes.runtime.sent import Sent

CANCEL_WAIT_S = 5.0

_LOG = logging.getLogger("hermes.app")


class Hermes:
    """A journal and the process that works on it; use it with `async with`.

    Args:
        database: `sqlite:///path`, `memory://`; the settings' `HERMES_DATABASE_URL` by default.
        settings: Settings to use; read from files and environment by default, when needed.
        clock: Where time comes from.
        new_id: Where new ids come from.
        agents: Found by name for tasks that other tasks hand on, or that a worker claims.
        files: The same for agents in files.
        worker_id: The name it goes by as a worker; a new one by default.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        new_id: NewUUID = uuid7,
        agents: Iterable[Agent] = (),
        files: Mapping[str, Launch] | None = None,
        worker_id: str | None = None,
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._outfitter = Outfitter(
            agents, Roster(files), settings=lambda: self.settings, clock=self._clock
        )
        self._worker_id = worker_id
        self._database, self._settings = database, settings
        self._new_id = new_id
        self._stack = AsyncExitStack()
        self._turns = Turns()
        self._store: Store | None = None
        self._background: TaskGroup | None = None
        self._carrier: Carrier | None = None

    async def __aenter__(self) -> Self:
        store = open_store(
            self._database or self.settings.database_url,
            clock=self._clock,
            synchronous=self.settings.sqlite_synchronous,
            pool_size=self.settings.postgres_pool_size,
        )
        self._store = await self._stack.enter_async_context(store)
        self._background = await anyio.create_task_group().__aenter__()
        self._outfitter.open(self._background, quota=StoreQuota(self._store))
        self._carrier = Carrier(
            self._store,
            group=self._background,
            clock=self._clock,
            new_id=self._new_id,
            worker_id=self._worker_id,
            times=LeaseTimes(lease_s=self.settings.lease_s, heartbeat_s=self.settings.heartbeat_s),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._outfitter.aclose()
            if self._background is not None:
                self._background.cancel_scope.cancel()
                # The block's own exception is not the group's: it must leave as it is.
                await self._background.__aexit__(None, None, None)
        finally:
            try:
                if self._carrier is not None:
                    await self._carrier.close()
            finally:
                await self._stack.__aexit__(kind, exc, trace)
            self._store, self._background, self._carrier = None, None, None

    @property
    def settings(self) -> Settings:
        """The settings in force; read on first use.

        Raises:
            ConfigError: One of them is wrong.
        """
        if self._settings is None:
            from hermes.config import load_settings  # loaded on use: half of a start's time

            self._settings = load_settings().settings
        return self._settings

    @property
    def store(self) -> Store:
        """The open journal."""
        if self._store is None:
            raise ConfigError(
                "the application is not open", hint="use `async with Hermes() as app`"
            )
        return self._store

    async def run(
        self,
        agent: Agent,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        variables: Mapping[str, object] | None = None,
        dedupe_key: str | None = None,
        options: RunOptions | None = None,
    ) -> AgentResponse:
        """Submit a task and carry it to its end in this process.

        Args:
            agent: Who does it.
            input: The task in words, or a JSON object that fits the agent's input schema.
            session_id: Tasks of one session run one after the other and see the earlier answers.
            metadata: Kept with the task.
            variables: The variable pool that tools start with.
            dedupe_key: A second run with this key finds the first one's task: nothing runs twice.
            options: Streaming, and who watches.

        Returns:
            The answer, the trace and the usage; look at `status` and `error`.

        Raises:
            ConfigError: There is no model, or a setting is wrong.
            InputError: The input is empty or does not fit the input schema.
            StoreError: The journal cannot be written; what was committed can be resumed.
        """
        options = options or RunOptions()
        request = request_of(input, session_id, metadata)
        equipment = await self._outfitter.equip(agent, options, self.settings)
        order = self._order(agent, request, equipment.limits, variables, dedupe_key, options)
        own_key = None if dedupe_key is None else f"{agent.definition.name} {dedupe_key}"
        async with (
            self._turns.take("session", request.session_id),
            self._turns.take("dedupe key", own_key),
        ):
            try:
                equip = self._outfitter.equipper(agent, order.task_id, equipment)
                return await self._inline.begin(order, equipment, equip)
            except anyio.get_cancelled_exc_class():
                await self._cancel_quickly(order.task_id)
                raise

    async def stream(
        self,
        agent: Agent,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        variables: Mapping[str, object] | None = None,
        dedupe_key: str | None = None,
        options: RunOptions | None = None,
    ) -> AsyncGenerator[FeedItem | AgentResponse]:
        """`run`, and all that happens meanwhile, as it happens; last comes the response.

        A slow reader does not hold the run up. Leaving before the end cancels the task, at once
        where the generator is closed (`contextlib.aclosing`); it is settled then, as cancelled.

        Args:
            agent: As for `run`, and so are the others.
            input: As for `run`.
            session_id: As for `run`.
            metadata: As for `run`.
            variables: As for `run`.
            dedupe_key: As for `run`.
            options: As for `run`; the model is asked for a stream whatever they say.

        Raises:
            HermesError: As `run`, after all that came before.
        """
        feed, options = Feed(), options or RunOptions()
        options = replace(options, stream=True, observers=(*options.observers, feed))

        async def work() -> AgentResponse:
            return await self.run(
                agent,
                input,
                session_id=session_id,
                metadata=metadata,
                variables=variables,
                dedupe_key=dedupe_key,
                options=options,
            )

        async with aclosing(streamed(feed, work)) as items:
            async for item in items:
                yield item

    async def submit(
        self,
        agent: Agent,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        variables: Mapping[str, object] | None = None,
        dedupe_key: str | None = None,
        options: RunOptions | None = None,
    ) -> str:
        """Store a task for whichever worker comes to it; durable on return.

        Args:
            agent: Who is to do it.
            input: As for `run`, and so are the others.
            session_id: As for `run`.
            metadata: As for `run`.
            variables: As for `run`.
            dedupe_key: As for `run`.
            options: Its `launch` tells the worker where to find the agent.

        Returns:
            The id of the task, new or found by its dedupe key.

        Raises:
            InputError: The input is empty or does not fit the input schema.
        """
        request = request_of(input, session_id, metadata)
        limits = agent.definition.limits or self.settings.limits
        order = self._order(agent, request, limits, variables, dedupe_key, options or RunOptions())
        done, _ = await submit(self.store, order, clock=self._clock, new_id=self._new_id)
        return done.task_id

    async def resume(
        self,
        task_id: str,
        agent: Agent,
        *,
        decision: Decision | None = None,
        limits: Limits | None = None,
        accept_changes: bool = False,
        options: RunOptions | None = None,
    ) -> AgentResponse:
        """Go on with a task at the step where it broke; a settled task is only reported.

        Args:
            task_id: The whole id.
            agent: The same agent as before; an open call of another one is refused.
            decision: A person's word on calls in doubt: `done` or `again`.
            limits: New bounds; the task's own by default. Those of a tree hold for all of it from
                then on.
            accept_changes: Go on although the agent, a tool or the model is not what it was; what
                differs is kept in the record.
            options: Streaming, and who watches.

        Raises:
            NotFoundError: No such task.
            InputError: The task is another agent's, or no call of it is in doubt.
            LeaseHeldError: A live process works on it.
            DriftError: The program is not the one of the record, or the open call would now be
                another one.
        """
        task = await self.store.task(task_id)
        settings = self.settings.as_recorded(task.spec.launch.get("settings"))
        equipment = await self._outfitter.equip(
            agent, options or RunOptions(), settings, limits=limits or task.spec.limits
        )
        equipment = replace(equipment, accept_changes=accept_changes)
        if limits is not None and Bounds.of(limits) != Bounds.of(task.spec.limits):
            await self.store.put_budget(task.root_id, Bounds.of(limits))
        check_own(task, agent)
        equip = self._outfitter.equipper(agent, task_id, equipment)
        try:
            return await self._inline.go_on(task_id, equipment, equip, decision=decision)
        except anyio.get_cancelled_exc_class():
            await self._cancel_quickly(task_id)
            raise

    async def replay(self, task_id: str, agent: Agent) -> Replayed:
        """Decide a task again, offline: the present agent against recorded replies and results.

        Nothing is asked and nothing has an effect. A playbook decides anew; of any other model the
        recorded replies are taken.

        Args:
            task_id: The whole id; in any state.
            agent: As it is now.

        Raises:
            NotFoundError: No such task.
            InputError: It was never begun.
        """
        from hermes.runtime.replay import replay  # loaded on use: few need it

        task = await self.store.task(task_id)
        model, registry = await self._outfitter.offline(agent, task)
        return await replay(
            self.store,
            task_id,
            agent.definition,
            registry,
            model,
            clock=self._clock,
            prompts=self.settings.prompt_book,
        )

    async def sent(self, task_id: str, agent: Agent, *, at: str | None = None) -> Sent:
        """What a model was sent at a call of a task, built again from the record.

        Args:
            task_id: The whole id; in any state.
            agent: As it is now.
            at: Path of the model call, or number of the turn; the last call by default.

        Raises:
            NotFoundError: No such task.
            InputError: No such call.
        """
        from hermes.runtime.sent import sent  # loaded on use: few need it

        task = await self.store.task(task_id)
        model, registry = await self._outfitter.offline(agent, task)
        return await sent(
            self.store,
            task_id,
            agent.definition,
            registry,
            model,
            at=at,
            prompts=self.settings.prompt_book,
        )

    async def check_ready(self, task: Task, agent: Agent) -> None:
        """Refuse an agent that could not go on with a task here, before anything is submitted.

        Raises:
            ConfigError: A file, a tool or a model is missing or wrong.
            InputError: The task is another agent's.
        """
        check_own(task, agent)
        settings = self.settings.as_recorded(task.spec.launch.get("settings"))
        await self._outfitter.equip(agent, RunOptions(), settings)

    async def fork(self, task_id: str, agent: Agent, *, at: str, changes: Changes) -> Forked:
        """Submit a task that begins with the record of another one; `resume` carries it.

        Args:
            task_id: The whole id of the other one.
            agent: Who is to go on with it; what differs from the record is accepted and noted.
            at: The first step that is made anew, such as `/turn3` or `/turn3/tool1`.
            changes: What the new task has otherwise.

        Raises:
            NotFoundError: No such task.
            InputError: There is no such step, or a call before it has no outcome.
        """
        return await self._fork(task_id, agent, at, changes, is_retry=False)

    async def retry(
        self, task_id: str, agent: Agent, *, at: str | None = None, changes: Changes | None = None
    ) -> Forked:
        """Submit a settled task once more, from its beginning or from a step; `resume` carries it.

        Raises:
            NotFoundError: No such task.
            InputError: It is not settled, or there is no such step.
        """
        from hermes.runtime.fork import Changes, check_settled, retry

        await check_settled(self.store, task_id)
        if at is not None:
            return await self._fork(task_id, agent, at, changes or Changes(), is_retry=True)
        await self._outfitter.offline(agent, await self.store.task(task_id))  # raises what is wrong
        return await retry(
            self.store, task_id, changes or Changes(), clock=self._clock, new_id=self._new_id
        )

    async def _fork(
        self, task_id: str, agent: Agent, at: str, changes: Changes, *, is_retry: bool
    ) -> Forked:
        from hermes.runtime.fork import Step, fork

        task = await self.store.task(task_id)
        model, registry = await self._outfitter.offline(agent, task)
        prompts = prompts_of(
            self.settings.prompt_book,
            agent.definition,
            goal=task.spec.goal,
            codes=recorded_codes(await self.store.events(task_id)),
        )
        code = manifest(agent.definition, registry, model, goal=task.spec.goal, prompts=prompts)
        return await fork(
            self.store,
            task_id,
            Step.of(at),
            replace(changes, code=code),
            clock=self._clock,
            new_id=self._new_id,
            is_retry=is_retry,
        )

    async def cancel(self, task_id: str, *, wait_s: float = CANCEL_WAIT_S) -> list[Task]:
        """End a task and all below it; what nobody works on is settled here.

        Args:
            task_id: The whole id.
            wait_s: How long to wait for those who work on it.

        Returns:
            Those that are not settled yet: who works on them, or comes to, will settle them.

        Raises:
            NotFoundError: No such task.
        """
        return await cancel_tree(self._at_work, task_id, wait_s=wait_s)

    async def signal(self, name: str, payload: object = None) -> bool:
        """Let the event `name` happen: every task that waits for it goes on, now or later.

        Args:
            name: As the tasks call it.
            payload: Plain JSON; what their call returns.

        Returns:
            False if it had happened before: nothing is changed then.

        Raises:
            InputError: No task can wait for such a name.
        """
        if not name.strip() or "\x00" in name:
            raise InputError(
                f"an event needs a name, got {name!r:.80}",
                hint="give the name that a task waits for",
            )
        return await self.store.signal(name, payload)

    def worker(
        self,
        *,
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        task_id: str | None = None,
        child: ChildCommand | None = None,
        on_claim: Callable[[Lease], None] | None = None,
    ) -> WorkLoop:
        """Work on whatever is submitted: `await app.worker().run()`.

        Args:
            queues: Only tasks of these agents; any by default.
            concurrency: How many tasks at a time; `HERMES_CONCURRENCY` by default.
            task_id: Only this task.
            child: Starts a process for a message that was in the hands of one when it died;
                without it, this one handles it.
            on_claim: Called with each message that is claimed.

        Raises:
            InputError: Such a worker would never take anything.
        """
        if isinstance(queues, str):
            raise InputError(f"queues is a list of names, got {queues!r:.80}", hint="write [name]")
        if concurrency is not None and concurrency < 1:
            raise InputError(f"a worker carries 1 task at a time or more, got {concurrency}")
        alone = None if child is None else ChildProcesses(self.store, child, new_id=self._new_id)
        return WorkLoop(
            self._at_work,
            equip=self._outfitter.equip_task,
            concurrency=concurrency or self.settings.concurrency,
            receivers=queues,
            task_id=task_id,
            drain_s=self.settings.drain_s,
            alone=alone,
            on_claim=on_claim,
        )

    def tools(self, agent: Agent) -> ToolRegistry:
        """The tools that are on for an agent; those of servers once `plugins` has asked them.

        Raises:
            ConfigError: A group does not exist, or a required tool is missing or off.
            ToolDefinitionError: Two tools share a name.
        """
        return self._outfitter.registry(agent, self.settings)

    async def plugins(self, agent: Agent) -> Brought:
        """What plugins bring, after those that the agent needs were started and asked.

        Args:
            agent: Its tool groups, or those of the settings, say which servers it needs.
        """
        return await self._outfitter.brought(agent, self.settings)

    @property
    def _at_work(self) -> Carrier:
        if self._carrier is None:
            raise ConfigError(
                "the application is not open", hint="use `async with Hermes() as app`"
            )
        return self._carrier

    @property
    def _inline(self) -> Inline:
        return Inline(self._at_work, concurrency=self.settings.concurrency)

    async def _cancel_quickly(self, task_id: str) -> None:
        """Settle what a cancelled caller leaves, unless others work on it."""
        with anyio.CancelScope(shield=True):
            try:
                await cancel_tree(self._at_work, task_id, wait_s=0.5)
            except NotFoundError:
                return  # it was cancelled before it was stored
            except StoreError as exc:
                _LOG.warning("task %s could not be cancelled: %s", task_id, exc)

    def _order(
        self,
        agent: Agent,
        request: AgentRequest,
        limits: Limits,
        variables: Mapping[str, object] | None,
        dedupe_key: str | None,
        options: RunOptions,
    ) -> Order:
        agent.definition.check_input(request)
        if fault := limits.too_small():
            raise ConfigError(f"limits: {fault}")
        return Order(
            task_id=ids.task_id(self._new_id),
            receiver=agent.definition.name,
            request=request,
            limits=limits,
            variables=variables or {},
            launch={"by": "program", **options.launch, "settings": self.settings.recordable()},
            code_version=agent.definition.digest,
            dedupe_key=dedupe_key,
        )
