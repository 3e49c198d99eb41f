"""Any canonical history made into one that a provider accepts; itself it stays as it is.

What a person or a model wrote is never lost. Words that stand here and that nobody said are put in
only where a provider would refuse the request without them.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes.models.mending import EMPTY, FIT, mended
from hermes.models.renaming import Names

NO_RESULT = "no result was recorded"
BEGINNING = "(the beginning of the conversation is left out)"
GO_ON = "(go on)"
NOTED = "(noted)"

_GAP = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a dialect demands of a conversation beyond whole pairs of calls and results.

    The defaults are what every server that is known of accepts, but for those that have rules of
    their own here.

    Attributes:
        id_pattern: A call's id has to match it whole; one that does not gets another, the same
            each time. Ids made of small letters and digits have to match it.
        id_chars: Longest id.
        name_pattern: The same for a called tool's name, which a model may have made up.
        name_chars: Longest name.
        alternates: User and assistant have to take turns; neighbours are joined.
        system_first: One system message at most, at the beginning.
        user_first: The first message that is not the system's is a user's.
        user_last: The last message is no assistant's.
        user_after_tool: A user's message may follow a result directly.
    """

    id_pattern: str = r"[a-zA-Z0-9_-]+"
    id_chars: int = 40
    name_pattern: str = r"[a-zA-Z0-9_-]+"
    name_chars: int = 64
    alternates: bool = False
    system_first: bool = True
    user_first: bool = True
    user_last: bool = True
    user_after_tool: bool = True


ANY = Rules()
ANTHROPIC = Rules(id_chars=64, name_chars=128)
MISTRAL = Rules(id_pattern=r"[a-zA-Z0-9]{9}", id_chars=9, alternates=True, user_after_tool=False)
TURNS = Rules(alternates=True, user_after_tool=False)
"""For chat templates that raise where roles do not alternate: Gemma's, Llama 2's and others."""

_MISTRAL = re.compile(r"(mis|minis|mix|pix|devs|codes|magis|maths|vox)tral")
_TURNS = re.compile(r"gemma|llama-?2\b|deepseek-(reasoner|r1)")


def rules_for(name: str, *, host: str = "") -> Rules:
    """The rules of a chat completions server, by the model's name and the server's host."""
    name = name.lower()
    if _MISTRAL.search(name) or host.endswith("mistral.ai"):
        return MISTRAL
    return TURNS if _TURNS.search(name) else ANY


def render(messages: Sequence[ChatMessage], rules: Rules) -> list[ChatMessage]:
    """The conversation as a provider may be sent it, whatever was cut from it or went wrong.

    Each call has one result, directly after its message and in the calls' order; a result without
    a call is dropped, since what a tool said must not read as a user's word. Contents are texts
    that a JSON reader takes, arguments JSON objects.

    A message that needs no change is given as the same object, so that its memo holds; a
    conversation that needs none costs about half a microsecond a message.
    """
    if _is_fit(messages, rules):
        return list(messages)
    return _framed(_paired(messages, rules), rules)


