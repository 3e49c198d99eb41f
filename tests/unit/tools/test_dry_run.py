"""`dry_run` is the framework's: models neither see nor set it; `preview` takes the arguments."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from hermes import register_tool, tool
from hermes.core.chat import ToolCall
from hermes.core.json import dumps
from hermes.errors import ToolDefinitionError
from hermes.testing import FakeClock
from hermes.tools import Prepared, Tool, ToolContext, ToolRegistry, ToolResult, prepare, run
from hermes.tools.preview import MAX_PREVIEW_CHARS, has_preview, preview
from hermes.tools.waiting import Question


def prepared(item: Tool, **arguments: object) -> Prepared:
    found = prepare(
        ToolRegistry([item]), ToolCall(id="1", name=item.name, arguments=dumps(arguments))
    )
    assert isinstance(found, Prepared), found
    return found


def schema_of(item: Tool) -> dict[str, object]:
    return dict(item.spec.parameters)


@tool(effect="read")
def by_hints(path: str, dry_run: bool, count: int = 2) -> dict[str, object]:
    """Remove.

    Args:
        path: What.
        dry_run: Only say what would happen.
        count: How many.
    """
    return {"path": path, "count": count, "dry": dry_run}


@register_tool(
    "by_schema",
    "Remove.",
    {
        "properties": {"path": {"type": "string"}, "dry_run": {"type": "boolean"}},
        "required": ["path", "dry_run"],
    },
    effect="read",
)
async def by_schema(path: str, dry_run: bool = False, count: int = 2) -> dict[str, object]:
    return {"path": path, "count": count, "dry": dry_run}


@register_tool(
    "by_any_name",
    "Remove.",
    {"properties": {"path": {"type": "string"}, "dry_run": {"type": "boolean"}}},
    effect="read",
)
async def by_any_name(**given: object) -> dict[str, object]:
    return {"path": given["path"], "count": 2, "dry": given["dry_run"]}


every_kind = pytest.mark.parametrize("item", [by_hints, by_schema, by_any_name])


@every_kind
async def test_a_model_does_not_see_it_and_a_call_is_for_real(
    item: Tool, context: ToolContext
) -> None:
    assert item.dry_run
    assert "dry_run" not in dumps(schema_of(item))
    result = await run(prepared(item, path="a"), context, clock=FakeClock())
    assert result.data == {"path": "a", "count": 2, "dry": False}


@every_kind
@pytest.mark.parametrize("value", [True, False])
def test_a_model_that_writes_it_is_refused(item: Tool, value: bool) -> None:
    call = ToolCall(id="1", name=item.name, arguments=dumps({"path": "a", "dry_run": value}))
    found = prepare(ToolRegistry([item]), call)
    assert isinstance(found, ToolResult)
    assert (found.status, "dry_run" in found.content) == ("refused", True)


@every_kind
async def test_a_preview_is_a_dry_run_with_a_key_of_its_own(
    item: Tool, context: ToolContext
) -> None:
    assert has_preview(item)
    told = await preview(prepared(item, path="a"), context, clock=FakeClock())
    assert told.text == '{"path":"a","count":2,"dry":true}'


async def test_a_dry_run_does_not_use_up_the_key_of_the_call(context: ToolContext) -> None:
    @tool
    async def order(context: ToolContext, dry_run: bool) -> str:
        """Order."""
        return context.idempotency_key

    told = await preview(prepared(order), context, clock=FakeClock())
    assert told.text not in ("", context.idempotency_key)


def test_a_parameter_of_that_name_has_to_be_a_bool() -> None:
    with pytest.raises(ToolDefinitionError, match="has to be a bool"):

        @tool
        def wrong(dry_run: str) -> None:
            """Wrong."""

    with pytest.raises(ToolDefinitionError, match="has to be a bool"):

        @register_tool("wrong", "Wrong.", {"properties": {}})
        def wrong_too(dry_run: int = 0) -> None:
            """Wrong."""


def test_an_annotated_bool_is_one() -> None:
    @tool
    def fine(dry_run: Annotated[bool, Field(description="x")]) -> None:
        """Fine."""

    assert fine.dry_run


def plain(path: str, count: int) -> str:
    return f"{count} × {path}"


async def awaited(path: str) -> str:
    return path


def of_folder(folder: str) -> str:
    return folder


def every(**arguments: object) -> object:
    return arguments


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (plain, "2 × 报告"),
        (awaited, "报告"),
        (every, '{"path":"报告","count":2}'),
        (lambda: "nothing", "nothing"),
    ],
    ids=["plain", "async", "any name", "none of them"],
)
async def test_a_preview_gets_the_arguments_that_it_takes(
    ask: object, text: str, context: ToolContext
) -> None:
    @tool(preview=ask)  # pyright: ignore[reportArgumentType]  # a function in each case
    async def remove(path: str, dry_run: bool, count: int = 2) -> str:
        """Remove."""
        raise AssertionError("its own preview goes first")

    assert (await preview(prepared(remove, path="报告"), context, clock=FakeClock())).text == text


def test_a_preview_that_needs_another_argument_is_refused_with_its_name() -> None:
    with pytest.raises(ToolDefinitionError, match="'folder', which is no argument") as caught:

        @tool(preview=of_folder)
        def remove(path: str) -> None:
            """Remove."""

    assert "path" in (caught.value.hint or "")


async def test_a_preview_that_fails_or_waits_says_so(context: ToolContext) -> None:
    def fail(path: str) -> str:
        raise ValueError(f"no {path}")

    @tool(preview=fail)
    async def remove(path: str) -> None:
        """Remove."""

    told = await preview(prepared(remove, path="a"), context, clock=FakeClock())
    assert (told.text, told.problem) == ("", "ValueError: no a")

    @tool(preview=lambda: Question(text="well?"))
    async def ask() -> None:
        """Ask."""

    assert "wait for" in (await preview(prepared(ask), context, clock=FakeClock())).problem


async def test_a_preview_has_the_time_of_the_tool(context: ToolContext) -> None:
    import anyio

    async def hang() -> None:
        await anyio.sleep_forever()

    @tool(preview=hang, timeout_s=0.01)
    async def remove() -> None:
        """Remove."""

    told = await preview(prepared(remove), context, clock=FakeClock())
    assert "0.01" in told.problem


async def test_a_long_preview_keeps_its_head_and_tail(context: ToolContext) -> None:
    @tool(preview=lambda: "头" + "x" * 100_000 + "尾")
    async def remove() -> None:
        """Remove."""

    told = await preview(prepared(remove), context, clock=FakeClock())
    assert told.text.startswith("头")
    assert told.text.endswith("尾")
    assert len(told.text) < MAX_PREVIEW_CHARS + 100
    assert "96,002 characters left out" in told.text
