import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
import uvicorn
from anyio.abc import TaskStatus

from hermes.core.chat import ToolCall
from hermes.core.clock import SystemClock
from hermes.tools import Prepared, Tool, ToolContext, ToolRegistry, ToolResult, prepare, run
from hermes.tools.plugins.foreign import joined_name
from hermes.tools.plugins.host import PluginHost
from hermes.tools.plugins.options import McpServer, PluginOptions
from tests.unit.tools import mcp_official
from tests.unit.tools.conftest import MemoryBench

HERE = Path(__file__).parent
OFFICIAL = {"command": sys.executable, "args": [str(HERE / "mcp_official.py")]}

Opened = Callable[..., AbstractAsyncContextManager[PluginHost]]


def hostile(mode: str, **more: object) -> dict[str, object]:
    return {"command": sys.executable, "args": [str(HERE / "mcp_hostile.py"), mode], **more}


@asynccontextmanager
async def opened(**servers: object) -> AsyncGenerator[PluginHost]:
    specs = {name: McpServer.model_validate(spec) for name, spec in servers.items()}
    async with anyio.create_task_group() as group:
        host = PluginHost(PluginOptions(mcp=specs), group)
        await host.prepare(("mcp",))
        yield host
        with anyio.fail_after(10):
            await host.aclose()


@asynccontextmanager
async def served(*, is_json: bool = False, port: int = 0) -> AsyncGenerator[str]:
    """The official server over streamable HTTP, in this process."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        port = listening.getsockname()[1]
        app = mcp_official.made().streamable_http_app(json_response=is_json)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            yield f"http://127.0.0.1:{port}/mcp"
            server.should_exit = server.force_exit = True


def tools_of(host: PluginHost) -> dict[str, Tool]:
    return {tool.name: tool for tool in host.brought().tools}


async def call(
    host: PluginHost, context: ToolContext, name: str, arguments: str = "{}"
) -> ToolResult:
    """As a model's call goes."""
    wish = ToolCall(id="c1", name=name, arguments=arguments)
    prepared = prepare(ToolRegistry(host.brought().tools), wish)
    assert isinstance(prepared, Prepared), prepared
    return await run(prepared, context, clock=SystemClock())


async def all_forms(host: PluginHost, context: ToolContext, bench: MemoryBench) -> None:
    priced = await call(host, context, "shop__price", '{"article": "茶", "count": "2"}')
    greeted = await call(host, context, "shop__greet", '{"name": "小明"}')
    plain = await call(host, context, "shop__plain", '{"text": "纯文本"}')
    failed = await call(host, context, "shop__fail")
    pictured = await call(host, context, "shop__picture")
    told = await call(host, context, "shop__slowly")
    long = await call(host, context, "shop__huge", '{"size": 100000}')

    assert priced.data == {"article": "茶", "price": 24}
    assert greeted.data == {"result": "你好，小明"}
    assert plain.data == "纯文本"
    assert failed.status == "error"
    assert failed.error is not None
    assert failed.error.code == "mcp_error"
    assert pictured.data == {
        "items": [
            {"kind": "image", "media_type": "image/png", "size_bytes": 9, "handle": "image-1.png"}
        ]
    }
    assert bench.blobs == {"image-1.png": b"\x89PNG 1234"}
    assert told.data == {"result": "done"}
    assert "一半" in bench.told
    assert (long.size, len(long.content) <= 16_000) == (100_000, True)


async def test_the_official_server_over_stdio(context: ToolContext, bench: MemoryBench) -> None:
    async with opened(shop=OFFICIAL) as host:
        (plugin,) = host.brought().plugins
        price = tools_of(host)["shop__price"]
        await all_forms(host, context, bench)

    assert (plugin.kind, plugin.version, plugin.problem) == ("mcp", "shop 3.1", "")
    assert (price.effect, price.group, price.untrusted, price.outbound) == (
        "unsafe",
        "mcp",
        True,
        False,
    )
    assert price.description.startswith("What an article costs.")


@pytest.mark.parametrize("is_json", [False, True], ids=["events", "json"])
async def test_the_official_server_over_streamable_http(
    context: ToolContext, bench: MemoryBench, is_json: bool
) -> None:
    async with served(is_json=is_json) as url, opened(shop={"url": url}) as host:
        assert tools_of(host)["shop__price"].outbound
        if is_json:
            bench.told.append("一半")  # there is no way back for progress
        await all_forms(host, context, bench)


async def test_tools_that_change_are_noticed_over_http(context: ToolContext) -> None:
    async with served() as url, opened(shop={"url": url}) as host:
        assert "shop__extra" not in tools_of(host)
        await call(host, context, "shop__grow")
        with anyio.fail_after(5):
            while "shop__extra" not in tools_of(host):
                await host.prepare(("mcp",))
                await anyio.sleep(0.001)


