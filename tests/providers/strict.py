"""What providers refuse, as strictly as any of them does; beside each rule, where it is from.

`check(kind, body)` raises `Refused` with the words of the provider, as its answer 400 would have
them. Where servers of one kind differ, the strictest is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, cast

Object = Mapping[str, object]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OPENAI_ID_CHARS = 40
"""pydantic/pydantic-ai#4389: "string too long. Expected a string with maximum length 40"."""
MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
"""mistralai/mistral-common, `MistralRequestValidatorV3`; langchain-ai/langchain#24668."""
ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Anthropic API reference, `tool_use.id`; the length is Bedrock's (`ToolUseBlock.toolUseId`)."""


class Refused(Exception):
    """The answer 400."""


def check(kind: str, body: bytes) -> Object:
    """Look at a request body as a provider does; returns it read.

    Raises:
        Refused: It is no valid request.
    """
    read = _json(body)
    CHECKS[kind](read)
    return read


def openai(body: Object) -> None:
    """Chat completions by the strictest of the common rules."""
    messages = _messages(body)
    before: Object | None = None
    due: list[str] = []
    used: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        _need(role in ("system", "user", "assistant", "tool"), f"messages[{place}]: role {role!r}")
        if role == "tool":
            _take_result(message, due, place)
        else:
            # agno-agi/agno#3105: "An assistant message with 'tool_calls' must be followed by tool
            # messages responding to each 'tool_call_id'".
            _need(not due, f"tool_call_ids did not have response messages: {due}")
        if role == "assistant":
            due = _calls(message, used, place)
        _content(message, place)
        before = message
    _need(not due, f"tool_call_ids did not have response messages: {due}")
    assert before is not None
    # "System message must be at the beginning.": Qwen 3.5's template, vllm-project/vllm#41114.
    roles = [message.get("role") for message in messages]
    _need("system" not in roles[1:], "System message must be at the beginning.")
    # ChatGPTNextWeb/NextChat#6343: "The first message (except the system message) of
    # deepseek-reasoner must be a user message".
    others = [role for role in roles if role != "system"]
    _need(others[:1] == ["user"], "the first message must be a user message")
    # Also Qwen 3's template: "No user query found in messages."
    _need("user" in roles, "No user query found in messages.")
    # mistral-common, `_validate_last_message`: "Expected last role User or Tool".
    _need(roles[-1] in ("user", "tool"), f"Expected last role User or Tool but got {roles[-1]}")


def _take_result(message: Object, due: list[str], place: int) -> None:
    # itmisx/deepx-code#94: "Messages with role 'tool' must be a response to a preceding message
    # with 'tool_calls'". The order of the calls: templates without ids pair by it
    # (ollama/ollama#6708).
    wanted = due.pop(0) if due else None
    got = message.get("tool_call_id")
    _need(got == wanted, f"messages[{place}] must be a response to a preceding call, got {got!r}")


def _calls(message: Object, used: set[str], place: int) -> list[str]:
    if "tool_calls" not in message:
        return []
    calls = _list(message["tool_calls"])
    # OpenAI: "[] is too short - 'messages.1.tool_calls'".
    _need(bool(calls), f"messages[{place}].tool_calls is too short")
    ids: list[str] = []
    for call in calls:
        known, function = call.get("id"), _object(call.get("function"))
        assert isinstance(known, str)
        _need(call.get("type") == "function", "type must be function")
        _need(0 < len(known) <= OPENAI_ID_CHARS, f"id {known!r}: string too long or empty")
        # anomalyco/opencode and others: an id that comes again is paired with the wrong result.
        _need(known not in used, f"id {known!r} comes again")
        used.add(known)
        name = function.get("name")
        # OpenAI API reference: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum
        # length of 64".
        _need(isinstance(name, str) and NAME.fullmatch(name) is not None, f"name {name!r}")
        _arguments(function.get("arguments"))
        ids.append(known)
    return ids


def _arguments(text: object) -> None:
    # Servers whose templates print arguments as JSON read them first: vLLM, llama.cpp, DashScope.
    assert isinstance(text, str)
    value = _json(text.encode())
    assert value is not None


def _content(message: Object, place: int) -> None:
    role, content = message.get("role"), message.get("content")
    is_blank = content is None or (isinstance(content, str) and not content.strip())
    if role == "assistant":
        # AstrBotDevs/AstrBot#7200, Kimi: "the message at position 8 with role 'assistant' must not
        # be empty". carlrobertoh/ProxyAI#834, DeepSeek: "content or tool_calls must be set".
        _need(bool(message.get("tool_calls")) or not is_blank, f"messages[{place}] is empty")
    else:
        # OpenAI API reference: content is required but for an assistant with calls; GLM and Kimi
        # refuse an empty one.
        _need(not is_blank, f"messages[{place}] with role {role!r} must not be empty")


def mistral(body: Object) -> None:
    """Mistral's own rules, on top of the common ones."""
    openai(body)
    turns(body)
    after = {
        "system": {"user", "assistant", "system"},
        "user": {"assistant", "system", "user"},
        "assistant": {"assistant", "user", "tool"},
        "tool": {"assistant", "tool"},
    }
    before = ""
    for message in _messages(body):
        role = str(message.get("role"))
        # mistral-common, `_validate_message_order`: "Unexpected role 'user' after role 'tool'".
        allowed = not before or role in after[before]
        _need(allowed, f"Unexpected role '{role}' after role '{before}'")
        for call in _list(message.get("tool_calls")):
            known = str(call.get("id"))
            _need(MISTRAL_ID.fullmatch(known) is not None, f"Tool call id was {known}")
        before = role


