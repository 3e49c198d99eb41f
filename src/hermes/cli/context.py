"""`hermes context`: what a model was sent at a call of a task."""

from __future__ import annotations

import anyio

from hermes.agents import Launch
from hermes.app import Agent, Hermes
from hermes.core.chat import AssistantMessage, ChatMessage, ToolMessage
from hermes.runtime.sent import Part, Sent

from . import output
from .find import find_task, require_journal
from .run import settings_in_force


def context(wanted: str, flags: Launch, *, at: str | None, json: bool) -> None:
    """Print what the model was sent, with the tokens of each part."""
    settings = settings_in_force()
    require_journal(settings)

    async def work() -> Sent:
        async with Hermes(settings=settings) as app:
            found = await find_task(app.store, wanted)
            launch = Launch.recorded(found.spec.launch).overridden_by(flags)
            return await app.sent(found.task_id, Agent.of(launch.definition()), at=at)

    found = anyio.run(work)
    if json:
        output.print_json(_object(found))
    else:
        output.print_text("\n".join(_lines(found)))


def _object(found: Sent) -> dict[str, object]:
    return {
        "task_id": found.task_id,
        "path": found.path,
        "model": found.model,
        "purpose": found.purpose,
        "tokens": {
            **{part.name: part.tokens for part in found.parts},
            "tools": found.tools_tokens,
            "all": _all(found),
            "counted_by_provider": found.counted,
        },
        "summary_tokens": {name: n for part in found.parts for name, n in part.pieces.items()},
        "messages": [
            {"part": part.name, **_message(message)}
            for part in found.parts
            for message in part.messages
        ],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in found.tools
        ],
        "differences": list(found.differences),
    }


def _message(message: ChatMessage) -> dict[str, object]:
    shown: dict[str, object] = {"role": message.kind, "text": message.text}
    if isinstance(message, AssistantMessage) and message.calls:
        shown["calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.calls
        ]
    elif isinstance(message, ToolMessage):
        shown |= {"call_id": message.call_id, "name": message.name, "is_error": message.is_error}
    return shown


def _all(found: Sent) -> int:
    return sum(part.tokens for part in found.parts) + found.tools_tokens


def _lines(found: Sent) -> list[str]:
    lines = [f"{found.task_id}  {found.path}  {found.model}"]
    if found.purpose == "compaction":
        lines.append("a request for a summary of the conversation's older part")
    lines += ["", *output.table(_rows(found), numbers=(1, 2))]
    if found.counted is not None:
        lines.append(f"by the provider's count: {found.counted:,} tokens")
    if found.differences:
        lines += ["", *(f"note: {line}" for line in found.differences)]
    for part in found.parts:
        lines += ["", f"== {part.name}", *_texts(part)]
    if found.tools:
        names = ", ".join(tool.name for tool in found.tools)
        lines += ["", "== tools", f"{names}  (--json shows them whole)"]
    return lines


def _rows(found: Sent) -> list[tuple[str, str, str]]:
    rows = [("part", "messages", "tokens (estimated)")]
    for part in found.parts:
        rows.append((part.name, str(len(part.messages)), f"{part.tokens:,}"))
        rows += [(f"  {name}", "", f"{tokens:,}") for name, tokens in part.pieces.items()]
    if found.tools:
        rows.append(("tools", "", f"{found.tools_tokens:,}"))
    return [*rows, ("all", "", f"{_all(found):,}")]


def _texts(part: Part) -> list[str]:
    lines: list[str] = []
    for message in part.messages:
        about = f" {message.name} {message.call_id}" if isinstance(message, ToolMessage) else ""
        lines.append(f"[{message.kind}{about}]")
        if message.text:
            lines.append(message.text)
        if isinstance(message, AssistantMessage):
            lines += [f"calls {call.name} {call.arguments}" for call in message.calls]
    return lines
