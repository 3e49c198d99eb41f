"""What an MCP server answers, as a tool's result."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from hermes.errors import ToolError
from hermes.tools.base import ToolContext

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_ERROR_CHARS = 2_000
_NO_BYTES = "(its bytes are no base64)"


def read_result(result: CallToolResult, context: ToolContext | None) -> object:
    """Text as it is, structured content as JSON, and both as an object where there is more.

    Pictures, sounds and files become artifacts of the task; the result has their handles.

    Args:
        result: As the server gave it.
        context: Keeps the artifacts; without it they are only told of.

    Raises:
        ToolError: The server says that its tool failed.
    """
    read = _Read(context)
    for block in result.content:
        read.add(block)
    if result.is_error:
        text = read.text or "the server gave no reason"
        raise ToolError(text[:_ERROR_CHARS], code="mcp_error")
    structured = cast("object", result.structured_content)
    if not read.items:
        # Where there is both, the text is only the same once more, for older clients.
        return read.text if structured is None else structured
    whole: dict[str, object] = {"items": read.items}
    if structured is not None:
        whole["structured"] = structured
    elif read.text:
        whole["text"] = read.text
    return whole


class _Read:
    def __init__(self, context: ToolContext | None) -> None:
        self._context = context
        self._texts: list[str] = []
        self.items: list[dict[str, object]] = []

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    def add(self, block: object) -> None:
        match getattr(block, "type", ""):
            case "text":
                self._texts.append(_word(block, "text"))
            case "image" | "audio" as kind:
                self._keep(kind, _word(block, "data"), _word(block, "mime_type"))
            case "resource":
                self._resource(cast("object", getattr(block, "resource", None)))
            case "resource_link":
                self.items.append(
                    {"kind": "link", "uri": _word(block, "uri"), "name": _word(block, "name")}
                )
            case kind:
                self.items.append({"kind": str(kind), "note": "not known here"})

    def _resource(self, resource: object) -> None:
        blob = cast("object", getattr(resource, "blob", None))
        if isinstance(blob, str):
            self._keep("resource", blob, _word(resource, "mime_type"), uri=_word(resource, "uri"))
        else:
            self._texts.append(_word(resource, "text"))

    def _keep(self, kind: str, data: str, media_type: str, *, uri: str = "") -> None:
        item: dict[str, object] = {"kind": kind, "media_type": media_type}
        if uri:
            item["uri"] = uri
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.items.append({**item, "note": _NO_BYTES})
            return
        item["size_bytes"] = len(raw)
        if self._context is not None:
            name = f"{kind}-{len(self.items) + 1}{_ending(media_type.split('/'))}"
            item["handle"] = self._context.artifact(name, raw)
        self.items.append(item)


def _word(block: object, name: str) -> str:
    value = cast("object", getattr(block, name, None))
    return "" if value is None else str(value)


def _ending(parts: Sequence[str]) -> str:
    """`.png` for `image/png`; "" for what would be no good end of a name."""
    word = parts[-1].partition(";")[0].partition("+")[0]
    return f".{word}" if len(parts) == 2 and word.isalnum() else ""