async def test_a_schema_that_changes_changes_the_fingerprint(context: ToolContext) -> None:
    async with opened(odd=hostile("changes")) as host:
        before = tools_of(host)["odd__echo"]
        await host.prepare(("mcp",))
        assert tools_of(host)["odd__echo"] is before
        await call(host, context, "odd__echo", '{"x": 1}')
        with anyio.fail_after(5):
            while tools_of(host)["odd__echo"] is before:
                await host.prepare(("mcp",))
                await anyio.sleep(0.001)
        after = tools_of(host)["odd__echo"]

    assert after.fingerprint != before.fingerprint


async def test_headers_are_sent_and_nothing_is_told_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "t-secret")
    spec = McpServer.model_validate(
        {"url": "http://u:p@127.0.0.1:1/mcp?key=k", "headers": {"Authorization": "${SHOP_TOKEN}"}}
    )
    assert "t-secret" not in repr(spec)
    assert spec.model_dump(mode="json")["url"] == "http://127.0.0.1:1/mcp"
    async with opened(shop=spec) as host:
        (plugin,) = host.brought().plugins
    assert plugin.place == "http://127.0.0.1:1/mcp"
    assert "ConnectError" in plugin.problem


@pytest.mark.parametrize(
    ("more", "effects"),
    [
        ({}, ("unsafe", "unsafe", "unsafe")),
        ({"trust_hints": True}, ("read", "idempotent", "unsafe")),
        ({"effect": "read"}, ("read", "read", "read")),
        ({"effects": {"plain": "idempotent"}}, ("unsafe", "unsafe", "idempotent")),
    ],
    ids=["default", "trusted", "all", "single"],
)
async def test_hints_of_a_server_count_only_where_they_are_trusted(
    more: dict[str, object], effects: tuple[str, ...]
) -> None:
    async with served() as url, opened(shop={"url": url, **more}) as host:
        tools = tools_of(host)

    names = ("shop__price", "shop__greet", "shop__plain")
    assert tuple(tools[name].effect for name in names) == effects


async def test_only_the_tools_that_are_allowed_are_there(context: ToolContext) -> None:
    async with served() as url, opened(shop={"url": url, "tools": ["price", "prize"]}) as host:
        brought = host.brought()

    assert [tool.name for tool in brought.tools] == ["shop__price"]
    assert "it does not offer prize" in brought.problems[0]


