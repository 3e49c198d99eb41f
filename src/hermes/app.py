"""The composition root: an agent to call, and the application that makes its runs durable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import anyio
from anyio.abc import TaskGroup

from hermes.agents import (
    AgentDefinition,
    Equipment,
    Executor,
    load_agent,
    response_of,
)
from hermes.core import ids, json
from hermes.core.budget import Limits
from hermes.core.clock import Clock, SystemClock
from hermes.core.events import Recorded
from hermes.core.ids import NewUUID, uuid7
from hermes.core.request import AgentRequest, AgentResponse
from hermes.core.task import Task, TaskState
from hermes.errors import (
    ConfigError,
    InputError,
    NotFoundError,
    StaleLeaseError,
    StoreError,
)
from hermes.loop import Decision, Observer, RunState, calls_in_doubt, tell
from hermes.models import ClientPool, Model, open_model
from hermes.runtime import (
    Order,
    Turns,
    WorkerProcess,
    claim_task,
    free_task,
    submit,
    wake_message,
)
from hermes.store import Lease, Store, open_store
from hermes.tools import Tool, ToolRegistry, tool

if TYPE_CHECKING:
    from hermes.config import Settings

_LOG = logging.getLogger("hermes.app")


class Agent:
    """A model, its tools and its rules: call `run` and get an answer.

    Without an application around it a run lives in memory and writes no file.

    Args:
        name: Also the name of its queue; letters, digits, `.`, `_`, `-`.
        role: Who it is, in a few words.
        instructions: What it is to do and how.
        tools: `@tool` functions; a plain function becomes an `unsafe` tool.
        groups: Tool groups to switch on; `core` and `http` by default.
        model: A model name, `playbook:FILE`, or a `Model`; the settings' `MODEL_NAME` by default.
        limits: Bounds of one task; 10 steps by default.
        input_schema: JSON Schema of structured input.
        output_schema: JSON Schema that the answer has to fit; `output` is then an object.
        required_tools: Tools that must have succeeded before the end.
    """

    def __init__(
        self,
        *,
        name: str = "agent",
        role: str = "",
        instructions: str = "",
        tools: Iterable[Tool[..., object] | Callable[..., object]] = (),
        groups: Sequence[str] | None = None,
        model: str | Model | None = None,
        limits: Limits | None = None,
        input_schema: Mapping[str, object] | None = None,
        output_schema: Mapping[str, object] | None = None,
        required_tools: Sequence[str] = (),
    ) -> None:
        self.model = None if model is None or isinstance(model, str) else model
        self.definition = AgentDefinition(
            name=name,
            role=role,
            instructions=instructions,
            tools=tuple(map(_as_tool, tools)),
            groups=tuple(groups) if groups is not None else None,
            model=model if isinstance(model, str) else None,
            limits=limits,
            input_schema=input_schema,
            output_schema=output_schema,
            required_tools=tuple(required_tools),
        )

    @classmethod
    def from_file(cls, path: str | Path, *, model: Model | None = None) -> Self:
        """Read an agent file (TOML or YAML).

        Raises:
            ConfigError: The file is missing or wrong.
        """
        return cls.of(load_agent(Path(path)), model=model)

    @classmethod
    def of(cls, definition: AgentDefinition, *, model: Model | None = None) -> Self:
        """An agent out of its definition, with its model if that is at hand."""
        agent = cls(model=model)
        agent.definition = definition
        return agent

    async def run(
        self,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        variables: Mapping[str, object] | None = None,
        observers: Sequence[Observer] = (),
    ) -> AgentResponse:
        """Carry one task to its end, in memory.

        Args:
            input: The task in words, or a JSON object that fits the input schema.
            variables: The variable pool that tools start with.
            observers: Watch the run as it goes.

        Returns:
            The answer, the trace and the usage. A failed or partial run is a response as well;
            look at `status` and `error`.

        Raises:
            ConfigError: There is no model, or a setting is wrong.
            InputError: The input is empty or does not fit the input schema.
        """
        async with Hermes("memory://") as app:
            options = RunOptions(observers=observers)
            return await app.run(self, input, variables=variables, options=options)

    def run_sync(
        self,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        variables: Mapping[str, object] | None = None,
    ) -> AgentResponse:
        """`run` for scripts that have no event loop."""

        async def call() -> AgentResponse:
            return await self.run(input, variables=variables)

        return anyio.run(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out.

    Attributes:
        stream: Ask the model for a stream and pass its pieces to the observers.
        observers: Watch the run as it goes.
        launch: Kept with the task: how `hermes resume` finds agent, tools and settings again.
    """

    stream: bool = False
    observers: Sequence[Observer] = ()
    launch: Mapping[str, object] = field(default_factory=dict[str, object])