def turns(body: Object) -> None:
    """Chat templates that raise where roles do not alternate."""
    openai(body)
    wanted = "user"
    for message in _messages(body):
        role = message.get("role")
        # Ministral 3: "After the optional system message, conversation roles must alternate user
        # and assistant roles except for tool calls and results" (charmbracelet/crush#279);
        # infiniflow/ragflow#11021.
        if role in ("system", "tool") or (role == "assistant" and message.get("tool_calls")):
            continue
        _need(role == wanted, "Conversation roles must alternate user/assistant/user/assistant/...")
        wanted = "assistant" if role == "user" else "user"


def react(body: Object) -> None:
    """A plain chat in which tools are spoken of in words alone; roles may have to alternate."""
    turns(body)
    for message in _messages(body):
        _need(message.get("role") != "tool", "Only user and assistant roles are supported!")
        _need("tool_calls" not in message, "a plain chat has no tool_calls")
    _need("tools" not in body, "a plain chat has no tools")


def anthropic(body: Object) -> None:
    """Anthropic Messages."""
    cap = body.get("max_tokens")
    _need(isinstance(cap, int) and cap > 0, "max_tokens: Field required")
    # `system: text content blocks must be non-empty` (anthropics/claude-code#59812).
    system = body.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else _list(system):
        _need(bool(str(block.get("text")).strip()), "system: text content blocks must be non-empty")
    messages = _messages(body)
    # "messages: first message must use the \"user\" role" (API errors), and no prefill for newer
    # models: "the conversation must end with a user message".
    _need(messages[0].get("role") == "user", 'first message must use the "user" role')
    _need(messages[-1].get("role") == "user", "the conversation must end with a user message")
    used: set[str] = set()
    due: list[str] = []
    before = ""
    for place, message in enumerate(messages):
        role = str(message.get("role"))
        _need(
            role in ("user", "assistant"), f"messages.{place}: Input should be 'user'/'assistant'"
        )
        # API reference: neighbours of one role are combined; results have to be in one message.
        _need(role != before, "roles must alternate")
        before = role
        blocks = _blocks(message, place)
        _results(blocks, due, place)
        due = _uses(blocks, used, place) if role == "assistant" else []
        if role == "user":
            _need(not _uses(blocks, used, place), "tool_use in a user's message")
    _need(not due, f"tool_use ids were found without tool_result blocks: {due}")
    _need(
        not used or bool(body.get("tools")), "Requests which include `tool_use` must define tools"
    )


def _blocks(message: Object, place: int) -> list[Object]:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = _list(content)
    _need(bool(blocks), f"messages.{place}: all messages must have non-empty content")
    for block in blocks:
        if block.get("type") == "text":
            # home-assistant/core#175637: "text content blocks must contain non-whitespace text".
            _need(bool(str(block.get("text")).strip()), "text content blocks must be non-empty")
    return blocks


def _results(blocks: Sequence[Object], due: list[str], place: int) -> None:
    kinds = [block.get("type") for block in blocks]
    got = [str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"]
    # Anthropic, "Handle tool calls": results come directly after the calls and first in their
    # message. anthropics/claude-code#7929, tghamm/Anthropic.SDK#184.
    _need(all(kind == "tool_result" for kind in kinds[: len(got)]), "tool_result must come first")
    missing = sorted(set(due) - set(got))
    _need(not missing, f"messages.{place - 1}: ids were found without tool_result: {missing}")
    _need(sorted(got) == sorted(due), f"messages.{place}: unexpected tool_use_id in {got}")


def _uses(blocks: Sequence[Object], used: set[str], place: int) -> list[str]:
    ids: list[str] = []
    for block in blocks:
        if block.get("type") != "tool_use":
            continue
        known, name = str(block.get("id")), str(block.get("name"))
        _need(ANTHROPIC_ID.fullmatch(known) is not None, f"messages.{place}: id {known!r}: pattern")
        # trycua/cua#524: "`tool_use` ids must be unique".
        _need(known not in used, "`tool_use` ids must be unique")
        used.add(known)
        _need(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name) is not None, f"name {name!r}: pattern")
        # "tool_use.input: Input should be a valid dictionary".
        _need(isinstance(block.get("input"), dict), "Input should be a valid dictionary")
        ids.append(known)
    return ids


CHECKS: dict[str, Callable[[Object], None]] = {
    "openai": openai,
    "mistral": mistral,
    "turns": turns,
    "react": react,
    "anthropic": anthropic,
}


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise Refused(message)


def _refuse(constant: str) -> NoReturn:
    raise Refused(f"{constant} is not JSON")


def _json(body: bytes) -> Object:
    """A JSON object as strict readers take it: UTF-8, finite numbers, whole characters."""
    try:
        text = body.decode()
        value = cast("object", json.loads(text, parse_constant=_refuse))
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as exc:
        raise Refused(f"We could not parse the JSON body of your request: {exc}") from exc
    # PostgreSQL and C strings behind a server end at it: "\u0000 cannot be converted to text".
    _need(not _has_zero(value), "a text holds a zero byte")
    _need(isinstance(value, dict), "not a JSON object")
    return _object(value)


def _has_zero(value: object) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        found = cast("dict[str, object]", value)
        return any(_has_zero(item) for pair in found.items() for item in pair)
    return isinstance(value, list) and any(map(_has_zero, cast("list[object]", value)))


def _messages(body: Object) -> list[Object]:
    messages = _list(body.get("messages"))
    _need(bool(messages), "messages: at least one message is required")
    return messages


def _list(value: object) -> list[Object]:
    return [_object(item) for item in cast("list[object]", value or [])]


def _object(value: object) -> Object:
    assert isinstance(value, dict), value
    return cast("Object", value)
