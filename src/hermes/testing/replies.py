"""A model whose replies stand in a list, and that may be started anew at any point of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import cast

from hermes.core import json
from hermes.core.chat import ToolCall
from hermes.core.tables import read_yaml
from hermes.errors import ConfigError
from hermes.models import ModelReply, ModelRequest, StreamPart

from .model import calls
from .outside import goal_of, replies_so_far

Reply = ModelReply | ToolCall | str


class RepliesModel:
    """Gives the n-th reply to a conversation that holds n-1 replies to its goal.

    Unlike `ScriptedModel` it remembers nothing, so a run that is resumed in a new process goes on
    with the right reply.

    Args:
        replies: In order; or such lists by goal, for a model that works on several tasks.
        name: How traces call it.
    """

    def __init__(
        self, replies: Sequence[Reply] | Mapping[str, Sequence[Reply]], *, name: str = "replies"
    ) -> None:
        self._replies, self._name = replies, name

    @property
    def name(self) -> str:
        """How traces call it."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The reply that stands at this place of the conversation.

        Raises:
            ConfigError: The list is too short, or there is none for this goal.
        """
        place, goal = replies_so_far(request.messages), goal_of(request.messages)
        listed = self._replies.get(goal) if isinstance(self._replies, Mapping) else self._replies
        if listed is None or place >= len(listed):
            held = 0 if listed is None else len(listed)
            raise ConfigError(
                f"reply {place + 1} to the goal {goal!r:.80} is asked for, the script holds {held}",
                hint="add it to the script",
            )
        reply = listed[place]
        if isinstance(reply, str):
            return ModelReply(text=reply, model=self._name)
        return reply if isinstance(reply, ModelReply) else calls(reply)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """The reply in one piece."""
        yield await self.reply(request)

    async def aclose(self) -> None:
        """Nothing is held open."""


def read_replies(path: Path) -> Sequence[Reply] | Mapping[str, Sequence[Reply]]:
    """Read a script of replies from a YAML or JSON file.

    The file holds a list of replies, or a mapping of goals to such lists. A reply is a text, or a
    mapping with `text` and `calls`; a call is `{name: …, arguments: {…}}`.

    Raises:
        ConfigError: The file cannot be read, or something in it is no reply.
    """
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"cannot read script {str(path)!r}: {exc.strerror}") from exc
    document = read_yaml(raw, name=str(path))
    table = json.as_object(document)
    if table is not None:
        return {goal: _replies(value, f"{path}: {goal!r}") for goal, value in table.items()}
    return _replies(document, str(path))


def _replies(value: object, where: str) -> list[Reply]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{where}: a script is a list of replies, got {value!r:.60}")
    items = json.as_list(cast("object", value))
    return [_reply(item, f"{where}[{number}]") for number, item in enumerate(items)]


def _reply(value: object, where: str) -> Reply:
    if isinstance(value, str):
        return value
    table = json.as_object(value)
    if table is None or not table or not table.keys() <= {"text", "calls"}:
        raise ConfigError(
            f"{where}: a reply is a text or has `text` and `calls`, got {value!r:.80}"
        )
    items = json.as_list(table.get("calls"))
    wanted = [_call(item, f"{where}.calls[{number}]") for number, item in enumerate(items)]
    return calls(*wanted, text=str(table.get("text", "")))


def _call(value: object, where: str) -> ToolCall:
    table = json.as_object(value)
    if table is None or not isinstance(table.get("name"), str):
        raise ConfigError(f"{where}: a call has `name` and `arguments`, got {value!r:.80}")
    if not table.keys() <= {"name", "arguments"}:
        raise ConfigError(f"{where}: a call has `name` and `arguments`, got {sorted(table)}")
    return ToolCall(
        id="", name=str(table["name"]), arguments=json.dumps(table.get("arguments", {}))
    )
