"""The rule engine: a model that follows a playbook, the same way every time, without a network.

It keeps no state. Where it stands is read from the conversation: the calls it made since the goal
carry in their id which of the steps with their tool they are, and their results stand beside them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from hermes.core import json
from hermes.core.chat import AssistantMessage, ChatMessage, ToolCall, ToolMessage, UserMessage
from hermes.errors import CodecError, ModelError
from hermes.models.base import CallDelta, ModelReply, ModelRequest, StreamPart, TextDelta
from hermes.models.playbook_code import code_of
from hermes.models.playbook_file import Filled, Playbook, Rule, Step
from hermes.models.templates import Expression, TemplateFault, TextTemplate

MAX_ITEMS = 1000
"""Most calls that one `foreach` may make."""

_CALL_ID = re.compile(r"pb\d+([ns])(\d+)")  # `s`: the step's number, as version 0.1.0 wrote it
_CJK = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_RULES_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A call that was made, and what it came to."""

    step: int
    call: ToolCall
    result: ToolMessage


class PlaybookModel:
    """Answers by the rules of a playbook.

    Variables are read as they are at each turn; a step that was made is never made again, whatever
    its condition says now.

    Args:
        playbook: The rules.
        changed: They were others before, and that was accepted: calls of steps that are gone are
            passed over instead of refused.
    """

    def __init__(self, playbook: Playbook, *, changed: bool = False) -> None:
        self._playbook, self._changed = playbook, changed

    @property
    def name(self) -> str:
        """`playbook:` and the playbook's own name."""
        return f"playbook:{self._playbook.name}"

    def program_parts(self, goal: str) -> dict[str, str]:
        """What a run with this goal depends on, part by part: see `playbook_code`."""
        return code_of(self._playbook, goal)

    def after_change(self) -> PlaybookModel:
        """The same rules for a task that began under others."""
        return PlaybookModel(self._playbook, changed=True)

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The next calls, or the answer when all steps are done.

        Raises:
            ModelError: Code `playbook`: no rule fits, a call failed, or a template cannot be
                filled.
        """
        start, goal = _goal(request.messages)
        names: dict[str, object] = {
            "goal": goal,
            "lang": "zh" if _CJK.search(goal) else "en",
            "vars": dict(request.variables),
        }
        for rule in self._playbook.rules:
            found = rule.when.match(goal)
            if found is not None:
                return self._follow(rule, names | found, request, start)
        if self._playbook.otherwise is None:
            raise self._no_rule(goal)
        return self._answer(self._playbook.otherwise, names, where="otherwise")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`, with the text and the calls as one delta each.

        Raises:
            ModelError: As `reply`.
        """
        reply = await self.reply(request)
        if reply.text:
            yield TextDelta(text=reply.text)
        for call in reply.calls:
            yield CallDelta(name=call.name)
        yield reply

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _follow(
        self, rule: Rule, names: dict[str, object], request: ModelRequest, start: int
    ) -> ModelReply:
        for name, part in rule.sets.items():
            names[name] = self._fill(part, names, where=f"{rule}, set.{name}")
        made = self._made(rule, request.messages[start:])
        last = max((one.step for one in made), default=0)
        for step in rule.steps:
            of_step = [one for one in made if one.step == step.number]
            if of_step:
                results = [self._result(rule, step, one.result) for one in of_step]
                _keep(names, step, results)
                continue
            planned = [] if step.number < last else self._plan(rule, step, names)
            if planned:
                return self._ask(rule, step, planned, request)
            _keep(names, step, [])
        return self._answer(rule.answer, names, where=f"{rule}, answer")

    def _made(self, rule: Rule, messages: Sequence[ChatMessage]) -> list[_Made]:
        results = {item.call_id: item for item in messages if isinstance(item, ToolMessage)}
        made: list[_Made] = []
        for call in _calls(messages):
            found = _CALL_ID.fullmatch(call.id)
            step = _step_of(rule, call, found) if found else None
            if step is None and found and self._changed:
                continue
            if step is None or call.id not in results:
                self._fail(
                    f"{rule}: the conversation has a call of {call.name!r} ({call.id!r}) that "
                    f"does not belong to this rule",
                    hint="was the playbook changed during the task? then start a new one",
                )
            made.append(_Made(step=step.number, call=call, result=results[call.id]))
        return made

    def _result(self, rule: Rule, step: Step, message: ToolMessage) -> object:
        result = _read_result(message.content)
        if not message.is_error:
            return result
        error = (json.as_object(result) or {}).get("error", result)
        if not step.continues:
            said = (json.as_object(error) or {}).get("message", error)
            text = said if isinstance(said, str) else json.dumps(said)
            self._fail(f"{rule}, {step} failed: {text}")
        return {"error": error if json.as_object(error) is not None else {"message": error}}

    def _plan(
        self, rule: Rule, step: Step, names: Mapping[str, object]
    ) -> list[Mapping[str, object]]:
        """The arguments of each call that the step makes now; empty if it makes none."""
        where = f"{rule}, {step}"
        scopes: list[Mapping[str, object]] = [names]
        per_item = step.condition is not None and step.item in step.condition.names
        if step.condition is not None and not (step.foreach and per_item):
            if not self._value(step.condition, names, where=f"{where}, if"):
                return []
        if step.foreach is not None:
            items = self._value(step.foreach, names, where=f"{where}, foreach")
            if not isinstance(items, list):
                self._fail(
                    f"{where}, foreach: {step.foreach.source!r} gives no list: {items!r:.80}"
                )
            scopes = [{**names, step.item: item} for item in json.as_list(cast("object", items))]
            if per_item and step.condition is not None:
                condition = step.condition
                scopes = [s for s in scopes if self._value(condition, s, where=f"{where}, if")]
        if len(scopes) > MAX_ITEMS:
            self._fail(f"{where}, foreach: {len(scopes)} calls, at most {MAX_ITEMS} are allowed")
        return [
            {
                key: self._fill(part, scope, where=f"{where}, with.{key}")
                for key, part in step.arguments.items()
            }
            for scope in scopes
        ]

    def _ask(
        self,
        rule: Rule,
        step: Step,
        planned: Sequence[Mapping[str, object]],
        request: ModelRequest,
    ) -> ModelReply:
        offered = [spec.name for spec in request.tools]
        if step.call not in offered:
            self._fail(
                f"{rule}, {step}: this agent has no tool {step.call!r}",
                hint=f"it has {', '.join(sorted(offered)) or 'none'}",
            )
        # Counted through the whole conversation, so that no id comes twice in a session.
        first = 1 + len(_calls(request.messages))
        calls = tuple(
            ToolCall(id=f"pb{number}n{step.nth}", name=step.call, arguments=json.dumps(part))
            for number, part in enumerate(planned, start=first)
        )
        return ModelReply(calls=calls, finish_reason="tool_calls", model=self.name)

    def _answer(
        self, made: TextTemplate | Expression, names: Mapping[str, object], *, where: str
    ) -> ModelReply:
        value = self._value(made, names, where=where)
        text = value if isinstance(value, str) else json.dumps(value)
        return ModelReply(text=text, model=self.name)

    def _fill(self, part: Filled, names: Mapping[str, object], *, where: str) -> object:
        if isinstance(part, TextTemplate | Expression):
            return self._value(part, names, where=where)
        if isinstance(part, list):
            items = enumerate(json.as_list(cast("object", part)))
            return [self._fill(item, names, where=f"{where}[{number}]") for number, item in items]
        found = json.as_object(part)
        if found is None:
            return part
        return {key: self._fill(item, names, where=f"{where}.{key}") for key, item in found.items()}

    def _value(
        self, made: TextTemplate | Expression, names: Mapping[str, object], *, where: str
    ) -> object:
        try:
            return made.value(names)
        except TemplateFault as exc:
            raise self._error(f"{where}: {exc.message}", hint=exc.hint) from exc

    def _no_rule(self, goal: str) -> ModelError:
        rules = [f"{rule.name} wants {rule.when}" for rule in self._playbook.rules[:_RULES_SHOWN]]
        more = len(self._playbook.rules) - len(rules)
        return self._error(
            f"no rule fits the goal {goal!r:.120}",
            hint="; ".join(rules) + (f"; and {more} more" if more else ""),
        )

    def _fail(self, message: str, *, hint: str = "") -> NoReturn:
        raise self._error(message, hint=hint)

    def _error(self, message: str, *, hint: str = "") -> ModelError:
        return ModelError(
            f"playbook {self._playbook.name!r}, {message}", code="playbook", hint=hint
        )


def _goal(messages: Sequence[ChatMessage]) -> tuple[int, str]:
    """Where the last user message stands, and its text."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, UserMessage) and not message.reminder:
            return place, message.text
    raise ModelError("the conversation has no user message", code="playbook")


def _step_of(rule: Rule, call: ToolCall, found: re.Match[str]) -> Step | None:
    """The step that made a call, as the rule stands now."""
    number = int(found[2])
    for step in rule.steps:
        if step.call == call.name and number == (step.nth if found[1] == "n" else step.number):
            return step
    return None


def _calls(messages: Sequence[ChatMessage]) -> list[ToolCall]:
    return [call for item in messages if isinstance(item, AssistantMessage) for call in item.calls]


def _keep(names: dict[str, object], step: Step, results: list[object]) -> None:
    """Give the results their name: a list for `foreach`; a skipped step leaves its name alone."""
    if step.result_name and step.foreach is not None:
        names[step.result_name] = results
    elif step.result_name and results:
        names[step.result_name] = results[0]


def _read_result(text: str) -> object:
    """A tool's result: JSON where it is an object or a list, else the text."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except CodecError:
        return text
