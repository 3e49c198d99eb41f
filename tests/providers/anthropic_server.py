"""A server that answers from a script in the shape of Anthropic's Messages API.

A reply of the script is an object with `content`, a list of content blocks as the API has them, and
perhaps `stop` and `usage`; or with `status`, `raw` and the rest as in `tests/providers/server.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from tests.providers.server import ProviderServer
from tests.providers.shapes import Object

USAGE: Object = {
    "input_tokens": 11,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "output_tokens": 7,
}


class AnthropicServer(ProviderServer):
    """Serves `/v1/messages`; its `url` is without `/v1`, as Anthropic's own client wants it."""

    def __init__(self, script: Sequence[Object], *, in_order: bool = False) -> None:
        super().__init__("openai", script, in_order=in_order)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _body(self, scripted: Object, request: Object) -> tuple[bytes, dict[str, object]]:
        if "content" not in scripted:
            return super()._body(scripted, request)
        how = {name: scripted[name] for name in ("bytewise", "cut_after") if name in scripted}
        message = whole(scripted, model=str(request["model"]))
        if not request.get("stream"):
            return json.dumps(message, ensure_ascii=False).encode(), {
                "kind": "application/json",
                **how,
            }
        return as_stream(events(message)), {"kind": "text/event-stream", **how}


def whole(scripted: Object, *, model: str = "claude") -> dict[str, object]:
    """The message as an answer that is not streamed."""
    content = cast("list[Object]", scripted["content"])
    calls = any(block.get("type") == "tool_use" for block in content)
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": scripted.get("stop", "tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {**USAGE, **cast("Object", scripted.get("usage", {}))},
    }


def events(message: Object, *, size: int = 3) -> list[dict[str, object]]:
    """The same message as the events of a stream, its texts in pieces of `size` characters."""
    usage = cast("dict[str, object]", message["usage"])
    begun: Object = {
        **message,
        "content": list[object](),
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    found: list[dict[str, object]] = []
    found.append({"type": "message_start", "message": begun})
    for index, block in enumerate(cast("list[Object]", message["content"])):
        start, deltas = _pieces(block, size)
        found.append({"type": "content_block_start", "index": index, "content_block": start})
        found.append({"type": "ping"})
        for delta in deltas:
            found.append({"type": "content_block_delta", "index": index, "delta": delta})
        found.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    last = {"output_tokens": usage["output_tokens"]}
    found.append({"type": "message_delta", "delta": stopped, "usage": last})
    found.append({"type": "message_stop"})
    return found


def _pieces(block: Object, size: int) -> tuple[Object, list[dict[str, object]]]:
    """How a block begins, and how it grows."""
    match block["type"]:
        case "text":
            texts = _cut(str(block["text"]), size)
            return {**block, "text": ""}, [{"type": "text_delta", "text": t} for t in texts]
        case "thinking":
            texts = _cut(str(block["thinking"]), size)
            deltas = [dict[str, object](type="thinking_delta", thinking=text) for text in texts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            given = block["input"]
            written = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
            texts = _cut(written if given else "", size)
            growing = [
                dict[str, object](type="input_json_delta", partial_json=text)
                for text in ["", *texts]
            ]
            return {**block, "input": dict[str, object]()}, growing
        case _:
            return block, []


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def as_stream(found: Sequence[Object], *, line_end: bytes = b"\n") -> bytes:
    """Events as server-sent ones."""
    lines = [
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in found
    ]
    return "".join(lines).encode().replace(b"\n", line_end)