class Renderer:
    """`render` for conversations that grow: what was looked at once is not looked at again.

    Args:
        rules: Of the dialect.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._known: dict[int, _Looked] = {}

    def render(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """As `render`."""
        first = messages[0] if messages else None
        if not isinstance(first, SystemMessage):
            return render(messages, self._rules)
        # A passing reminder at the end is not there the next time.
        last = messages[-1]
        stay = len(messages) - (isinstance(last, UserMessage) and last.reminder)
        looked = self._known.get(id(first))
        if looked is None or messages[1 : len(looked.seen) + 1] != looked.seen:
            looked = self._known[id(first)] = self._begin(first)
        if not all(map(looked.takes, messages[len(looked.seen) + 1 : stay])):
            self._known.pop(id(first), None)
            return render(messages, self._rules)
        if stay < len(messages) and not looked.may_end_with(last):
            return render(messages, self._rules)
        if stay == len(messages) and not looked.is_whole:
            return render(messages, self._rules)
        return list(messages)

    def _begin(self, first: SystemMessage) -> _Looked:
        key, known = id(first), self._known
        looked = _Looked(fitness=_Fitness(self._rules))
        # Its message must not be held: it ends with its conversation, and so does what is known.
        looked.first = weakref.ref(first, lambda _: known.pop(key, None))
        looked.is_begun = looked.fitness.take(first)
        return looked


@dataclass(slots=True, kw_only=True)
class _Looked:
    """How far a conversation was looked at, its first message aside, and found fit."""

    fitness: _Fitness
    seen: list[ChatMessage] = field(default_factory=list[ChatMessage])
    first: weakref.ref[SystemMessage] | None = None
    is_begun: bool = False

    def takes(self, message: ChatMessage) -> bool:
        """Whether the next message is fit behind those."""
        if not (self.is_begun and self.fitness.take(message)):
            return False
        self.seen.append(message)
        return True

    def may_end_with(self, message: ChatMessage) -> bool:
        """Whether a message that is not kept may stand at the end."""
        return self.is_begun and self.fitness.would_take(message)

    @property
    def is_whole(self) -> bool:
        return self.is_begun and self.fitness.is_whole


def _is_fit(messages: Sequence[ChatMessage], rules: Rules) -> bool:
    """Whether nothing has to be changed; False for some in which nothing has."""
    fitness = _Fitness(rules)
    return all(map(fitness.take, messages)) and fitness.is_whole


class _Fitness:
    """Looks at one message after the other, as long as nothing has to be changed."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._names = Names(rules)
        self._ids: set[str] = set()
        self._due: list[str] = []
        self._before = ""

    def take(self, message: ChatMessage) -> bool:
        """Whether it needs no change behind those before it; if it does, nothing more is taken."""
        if not self.would_take(message):
            return False
        if isinstance(message, ToolMessage):
            self._due.pop()
        elif isinstance(message, AssistantMessage) and message.calls:
            self._due = [call.id for call in reversed(message.calls)]
            self._ids.update(self._due)
        self._before = message.kind
        return True

    def would_take(self, message: ChatMessage) -> bool:
        """As `take`, without taking it."""
        if FIT not in message.memo and mended(message) is not message:
            return False
        if isinstance(message, ToolMessage):
            return bool(self._due) and self._due[-1] == message.call_id
        if self._due or not _may_follow(self._before, message, self._rules):
            return False
        if not isinstance(message, AssistantMessage) or not message.calls:
            return True
        ids = {call.id for call in message.calls}
        is_new = len(ids) == len(message.calls) and ids.isdisjoint(self._ids)
        return is_new and self._names.are_legal(message)

    @property
    def is_whole(self) -> bool:
        """Whether a conversation may end here."""
        return not self._due and self._before in ("user", "tool")


def _may_follow(
    before: str, message: SystemMessage | UserMessage | AssistantMessage, rules: Rules
) -> bool:
    """Whether a message may stand behind one of the kind `before`, which is empty at first."""
    if isinstance(message, AssistantMessage):
        is_begun = before != "" and before != "system"
        return is_begun and not (rules.alternates and before == "assistant")
    if isinstance(message, UserMessage):
        if before == "tool":
            return rules.user_after_tool
        return not (rules.alternates and before == "user")
    return before == ""


@dataclass(slots=True, kw_only=True)
class _Group:
    """A message, and the results of its calls in the calls' order."""

    message: ChatMessage
    results: list[ToolMessage | None] = field(default_factory=list[ToolMessage | None])

    def flat(self) -> Iterable[ChatMessage]:
        yield self.message
        if isinstance(self.message, AssistantMessage):
            for call, result in zip(self.message.calls, self.results, strict=True):
                yield _answer(call, result)


def _answer(call: ToolCall, result: ToolMessage | None) -> ToolMessage:
    if result is None:
        return ToolMessage(call_id=call.id, name=call.name, text=NO_RESULT, is_error=True)
    if result.call_id == call.id:
        return result
    return replace(result, call_id=call.id, memo={})