async def test_a_server_that_is_away_or_hangs_or_dies_is_named_and_the_others_work(
    context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(
        good=hostile("mute_call"),
        hangs=hostile("hang", start_timeout_s=0.5),
        dies=hostile("dies"),
        endless=hostile("endless"),
        gone={"command": "/no/such/server"},
    ) as host:
        brought = host.brought()

    problems = {plugin.name: plugin.problem for plugin in brought.plugins}
    assert [tool.name for tool in brought.tools] == ["good__echo"]
    assert problems["good"] == ""
    assert problems["hangs"] == "it was not ready within 0.5 s"
    assert problems["dies"] == "it ended with exit code 9, and last wrote: no licence: 许可证"
    assert problems["endless"] == "it wrote a line of more than 8,000,000 bytes"
    assert "No such file" in problems["gone"]
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 4


async def test_without_the_extra_the_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with opened(odd=hostile("noise")) as host:
        (problem,) = host.brought().problems

    assert "MCP server 'odd': it needs the package mcp" in problem
    assert "pip install 'hermes-courier[mcp]'" in problem


async def test_an_address_that_takes_connections_and_never_answers_holds_nobody_up(
    context: ToolContext,
) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        spec = {"url": f"http://127.0.0.1:{mute.getsockname()[1]}/mcp", "start_timeout_s": 0.3}
        with anyio.fail_after(5):
            async with opened(odd=spec, good=hostile("noise")) as host:
                brought = host.brought()

    assert [tool.name for tool in brought.tools] == ["good__echo"]
    assert "not ready within 0.3 s" in brought.problems[0] or "Timeout" in brought.problems[0]


async def test_noise_on_stdout_breaks_nothing(
    context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(odd=hostile("noise")) as host:
        result = await call(host, context, "odd__echo", '{"x": 3}')

    assert result.data == '{"x": 3}'
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "Welcome to my server" in warned[0]


async def test_a_call_that_nobody_answers_ends_with_its_time(context: ToolContext) -> None:
    async with opened(odd=hostile("mute_call", timeout_s=0.2)) as host:
        result = await call(host, context, "odd__echo", '{"x": 3}')

    assert result.status == "in_doubt"


async def test_schemas_that_cannot_be_used_are_named_and_nothing_is_fetched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(odd=hostile("schemas")) as host:
        brought = host.brought()

    assert [tool.name for tool in brought.tools] == ["odd__echo"]
    warned = "\n".join(record.getMessage() for record in caplog.records)
    for name in ("remote", "nonsense", "large"):
        assert f"odd__{name}" in warned
    assert "others are not followed" in warned


async def test_a_listing_that_breaks_the_protocol_says_where() -> None:
    async with opened(odd=hostile("malformed")) as host:
        brought = host.brought()

    assert brought.tools == ()
    assert "tools.1.inputSchema.type" in brought.problems[0]


async def test_a_server_that_dies_in_a_call_leaves_it_in_doubt_and_is_started_again(
    context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(odd=hostile("mortal")) as host:
        died = await call(host, context, "odd__echo", '{"x": 4}')
        again = await call(host, context, "odd__echo", '{"x": 1}')

    assert died.status == "in_doubt"
    assert again.data == '{"x": 1}'
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["MCP server 'odd' stopped: it ended with exit code 4; all else goes on"]


async def test_names_become_such_as_every_model_takes(context: ToolContext) -> None:
    async with opened(odd=hostile("names")) as host:
        names = list(tools_of(host))
        result = await call(host, context, names[1], '{"x": 1}')

    assert len(set(names)) == 4
    assert all(len(name) <= 64 and name.isascii() and name.startswith("odd__") for name in names)
    assert result.data == '{"x": 1}'


def test_a_name_that_fits_stays_as_it_is() -> None:
    assert joined_name("shop", "list-orders_2") == "shop__list-orders_2"
    assert joined_name("shop", "a.b") != joined_name("shop", "a_b") == "shop__a_b"


async def test_a_description_is_cut_and_shows_all_that_it_has() -> None:
    async with opened(odd=hostile("poison")) as host:
        description = tools_of(host)["odd__echo"].description

    assert len(description) == 4_000
    assert "\u202e" not in description
    assert "\x07" not in description


async def test_no_more_tools_than_a_model_can_choose_from() -> None:
    async with opened(odd=hostile("many")) as host:
        brought = host.brought()

    assert len(brought.tools) == 128
    assert "more than 128 tools" in brought.problems[0]


async def test_a_huge_answer_over_http_is_refused_and_the_next_call_works(
    context: ToolContext,
) -> None:
    async with served(is_json=True) as url, opened(shop={"url": url, "effect": "read"}) as host:
        huge = await call(host, context, "shop__huge", '{"size": 3000000}')
        after = await call(host, context, "shop__plain", '{"text": "on"}')

    assert huge.error is not None
    assert "an answer of more than 8,000,000 bytes" in huge.error.message
    assert after.data == "on"


async def serve(
    port: int, stop: anyio.Event, *, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED
) -> None:
    async with served(port=port) as url:
        task_status.started(url)
        await stop.wait()


async def test_a_server_that_goes_away_is_used_again_when_it_is_back(context: ToolContext) -> None:
    async with anyio.create_task_group() as servers:
        first, second = anyio.Event(), anyio.Event()
        url = await servers.start(serve, 0, first)
        port = int(url.removesuffix("/mcp").rpartition(":")[2])
        async with opened(shop={"url": url}) as host:
            before = await call(host, context, "shop__plain", '{"text": "a"}')
            first.set()
            while await _answers(port):  # noqa: ASYNC110  # the kernel closes it
                await anyio.sleep(0.001)
            away = await call(host, context, "shop__plain", '{"text": "b"}')
            await servers.start(serve, port, second)
            after = await call(host, context, "shop__plain", '{"text": "c"}')

            assert (before.data, after.data) == ("a", "c")
            assert away.status == "error"  # an unsafe call that surely never left is in no doubt
            assert away.error is not None
            assert "cannot be reached: ConnectError" in away.error.message
        second.set()


async def _answers(port: int) -> bool:
    try:
        async with await anyio.connect_tcp("127.0.0.1", port):
            return True
    except OSError:
        return False


async def test_a_huge_answer_ends_the_connection_not_the_program(context: ToolContext) -> None:
    async with opened(odd=hostile("huge", effect="read")) as host:
        result = await call(host, context, "odd__echo", '{"x": 1}')

    assert result.error is not None
    assert "a line of more than 8,000,000 bytes" in result.error.message


async def test_what_is_no_picture_is_said_to_be_none(
    context: ToolContext, bench: MemoryBench
) -> None:
    async with opened(odd=hostile("binary")) as host:
        result = await call(host, context, "odd__echo", '{"x": 1}')

    assert bench.blobs == {}
    assert result.data == {
        "items": [
            {
                "kind": "image",
                "media_type": "../../etc/passwd",
                "note": "(its bytes are no base64)",
            }
        ]
    }


async def test_one_that_ignores_every_goodbye_is_gone_after_two_seconds() -> None:
    async with opened(odd=hostile("sigterm")) as host:
        begin = anyio.current_time()
        await host.aclose()
        assert anyio.current_time() - begin < 5
