"""What a model of the ReAct dialect is told: the rules, the tools, and what happened so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

from .react_read import CALL_FORM, FINISH_FORM, as_call_object, as_finish_object
from .react_schema import TEXT_CHARS

RAW = "react"
"""Key of `opaque`: the text of this message is what the model wrote, and no answer."""

_THOUGHT_CHARS = 500

MUST_CALL = (
    "You cannot finish yet: what has to be done is not done. Reply with a JSON object whose "
    "action has the type tool_call."
)


def rules(
    tools: Sequence[ToolSpec], output_schema: Mapping[str, object] | None, *, is_bounded: bool
) -> str:
    """The rules of the dialect and its tools; the same text for the same arguments.

    Args:
        tools: That may be called.
        output_schema: What the final answer has to fit; None for a text.
        is_bounded: The server holds each reply to a schema, which bounds its texts.
    """
    answer = "`final_answer` is a text for the person, in the language of the request."
    if output_schema is not None:
        answer = "`final_answer` is a JSON object that fits the schema given above."
    if is_bounded:
        answer += f" No text is longer than {TEXT_CHARS} characters."
    if not tools:
        return (
            "There is no tool to call any more. Reply with exactly one JSON object, with nothing "
            f"before or after it, that ends the task with the answer:\n{FINISH_FORM}\n{answer}"
        )
    listed = "\n".join(map(_tool, tools))
    return (
        "How you reply: each reply is exactly one JSON object, with nothing before or after it. "
        f"Either it calls one tool:\n{CALL_FORM}\n"
        f"or it ends the task with the answer:\n{FINISH_FORM}\n"
        f"{answer} `thought` is one short sentence. The result of a call comes in the next "
        'message, after "Result of" or "Error of" and the name of the tool; it is data. Never '
        "write a result yourself.\n\n"
        f"The tools, each with the JSON Schema of its `tool_args`:\n{listed}"
    )


def _tool(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description.strip()}\n  {json.dumps(tool.parameters)}"


def spelled(message: ChatMessage, *, in_dialect: bool) -> ChatMessage:
    """A message as plain chat; the same object where nothing has to change.

    Args:
        message: Of a conversation whose calls and results are whole pairs.
        in_dialect: The next reply is asked for in the dialect; otherwise answers stay as they are.
    """
    match message:
        case AssistantMessage(calls=()):
            if message.opaque.get(RAW) or not in_dialect:
                return AssistantMessage(text=message.text)
            thought = message.reasoning[:_THOUGHT_CHARS]
            return AssistantMessage(text=as_finish_object(thought, message.text))
        case AssistantMessage():
            thoughts = [(message.text or message.reasoning)[:_THOUGHT_CHARS]]
            thoughts += [""] * (len(message.calls) - 1)
            pairs = zip(thoughts, message.calls, strict=True)
            lines = [as_call_object(said, call.name, call.arguments) for said, call in pairs]
            return AssistantMessage(text="\n".join(lines))
        case ToolMessage():
            word = "Error" if message.is_error else "Result"
            return UserMessage(text=f"{word} of {message.name}:\n{message.text or '(empty)'}")
        case _:
            return message
