import pytest

from hermes.core.chat import ToolCall
from hermes.errors import ToolError
from hermes.testing import FakeClock
from hermes.tools import (
    ArgumentFault,
    Prepared,
    ToolContext,
    ToolRegistry,
    builtin_tools,
    cap,
    handle_of,
    prepare,
    run,
)
from hermes.tools.builtin import BUILTIN_GROUPS
from hermes.tools.builtin.core import read_more
from tests.unit.tools.conftest import MemoryBench

TEXT = "".join(f"第{number}行\n" for number in range(9_000))
HANDLE = handle_of(TEXT.encode())


@pytest.fixture(autouse=True)
def stored(bench: MemoryBench) -> None:
    bench.blobs[HANDLE] = TEXT.encode()


def test_it_is_built_in_and_reads_only() -> None:
    assert read_more in builtin_tools()
    assert (read_more.effect, read_more.group) == ("read", "core")


async def test_pages_together_are_the_whole_text(context: ToolContext) -> None:
    pages: list[str] = []
    offset: str | None = "0"
    while offset is not None:
        page = await read_more(HANDLE, context, offset=int(offset), length=7_001)
        text, _, line = page.rpartition("\n[characters ")
        pages.append(text)
        offset = line.rpartition("go on with offset=")[2].rstrip("]") if "go on" in line else None

    assert "".join(pages) == TEXT
    assert len(pages) > 5


async def test_a_shortened_result_says_how_to_read_what_was_left_out(context: ToolContext) -> None:
    content, _ = cap(TEXT, 1_000)
    head = content.partition("\n[…")[0]

    page = await read_more(HANDLE, context, offset=len(head))

    assert TEXT.startswith(head + page.rpartition("\n[characters")[0])


async def test_the_last_page_says_that_it_is_the_last(context: ToolContext) -> None:
    page = await read_more(HANDLE, context, offset=len(TEXT) - 3, length=100)

    assert page.endswith(
        f"\n[characters {len(TEXT) - 3} to {len(TEXT)} of {len(TEXT)}; this is the end]"
    )


async def test_a_page_of_the_largest_length_is_not_shortened_itself(context: ToolContext) -> None:
    arguments = f'{{"handle": "{HANDLE}", "length": 12000}}'
    prepared = prepare(
        ToolRegistry([read_more]), ToolCall(id="1", name="read_more", arguments=arguments)
    )
    assert isinstance(prepared, Prepared)

    result = await run(prepared, context, clock=FakeClock())
    assert result.status == "ok"
    assert result.full is None


async def test_a_bad_handle_is_an_error_for_the_model(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no result of this task has the handle 'nope'") as caught:
        await read_more("nope", context)

    assert caught.value.code == "unknown_handle"


async def test_an_offset_beyond_the_end_is_an_error_with_the_length(context: ToolContext) -> None:
    with pytest.raises(ToolError, match=f"the text has {len(TEXT)} characters"):
        await read_more(HANDLE, context, offset=len(TEXT))


async def test_bytes_that_are_no_text_are_an_error(
    context: ToolContext, bench: MemoryBench
) -> None:
    bench.blobs["image"] = b"\x89PNG"

    with pytest.raises(ToolError, match="image is not text: byte 0 of 4"):
        await read_more("image", context)


async def test_an_empty_artifact_reads_as_nothing(context: ToolContext, bench: MemoryBench) -> None:
    bench.blobs["empty"] = b""

    assert await read_more("empty", context) == "\n[characters 0 to 0 of 0; this is the end]"


async def test_a_character_is_never_cut_and_each_page_moves_on(
    context: ToolContext, bench: MemoryBench
) -> None:
    bench.blobs["flags"] = ("🇨🇳" * 50).encode()

    page = await read_more("flags", context, offset=1, length=1)

    assert page == "🇨🇳\n[characters 0 to 2 of 100; go on with offset=2]"


@pytest.mark.parametrize("arguments", [{"offset": -1}, {"length": 0}, {"length": 12_001}])
def test_bounds_of_the_arguments_are_kept(arguments: dict[str, object]) -> None:
    with pytest.raises(ArgumentFault):
        read_more.bind({"handle": HANDLE, **arguments})


def test_all_groups_together_have_no_name_twice() -> None:
    groups = [group for group in BUILTIN_GROUPS if group != "mock"]  # it stands in for another
    ToolRegistry(builtin_tools(groups))
