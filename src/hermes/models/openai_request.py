"""A canonical conversation as a chat completions request that any server accepts.

Each message is encoded once and kept in its memo; a request body is joined from the pieces, so
that a turn costs what is new in it and not the length of the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.core import json
from hermes.core.chat import ChatMessage, ToolSpec
from hermes.models.base import ModelRequest
from hermes.models.openai_format import response_format
from hermes.models.openai_message import Encoder
from hermes.models.profiles import Profile
from hermes.models.rendering import Renderer, Rules, rules_for

_KEPT = 16


class BodyBuilder:
    """Makes request bodies for one model.

    Args:
        name: The model's name, as the provider spells it.
        profile: What it and its server can be asked.
        host: Of the server, which alone is given back what it alone can read.
    """

    def __init__(self, name: str, *, profile: Profile, host: str = "") -> None:
        self._head = b'{"model":' + json.encode(name) + b',"messages":['
        self._profile = profile
        self._renderer = Renderer(_rules(name, profile, host))
        self._encoder = Encoder(profile, host=host)
        self._tools = _Kept()
        self._formats = _Kept()

    def build(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The request body as UTF-8 JSON.

        Raises:
            ModelError: A message has something that the model cannot read.
        """
        fragments = self._fragments(request.messages)
        tail = self._tail(request, fragments, stream=stream)
        # Around the first and the last fragment, so that one join copies the history once.
        fragments[0] = self._head + fragments[0]
        fragments[-1] += tail
        return b",".join(fragments)

    def _fragments(self, messages: Sequence[ChatMessage]) -> list[bytes]:
        fragments: list[bytes] = []
        key = self._encoder.key
        for message in self._renderer.render(messages):
            fragment = message.memo.get(key)
            if fragment is None:
                fragment = message.memo[key] = self._encoder.encode(message)
            if fragment:
                fragments.append(fragment)
        return fragments or [b""]

    def _tail(self, request: ModelRequest, fragments: Sequence[bytes], *, stream: bool) -> bytes:
        profile = self._profile
        tail = b"]"
        if request.tools:
            tail += b',"tools":' + self._encoded_tools(request.tools)
            if not request.may_finish and profile.tool_choice:
                tail += b',"tool_choice":"required"'
            if profile.parallel_field:
                tail += b',"parallel_tool_calls":' + json.encode(profile.parallel_calls)
        if request.output_schema is not None and (profile.json_with_tools or not request.tools):
            tail += self._encoded_format(request.output_schema, fragments)
        if (cap := capped(request.max_output_tokens, profile)) is not None:
            tail += b',"%s":%d' % (profile.cap_field.encode("ascii"), cap)
        if stream:
            tail += b',"stream":true,"stream_options":{"include_usage":true}'
        return tail + b"}"

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        known = self._tools.get(tools)
        if known is None:
            known = self._tools.put(tools, json.encode([_tool(spec) for spec in tools]))
        return known

    def _encoded_format(self, schema: Mapping[str, object], fragments: Sequence[bytes]) -> bytes:
        known = self._formats.get(schema)
        if known is None:
            form = response_format(schema, self._profile)
            encoded = b"" if form is None else b',"response_format":' + json.encode(form)
            known = self._formats.put(schema, encoded)
        # OpenAI, DeepSeek and others refuse this mode where no message has the word.
        if self._profile.json_mode == "object" and not any(map(_says_json, fragments)):
            return b""
        return known


@dataclass(slots=True)
class _Kept:
    """What was encoded, by identity: the loop passes the same objects at each turn.

    The object that is kept here keeps its id from being used for another.
    """

    items: dict[int, tuple[object, bytes]]

    def __init__(self) -> None:
        self.items = {}

    def get(self, thing: object) -> bytes | None:
        found = self.items.get(id(thing))
        return None if found is None else found[1]

    def put(self, thing: object, encoded: bytes) -> bytes:
        if len(self.items) >= _KEPT:
            self.items.clear()
        self.items[id(thing)] = thing, encoded
        return encoded


def capped(wanted: int | None, profile: Profile) -> int | None:
    """The cap of a reply's tokens: what is wanted, as far as the model can write it."""
    if wanted is None or profile.max_output is None:
        return wanted
    return min(wanted, profile.max_output)


def _rules(name: str, profile: Profile, host: str) -> Rules:
    rules = rules_for(name, host=host)
    if profile.alternates and not rules.alternates:
        return replace(rules, alternates=True, user_after_tool=False)
    return rules


def _says_json(fragment: bytes) -> bool:
    return b"JSON" in fragment or b"json" in fragment


def _tool(spec: ToolSpec) -> dict[str, object]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}