def _paired(messages: Sequence[ChatMessage], rules: Rules) -> list[ChatMessage]:
    """The messages with fit contents, and each call with its result directly after it.

    A result belongs to the last call of its id that has none yet.
    """
    names = Names(rules)
    groups: list[_Group] = []
    open_calls: dict[str, list[tuple[_Group, int]]] = {}
    for original in messages:
        message = mended(original)
        if message is None:
            continue
        if isinstance(message, ToolMessage):
            if waiting := open_calls.get(message.call_id):
                group, place = waiting.pop()
                group.results[place] = message
            continue
        group = _Group(message=message)
        if isinstance(message, AssistantMessage) and message.calls:
            waiting_now: dict[str, list[tuple[_Group, int]]] = {}
            for place in reversed(range(len(message.calls))):
                waiting_now.setdefault(message.calls[place].id, []).append((group, place))
            open_calls |= waiting_now
            group.message = names.fit(message)
            group.results = [None] * len(message.calls)
        groups.append(group)
    return list(chain.from_iterable(group.flat() for group in groups))


def _framed(messages: Sequence[ChatMessage], rules: Rules) -> list[ChatMessage]:
    """The messages in an order of roles that the rules allow."""
    if not rules.system_first:
        return _turns(messages, rules)
    system = [message for message in messages if isinstance(message, SystemMessage)]
    if not system:
        return _turns(messages, rules)
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    first = system[0]
    if len(system) > 1:
        first = SystemMessage(text=_GAP.join(message.text for message in system))
    return [first, *_turns(others, rules)]


def _turns(messages: Sequence[ChatMessage], rules: Rules) -> list[ChatMessage]:
    turns: list[ChatMessage] = []
    is_begun = not rules.user_first
    for message in messages:
        if not is_begun and not isinstance(message, SystemMessage):
            is_begun = True
            if isinstance(message, AssistantMessage):
                turns.append(UserMessage(text=BEGINNING, reminder=True))
        last = turns[-1] if turns else None
        if rules.alternates and (joined := _joined(last, message)) is not None:
            turns[-1] = joined
            continue
        if (
            isinstance(last, ToolMessage)
            and isinstance(message, UserMessage)
            and not rules.user_after_tool
        ):
            turns.append(AssistantMessage(text=NOTED))
        turns.append(message)
    return _ended(turns, rules)


def _joined(last: ChatMessage | None, message: ChatMessage) -> ChatMessage | None:
    """Two neighbours of the same role as one message, or None if they are not."""
    if isinstance(last, UserMessage) and isinstance(message, UserMessage):
        return UserMessage(
            text=_both(last.text, message.text),
            images=last.images + message.images,
            reminder=last.reminder and message.reminder,
        )
    if isinstance(last, AssistantMessage) and isinstance(message, AssistantMessage):
        return AssistantMessage(
            text=_both(last.text, message.text),
            calls=message.calls,  # the first has none: results would stand between the two
            reasoning=_both(last.reasoning, message.reasoning),
            opaque=message.opaque,
        )
    return None


def _both(first: str, second: str) -> str:
    return f"{first}{_GAP}{second}" if first and second else first or second


def _ended(turns: list[ChatMessage], rules: Rules) -> list[ChatMessage]:
    last = turns[-1] if turns else None
    if last is None or isinstance(last, SystemMessage):
        is_empty = all(isinstance(turn, SystemMessage) for turn in turns)
        turns.append(UserMessage(text=EMPTY if is_empty else GO_ON, reminder=True))
    elif isinstance(last, AssistantMessage):
        if rules.user_last:
            turns.append(UserMessage(text=GO_ON, reminder=True))
        elif last.text != (text := last.text.rstrip()):
            # Anthropic refuses it, and a model goes on badly after a blank.
            turns[-1] = replace(last, text=text, memo={})
    return turns