class Hermes:
    """A journal and the process that works on it; use it with `async with`.

    Args:
        database: `sqlite:///path`, `memory://`; the settings' `HERMES_DATABASE_URL` by default.
        settings: Settings to use; read from files and environment by default, when needed.
        clock: Where time comes from.
        new_id: Where new ids come from.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        new_id: NewUUID = uuid7,
    ) -> None:
        self._database, self._settings = database, settings
        self._clock: Clock = clock or SystemClock()
        self._new_id = new_id
        self._stack = AsyncExitStack()
        self._models: dict[tuple[str, str | None], Model] = {}
        self._clients: ClientPool | None = None
        self._turns = Turns()
        self._store: Store | None = None
        self._background: TaskGroup | None = None
        self._starting = anyio.Lock()
        self._worker: WorkerProcess | None = None

    async def __aenter__(self) -> Self:
        store = open_store(
            self._database or self.settings.database_url,
            clock=self._clock,
            synchronous=self.settings.sqlite_synchronous,
        )
        self._store = await self._stack.enter_async_context(store)
        self._background = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for model in self._models.values():
                await model.aclose()
            if self._clients is not None:
                await self._clients.aclose()
            if self._background is not None:
                self._background.cancel_scope.cancel()
                # The block's own exception is not the group's: it must leave as it is.
                await self._background.__aexit__(None, None, None)
        finally:
            if self._worker is not None:
                await self._worker.stop()
            await self._stack.__aexit__(kind, exc, trace)
            self._store, self._background, self._worker = None, None, None
            self._models, self._clients = {}, None

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
        request = _request(input, session_id, metadata)
        agent.definition.check_input(request)
        equipment = self._equip(agent, options, self.settings)
        order = Order(
            task_id=ids.task_id(self._new_id),
            receiver=agent.definition.name,
            request=request,
            limits=equipment.limits,
            variables=variables or {},
            launch={"by": "program", **options.launch, "settings": self.settings.recordable()},
            code_version=agent.definition.digest,
            dedupe_key=dedupe_key,
        )
        own_key = None if dedupe_key is None else f"{agent.definition.name} {dedupe_key}"
        async with (
            self._turns.take("session", request.session_id),
            self._turns.take("dedupe key", own_key),
        ):
            try:
                return await self._submit_and_carry(order, agent, equipment)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._settle_unbegun(order.task_id, equipment)
                raise

    async def _submit_and_carry(
        self, order: Order, agent: Agent, equipment: Equipment
    ) -> AgentResponse:
        worker = await self._process()
        done, records = await submit(
            self.store,
            order,
            clock=self._clock,
            new_id=self._new_id,
            claim_for=worker.worker_id,
        )
        if not done.is_new:
            return await self._continue(done.task_id, agent, equipment, None)
        for record in records:
            tell(equipment.observers, lambda observer, record=record: observer.recorded(record))
        if done.lease is None:
            return await self._carry(done.task_id, equipment)
        return await self._work(done.lease, equipment, records=records)

    async def resume(
        self,
        task_id: str,
        agent: Agent,
        *,
        decision: Decision | None = None,
        limits: Limits | None = None,
        options: RunOptions | None = None,
    ) -> AgentResponse:
        """Go on with a task at the step where it broke; a settled task is only reported.

        Args:
            task_id: The whole id.
            agent: The same agent as before; an open call of another one is refused.
            decision: A person's word on calls in doubt: `done` or `again`.
            limits: New bounds; the task's own by default.
            options: Streaming, and who watches.

        Raises:
            NotFoundError: No such task.
            InputError: The task is another agent's, or no call of it is in doubt.
            LeaseHeldError: A live process works on it.
            DriftError: The open call would now be another one.
        """
        task = await self.store.task(task_id)
        settings = self.settings.as_recorded(task.spec.launch.get("settings"))
        equipment = self._equip(agent, options or RunOptions(), settings)
        equipment = replace(equipment, limits=limits or task.spec.limits)
        return await self._continue(task_id, agent, equipment, decision)

    def tools(self, agent: Agent) -> ToolRegistry:
        """The tools that are on for an agent.

        Raises:
            ConfigError: A group does not exist, or a required tool is missing or off.
            ToolDefinitionError: Two tools share a name.
        """
        return agent.definition.registry(self.settings.tool_groups)

    async def _continue(
        self, task_id: str, agent: Agent, equipment: Equipment, decision: Decision | None
    ) -> AgentResponse:
        task = await self.store.task(task_id)
        if task.spec.agent != agent.definition.name:
            raise InputError(
                f"task {task_id} is of agent {task.spec.agent!r}, not {agent.definition.name!r}",
                hint="resume it with its own agent",
            )
        if task.state.is_terminal or (task.state == TaskState.WAITING and decision is None):
            return response_of(await self.store.events(task_id))
        await free_task(self.store, task_id, clock=self._clock)
        if decision is not None:
            await self._check_doubt(task_id)
        if task.state == TaskState.WAITING:
            await self._wake(task)
        reason = "decided by a person" if decision else "resumed at the command of a person"
        return await self._carry(task_id, equipment, reason=reason, decision=decision)

    async def _carry(
        self,
        task_id: str,
        equipment: Equipment,
        *,
        reason: str = "",
        decision: Decision | None = None,
    ) -> AgentResponse:
        lease = await self._claim(task_id)
        return await self._work(lease, equipment, reason=reason, decision=decision)

    async def _work(
        self,
        lease: Lease,
        equipment: Equipment,
        *,
        records: Sequence[Recorded] | None = None,
        reason: str = "",
        decision: Decision | None = None,
    ) -> AgentResponse:
        try:
            return await self._executor().carry(
                lease, equipment, records=records, reason=reason, decision=decision
            )
        except BaseException:
            await self._give_back(lease)
            raise

    async def _claim(self, task_id: str) -> Lease:
        worker = await self._process()
        try:
            return await claim_task(self.store, worker.worker_id, task_id, clock=self._clock)
        except NotFoundError:
            if any(known.worker_id == worker.worker_id for known in await self.store.workers()):
                raise
            worker.is_dead = True  # another process took it for dead: go on as a new worker
        worker = await self._process()
        return await claim_task(self.store, worker.worker_id, task_id, clock=self._clock)

    async def _settle_unbegun(self, task_id: str, equipment: Equipment) -> None:
        """Settle a task that was cancelled before its work began, unless others are before it."""
        worker = await self._process()
        for lease in await self.store.claim(worker.worker_id, task_id=task_id):
            await self._executor().cancel(lease, equipment.observers)

    def _executor(self) -> Executor:
        return Executor(self.store, clock=self._clock, new_id=self._new_id)

    async def _give_back(self, lease: Lease) -> None:
        """Let others have the task at once, whatever ended the work on it."""
        with anyio.CancelScope(shield=True):
            try:
                await self.store.release(lease)
            except StaleLeaseError:
                return  # it was finished
            except StoreError as exc:  # the lease ends with this process's worker
                _LOG.debug("task %s: %s", lease.message.task_id, exc)

    async def _check_doubt(self, task_id: str) -> None:
        records = await self.store.events(task_id)
        if not calls_in_doubt(RunState.of(record.event for record in records)):
            raise InputError(
                f"task {task_id} has no call in doubt", hint="resume it without a decision"
            )

    async def _wake(self, task: Task) -> None:
        message = wake_message(task, clock=self._clock, new_id=self._new_id)
        await self.store.send(message)

    async def _process(self) -> WorkerProcess:
        async with self._starting:
            if self._worker is not None and self._worker.is_dead:
                await self._worker.stop()
                self._worker = None
            if self._worker is None:
                assert self._background is not None
                worker = WorkerProcess(self.store, clock=self._clock, new_id=self._new_id)
                await worker.start(self._background)
                self._worker = worker
            return self._worker

    def _equip(self, agent: Agent, options: RunOptions, settings: Settings) -> Equipment:
        definition = agent.definition
        return Equipment(
            agent=definition,
            model=agent.model or self._model(definition.model, settings),
            registry=definition.registry(settings.tool_groups),
            limits=definition.limits or Limits(max_steps=settings.max_steps),
            stream=options.stream,
            result_limit_chars=settings.result_limit_chars,
            observers=tuple(options.observers),
        )

    def _model(self, name: str | None, settings: Settings) -> Model:
        spec = name or settings.model_name or ""
        place = (spec, settings.api_base)
        if place not in self._models:
            if self._clients is None:
                self._clients = ClientPool(timeout_s=settings.model_timeout_s)
            self._models[place] = open_model(
                spec,
                base_url=settings.api_base,
                api_key=settings.api_key.get_secret_value() if settings.api_key else None,
                client=self._clients,
                timeout_s=settings.model_timeout_s,
            )
        return self._models[place]


def _as_tool(item: Tool[..., object] | Callable[..., object]) -> Tool:
    return cast("Tool", item) if isinstance(item, Tool) else tool(item)


def _request(
    given: object, session_id: str | None, metadata: Mapping[str, object] | None
) -> AgentRequest:
    if isinstance(given, AgentRequest):
        request = given
    elif isinstance(given, str):
        request = AgentRequest(input=given)
    elif (table := json.as_object(given)) is not None:
        request = AgentRequest(input=table)
    else:
        raise InputError(f"the input of a run is text or an object, got {type(given).__name__}")
    if session_id is not None:
        request = replace(request, session_id=session_id)
    return replace(request, metadata=metadata) if metadata is not None else request
