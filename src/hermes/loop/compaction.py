"""Keeping a conversation within the model's window: older results shortened, then a summary."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hermes.core import json
from hermes.core.chat import ChatMessage, ToolMessage, Usage, estimate_tokens
from hermes.core.codec import sha256
from hermes.core.events import ContextCompacted, Fault, ModelFailed, ModelRequested
from hermes.errors import ModelError
from hermes.models import ModelReply, ModelRequest
from hermes.telemetry import logs
from hermes.tools.arguments.text_calls import is_call_text
from hermes.tools.policy import origins_line

from . import standing
from .context import Context, recent_from, tokens_of
from .journal import Journal
from .purse import Purse
from .setup import RunSetup
from .state import TOO_LONG, RunState
from .summary import SummaryRequest, border_of, upto_of

_LOG = logging.getLogger("hermes.context")

_RECENT_SHARE = 1 / 16
_DONE_SHARE = 1 / 16
_ENOUGH_SHARE = 0.4
_FULL_SHARE = 0.95
_LEAST_FREED = 0.1
_INPUT_SHARE = 0.6

CONTEXT_FULL = "context_full"
"""The error of a run whose conversation does not fit into the window."""

Step = Literal["none", "noted", "full"]


class Compaction:
    """Sees to it, before each model call, that the conversation fits.

    Args:
        setup: Of the run; without a window nothing is ever done.
        journal: Of the task.
        context: Makes the requests.
        purse: Knows the bounds that a model call beside the turns would reach.
    """

    def __init__(
        self,
        setup: RunSetup,
        journal: Journal,
        context: Context,
        purse: Purse,
    ) -> None:
        self._setup, self._journal, self._context = setup, journal, context
        self._purse = purse
        self._replayed: set[str] = set()
        self._instruction = setup.prompts.text("summary")

    def begin(self, path: str) -> Step:
        """Do the next thing about the size of the conversation.

        Args:
            path: Of the model call that is to be made.

        Returns:
            `none` if the call can be made; `noted` if an event was noted after which everything
            is to be looked at anew, an open call for a summary maybe; `full` if the request does
            not fit and nothing more can be done about it.
        """
        state = self._journal.state
        if self._setup.compactions is not None:
            done = self._as_recorded(path)
            return "full" if done == "none" and state.too_long else done
        window = self._window
        if window is None:
            return "none"
        size, trigger = self._context.size(state), int(window * self._setup.compact_at)
        if size < trigger:
            return "none"
        # The room is of true tokens, what is in it is estimated.
        scale = min(1.0, self._context.estimate(state) / max(1, size))
        border = recent_from(state.messages, int(window * _RECENT_SHARE * scale))
        short = self._shortened(state, border, size)
        if short is not None and short.after_tokens <= trigger * _ENOUGH_SHARE:
            return self._note(short)
        if self._may_summarise(state, border, size):
            self._journal.note(self._intent(state, border))
            return "noted"
        if short is not None:
            return self._note(short)
        if size <= window * _FULL_SHARE:
            return "none"
        last = self._shortened(state, len(state.messages), size)
        return "full" if last is None else self._note(last)

    def may_recover(self, intent: ModelRequested, exc: ModelError) -> bool:
        """Whether a refusal leaves something to do: compact the conversation, and ask once more."""
        is_turn = intent.purpose == "turn" and exc.code == TOO_LONG
        return is_turn and self._journal.state.may_recover

    @property
    def _window(self) -> int | None:
        """Tokens of a request and its reply: as it is set, or less where less was refused."""
        state = self._journal.state
        if state.too_long:
            return self._context.size(state)
        known = (self._setup.window, state.refused)
        return min((size for size in known if size is not None), default=None)

    def request(self, intent: ModelRequested) -> ModelRequest:
        """What the model is asked for a summary."""
        goal = self._journal.task.spec.goal
        maker = SummaryRequest(self._context, goal=goal, rules=self._instruction)
        return maker.build(self._journal.state, intent)

    def replied(self, intent: ModelRequested, reply: ModelReply, duration_s: float) -> None:
        """Note a summary, or that the reply is none; then no other one is asked for."""
        state, before = self._journal.state, self._context.size(self._journal.state)
        event = self._summarised(state, intent, reply, before)
        problem = _problem(reply, event, before, self._setup.registry.names)
        if problem:
            made = state.compacted
            event = replace(
                made or event,
                path=intent.path,
                upto=made.upto if made else 0,
                shortened=made.shortened if made else 0,
                before_tokens=before,
                after_tokens=before,
                handles=(),
                summary=made.summary if made else "",
                progress=made.progress if made else "",
                variables=made.variables if made else "",
            )
        else:
            self._keep(state, upto_of(state), event.upto)
        event = replace(
            event, usage=reply.usage, model=reply.model, duration_s=round(duration_s, 4)
        )
        self._journal.note(event)
        logs.compacted(_LOG, self._journal.task, event)
        if problem:
            self._stopped(intent, problem)

    def failed(self, intent: ModelRequested, fault: Fault, duration_s: float, usage: Usage) -> None:
        """Note that there is no summary; no other one is asked for."""
        event = ModelFailed(
            path=intent.path, error=fault, duration_s=round(duration_s, 4), usage=usage
        )
        self._journal.note(event)
        self._stopped(intent, fault.message)

    def overflow(self) -> Fault:
        """Why the run cannot go on: what the provider said, if it refused the request."""
        refusal = self._journal.state.too_long
        size, window = self._context.size(self._journal.state), self._window
        return refusal or Fault(
            code=CONTEXT_FULL,
            message=f"the next request has about {size:,} tokens, the model's window {window:,}: "
            "a reply has no room, and nothing can be shortened any more",
            hint="ask for less at once, use a model with a larger window, or correct "
            "HERMES_CONTEXT_WINDOW",
        )

    def _as_recorded(self, path: str) -> Step:
        events = (self._setup.compactions or {}).get(path, ())
        if path in self._replayed or not events:
            return "none"
        self._replayed.add(path)
        for event in events:
            # The blobs are in the other journal, and no tool of a replay reads any.
            bare = isinstance(event, ContextCompacted)
            self._journal.note(replace(event, handles=()) if bare else event)
        return "noted"

    def _note(self, event: ContextCompacted) -> Step:
        state = self._journal.state
        self._keep(state, max(upto_of(state), _shortened_upto(state)), event.shortened)
        self._journal.note(event)
        logs.compacted(_LOG, self._journal.task, event)
        return "noted"

    def _shortened(self, state: RunState, border: int, size: int) -> ContextCompacted | None:
        """The results before a border shortened, if that frees enough to be worth it."""
        first = max(upto_of(state), _shortened_upto(state))
        if border <= first:
            return None
        made = state.compacted
        event = ContextCompacted(
            path="",
            upto=upto_of(state),
            shortened=border,
            summary=made.summary if made else "",
            before_tokens=size,
            after_tokens=0,
            progress=made.progress if made else "",
            variables=made.variables if made else "",
            origin=made.origin if made else "",
            over_chars=self._setup.shorten_chars,
            handles=self._handles(state, first, border),
        )
        freed = tokens_of(state.messages[first:border]) - tokens_of(
            [self._short(state, message) for message in state.messages[first:border]]
        )
        after = _scaled(size, self._context.estimate(state), freed)
        if size - after < size * _LEAST_FREED:
            return None
        return replace(event, after_tokens=after)

    def _may_summarise(self, state: RunState, border: int, size: int) -> bool:
        if not state.may_compact or border <= upto_of(state):
            return False
        replaced = self._replaced(state, border)
        whole = self._context.estimate(state)
        return replaced >= whole * _LEAST_FREED * 2 and self._can_pay()

    def _can_pay(self) -> bool:
        counts = self._purse.counts_tokens
        return self._purse.known(self._context.size(self._journal.state) if counts else 0) is None

    def _replaced(self, state: RunState, border: int) -> int:
        """Tokens of what a summary up to a border stands for, as they are sent now, estimated."""
        upto, shown = upto_of(state), _shortened_upto(state)
        middle = self._context.middle(state)
        if border >= shown:
            return tokens_of(middle) + tokens_of(state.messages[max(upto, shown) : border])
        return tokens_of(middle[: len(middle) - (shown - border)])

    def _intent(self, state: RunState, border: int) -> ModelRequested:
        return ModelRequested(
            path=f"/turn{state.turn + 1}/compact{state.compactions + 1}",
            model=self._setup.model.name,
            history=border - upto_of(state),
            prompt=json.digest([self._instruction]),
            tools="",
            purpose="compaction",
            hidden=state.hidden,
            system=self._journal.keep(self._instruction.encode()),
            room=int((self._window or 0) * _INPUT_SHARE),
        )

    def _summarised(
        self, state: RunState, intent: ModelRequested, reply: ModelReply, before: int
    ) -> ContextCompacted:
        border = border_of(state, intent)
        window = self._window or 32_768
        handles = self._handles(state, upto_of(state), border)
        event = ContextCompacted(
            path=intent.path,
            upto=border,
            shortened=max(border, _shortened_upto(state)),
            summary=reply.text.strip(),
            before_tokens=before,
            after_tokens=0,
            progress=standing.progress(
                state, border, handles=handles, room_chars=int(window * _DONE_SHARE * 4)
            ),
            variables=standing.variables(state.variables),
            origin=origins_line(state.origins),
            over_chars=self._setup.shorten_chars,
            handles=handles,
        )
        new = sum(map(estimate_tokens, (event.summary, event.progress, event.variables)))
        freed = self._replaced(state, border) - new
        return replace(event, after_tokens=_scaled(before, self._context.estimate(state), freed))

    def _short(self, state: RunState, message: ChatMessage) -> ChatMessage:
        return self._context.shortened(state, message, self._setup.shorten_chars)[0]

    def _handles(self, state: RunState, first: int, border: int) -> tuple[str, ...]:
        """The blobs of the results that are shortened, or not sent at all, from here on."""
        found: list[str] = []
        for message in state.messages[first:border]:
            short, raw = self._context.shortened(state, message, self._setup.shorten_chars)
            if short is not message and isinstance(message, ToolMessage):
                found.append(sha256(raw) if raw else state.whole[message.call_id][0])
        return tuple(dict.fromkeys(found))

    def _keep(self, state: RunState, first: int, border: int) -> None:
        for message in state.messages[first:border]:
            raw = self._context.shortened(state, message, self._setup.shorten_chars)[1]
            if raw is not None:
                self._journal.keep(raw)

    def _stopped(self, intent: ModelRequested, why: str) -> None:
        logs.compaction_stopped(_LOG, self._journal.task, intent.path, why)


def _problem(reply: ModelReply, event: ContextCompacted, before: int, tools: Sequence[str]) -> str:
    """Why a reply is no summary; "" if it is one."""
    if reply.problem or not event.summary:
        return reply.problem or "the summary is empty"
    if reply.calls or is_call_text(event.summary, tools):
        return "the summary is a tool call"
    if reply.finish_reason == "content_filter":
        return "the summary was held back by the provider's filter"
    if before - event.after_tokens < before * _LEAST_FREED:
        return f"the summary frees less than {_LEAST_FREED:.0%}"
    return ""


def _scaled(size: int, estimated: int, freed: int) -> int:
    """A size after so much was freed, where both its estimate and its true measure are known."""
    return max(0, round(size * (1 - freed / max(1, estimated))))


def _shortened_upto(state: RunState) -> int:
    return state.compacted.shortened if state.compacted else 0
