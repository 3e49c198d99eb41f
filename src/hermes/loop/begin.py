"""Whether a call may be made: for the first time, again, or not before something has happened."""

from __future__ import annotations

from dataclasses import replace

from hermes.core import json
from hermes.core.clock import Clock
from hermes.core.effects import may_repeat
from hermes.core.events import Fault, ToolReturned, ToolStarted
from hermes.core.failpoints import hit
from hermes.errors import DriftError
from hermes.store import TaskReader
from hermes.tools import (
    NOT_DONE,
    NotDoneType,
    ToolResult,
    failed_result,
    is_at_work,
    reconcile,
)
from hermes.tools.policy import Stop, origin_of, stop_of
from hermes.tools.preview import Previewed, has_preview, preview

from .bench import Bench, context_of
from .journal import Journal
from .ledger import business_key, done_before
from .outcome import Ready, asks_leave, doubt, reconciled, record
from .setup import RunSetup
from .state import OpenCall
from .suspend import Held

_BY_TOOL = "reconcile"
_BROKEN_OFF = "the process ended while the call was running"
_STILL_AT_WORK = "its thread may still be at work"


class Beginnings:
    """Brings calls to the point where they may run, and calls in doubt to an answer."""

    def __init__(self, setup: RunSetup, journal: Journal, reader: TaskReader, clock: Clock) -> None:
        self._setup, self._journal = setup, journal
        self._reader, self._clock = reader, clock
        self._tried_again: set[str] = set()

    async def begin(self, item: Ready) -> Held | bool:
        """Note the intent of a call, or check it against the one from before.

        Returns:
            True if it may run once the intent is durable, False if it has its outcome already,
            and what it has to wait for otherwise.

        Raises:
            DriftError: It was begun before and would now be another call.
        """
        state, tool = self._journal.state, item.prepared.tool
        begun = state.started.get(item.path)
        if begun is None:
            return await self._first_time(item)
        if begun.fingerprint != item.prepared.fingerprint:
            raise DriftError(
                item.path,
                then=f"{begun.name} {arguments_then(begun, item.open)}",
                now=f"{tool.name} {json.dumps(item.prepared.arguments)}",
            )
        if item.path in state.cleared:
            return self._until_free(begun) or self._again(item, begun)
        if may_repeat(begun.effect) and may_repeat(tool.effect):
            return True
        if item.path in state.in_doubt or tool.reconcile is None:
            return doubt(self._journal, item, _BROKEN_OFF)
        return self._until_free(begun) or await self._after_crash(item, begun)

    async def settle_doubt(self, item: Ready, result: ToolResult) -> Held | bool:
        """Find out what a call came to that just ended without an answer, in this process.

        One that surely did not take place is made once more; if that comes to nothing either,
        the model is told.

        Returns:
            As `begin`.
        """
        reason = result.error.message if result.error else "its outcome is unknown"
        if item.prepared.tool.reconcile is None:
            return doubt(self._journal, item, reason)
        found = await self._reconcile(item)
        if found is not NOT_DONE:
            return self._found(item, found) or False
        if result.may_still_act:
            # A thread cannot be stopped: it may still do what it has not done so far.
            return doubt(self._journal, item, f"{reason}, and {_STILL_AT_WORK}")
        begun = self._journal.state.started[item.path]
        if item.path not in self._tried_again:
            self._tried_again.add(item.path)
            reconciled(self._journal, item.open, "again", by=_BY_TOOL)
            return self._again(item, begun)
        fault = Fault(
            code="not_done",
            message=f"{reason.partition(';')[0]}; it surely did not take place",
            retryable=True,
            hint="try again",
        )
        record(self._journal, item.open, failed_result("error", fault))
        return False

    async def _first_time(self, item: Ready) -> Held | bool:
        key = business_key(item.prepared)
        if isinstance(key, ToolResult):
            record(self._journal, item.open, key)
            return False
        scope = self._scope(item)
        if key and not await self._is_free(item, key, scope):
            return False
        stop = self._stop(item)
        if stop is not None and not await self._is_approved(item):
            return asks_leave(item, stop, await self._previewed(item))
        if key:
            # Alone in its commit: if another call is faster, nothing but the intent is lost.
            await self._journal.commit()
        self._journal.note(intent(item, key=key, scope=scope if key else ""))
        return True

    def _scope(self, item: Ready) -> str:
        return self._journal.task.root_id if item.prepared.tool.key_scope == "root" else ""

    async def _is_free(self, item: Ready, key: str, scope: str) -> bool:
        own = (self._journal.task.task_id, item.path)
        earlier = await done_before(
            self._reader, item.prepared, key, scope, own=own, state=self._journal.state
        )
        match earlier:
            case None:
                return True
            case ToolReturned():
                call = item.open.call
                self._journal.note(
                    replace(earlier, path=item.path, call_id=call.id, name=call.name)
                )
            case ToolResult():
                record(self._journal, item.open, earlier)
        return False

    async def _is_approved(self, item: Ready) -> bool:
        """Whether a person approved this very call, arguments and all."""
        review_id = self._journal.state.approved.get(item.path)
        if review_id is None:
            return False
        review = await self._reader.review(review_id)
        return review.data.get("digest") == item.prepared.fingerprint

    def _stop(self, item: Ready) -> Stop | None:
        """Why a person has to approve a call; None if nobody has to."""
        if not self._setup.asks:
            return None
        return stop_of(self._setup.policy, item.prepared, self._journal.state.outside)

    async def _previewed(self, item: Ready) -> Previewed | None:
        """What a call would do, if its tool can tell."""
        if not has_preview(item.prepared.tool):
            return None
        # It may take its time: what has happened so far is not to be lost meanwhile.
        await self._journal.commit()
        self._setup.tenure.check_lease()
        bench = Bench(item.path, journal=self._journal, reader=self._reader, clock=self._clock)
        context = context_of(self._setup, self._journal, item.path, bench)
        try:
            return await preview(item.prepared, context, clock=self._clock)
        finally:
            bench.close()

    def _again(self, item: Ready, begun: ToolStarted) -> bool:
        # A new intent: the decision holds for one more try, not for every crash to come.
        self._journal.note(intent(item, key=begun.key, scope=begun.scope))
        return True

    def _until_free(self, begun: ToolStarted) -> Held | None:
        """A wait of the whole task until the process that began a call cannot act any more."""
        due = self._setup.tenure.free_at(begun)
        if due is None:
            return None
        text = f"the process that began {begun.name} may still act until then"
        return Held(path="", kind="time", name=begun.name, text=text, due_at=due)

    async def _after_crash(self, item: Ready, begun: ToolStarted) -> Held | bool:
        found = await self._reconcile(item)
        if found is NOT_DONE:
            if is_at_work(f"{self._journal.task.task_id}{item.path}"):
                return doubt(self._journal, item, f"{_BROKEN_OFF}, and {_STILL_AT_WORK}")
            reconciled(self._journal, item.open, "again", by=_BY_TOOL)
            return self._again(item, begun)
        return self._found(item, found) or False

    async def _reconcile(self, item: Ready) -> ToolResult | NotDoneType:
        await self._journal.commit()
        self._setup.tenure.check_lease()
        bench = Bench(item.path, journal=self._journal, reader=self._reader, clock=self._clock)
        try:
            hit("loop.reconcile.before")
            return await reconcile(
                item.prepared,
                context_of(self._setup, self._journal, item.path, bench),
                clock=self._clock,
                limit_chars=self._setup.result_limit_chars,
            )
        finally:
            hit("loop.reconcile.after")
            bench.close()

    def _found(self, item: Ready, result: ToolResult) -> Held | None:
        if result.status != "ok":
            return doubt(self._journal, item, result.error.message if result.error else "")
        origin = origin_of(item.prepared)
        reconciled(self._journal, item.open, "done", by=_BY_TOOL, result=result, origin=origin)
        return None


def arguments_then(begun: ToolStarted, item: OpenCall) -> str:
    """The arguments that a call was begun with."""
    return item.call.arguments if begun.arguments is None else json.dumps(begun.arguments)


def intent(item: Ready, *, key: str, scope: str) -> ToolStarted:
    """The event that goes before a call."""
    prepared = item.prepared
    return ToolStarted(
        path=item.path,
        call_id=item.open.call.id,
        name=prepared.tool.name,
        effect=prepared.tool.effect,
        fingerprint=prepared.fingerprint,
        timeout_s=prepared.tool.timeout_s,
        arguments=prepared.arguments if prepared.repairs else None,
        repairs=tuple(str(repair) for repair in prepared.repairs),
        key=key,
        scope=scope,
    )
