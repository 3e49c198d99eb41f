"""A connection to an MCP server: a program's stdin and stdout, or streamable HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from hermes.errors import ConfigError, NotDone, ToolError
from hermes.tools.base import ToolContext
from hermes.tools.plugins.link import LineTooLong, lines, reason_of
from hermes.tools.plugins.options import McpServer
from hermes.tools.plugins.process import Program, filled_in, program

from .http import ANSWER_BYTES, SENDING, Sending, over_http
from .results import read_result

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client, MCPError
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage
    from mcp_types import Tool as McpTool

_LOG = logging.getLogger("hermes.plugin")
_MAX_PAGES = 100
_MAX_LISTED = 1_000
_FRESH_S = 60.0
# The client's own words for what became of a request over HTTP.
_SESSION_GONE = "Session terminated"
_HTTP_ERROR = "Server returned an error response"


class McpLost(ConnectionError):
    """The connection broke before the server answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sdk:
    """What is used of the package `mcp`, loaded on need: it takes more than a second."""

    client: type[Client]
    error: type[MCPError]


class McpPeer:
    """A server that has told what it offers.

    Attributes:
        version: Its name and version, as it says.
        offered: Its tools.
        unreachable: Why its address could not be reached the last time.
    """

    def __init__(self, label: str, sdk: _Sdk, spec: McpServer) -> None:
        self.label, self.version, self.unreachable = label, "", ""
        self.offered: list[McpTool] = []
        self._sdk, self._spec = sdk, spec
        self._client: Client | None = None
        self._is_changed, self._listed_at = False, 0.0
        self._over, self._problem = anyio.Event(), ""

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def ended(self) -> str:
        await self._over.wait()
        return self._problem

    def end(self, problem: str) -> None:
        """Say that nothing more is heard of it; the first reason counts."""
        self._problem = self._problem or problem
        self._over.set()

    def note(self, unreachable: str) -> None:
        """Keep why its address cannot be reached, which the client itself does not tell."""
        self.unreachable = unreachable

    @property
    def problem(self) -> str:
        """Why it ended."""
        return self._problem

    async def begin(self, client: Client) -> None:
        """Ask an open client for everything."""
        self._client = client
        info = client.server_info
        self.version = f"{info.name} {info.version}".strip() if info is not None else ""
        await self.refresh(is_due=True)

    async def refresh(self, *, is_due: bool = False) -> None:
        """Ask for the tools again, if the server said that they changed, or a minute has gone.

        Raises:
            ToolError: It did not tell them.
        """
        if not (is_due or self._is_changed or anyio.current_time() > self._listed_at + _FRESH_S):
            return
        self._is_changed = False
        try:
            with anyio.fail_after(self._spec.start_timeout_s):
                self.offered = await self._list()
        except TimeoutError as exc:
            self.end(f"it did not list its tools within {self._spec.start_timeout_s:g} s")
            raise ToolError(self._problem) from exc
        except Exception as exc:  # the boundary to a foreign library
            raise ToolError(f"it did not list its tools: {reason_of(exc)}") from exc
        self._listed_at = anyio.current_time()

    async def _list(self) -> list[McpTool]:
        found: list[McpTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._open.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > _MAX_LISTED:
                return found
        return found

    async def watch(self) -> None:
        """Hear of changes where the server tells them only to those who ask (from 2026 on)."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        try:
            async with self._open.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._is_changed = True
        except (ListenNotSupportedError, SubscriptionLost, self._sdk.error) as exc:
            _LOG.debug("%s tells no changes: %s", self.label, exc)

    async def heard(self, message: object) -> None:
        """Take what the server says of itself."""
        if isinstance(message, Exception):
            _LOG.warning("%s: sent something unreadable: %s", self.label, _words(message))
        elif type(message).__name__ == "ToolListChangedNotification":
            self._is_changed = True

    async def call(
        self, tool: str, arguments: Mapping[str, object], context: ToolContext | None
    ) -> object:
        """Call a tool by the server's name of it.

        Raises:
            ToolError: What the server said.
            NotDone: It surely was not called.
            McpLost: The connection broke before an answer.
        """

        async def told(progress: float, total: float | None, message: str | None) -> None:
            if context is not None:
                part = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                context.progress(message or part)

        if self._over.is_set():
            raise NotDone(f"{self.label} is gone: {self._problem}")
        sending = Sending()
        token = SENDING.set(sending)
        try:
            result = await self._open.call_tool(tool, dict(arguments), progress_callback=told)
        except self._sdk.error as exc:
            if sending.never_left:
                text = f"{self.label} cannot be reached: {sending.never_left}"
                raise NotDone(text, code="plugin_down", hint="try again later") from exc
            raise self._meaning(exc) from exc
        except (RuntimeError, ValidationError) as exc:
            raise ToolError(
                f"the tool did run, but its answer is not what it promised: {_words(exc)}",
                code="bad_result",
                hint="do not call it again just for the result",
            ) from exc
        finally:
            SENDING.reset(token)
        return read_result(result, context)

    def _meaning(self, exc: MCPError) -> Exception:
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND

        text = f"{self.label}: {_words(exc)}"
        if exc.message == _SESSION_GONE:
            self.end("it has ended the session")
            return NotDone(text, code="session_gone", hint="try again")
        if exc.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
            return NotDone(text, code="refused")
        if exc.code == CONNECTION_CLOSED or exc.message == _HTTP_ERROR:
            return McpLost(f"{text}; {self._problem}" if self._problem else text)
        return ToolError(text, code="mcp_error")

    @property
    def _open(self) -> Client:
        assert self._client is not None, "begun before it is handed out"
        return self._client


@asynccontextmanager
async def mcp_connection(name: str, spec: McpServer) -> AsyncGenerator[McpPeer]:
    """A server with its tools told.

    Raises:
        ConfigError: The extra `mcp` is not installed, or a variable is missing.
        ToolError: The server cannot be started, reached or understood.
    """
    label = f"MCP server {name!r}"
    sdk = await anyio.to_thread.run_sync(_sdk)
    peer = McpPeer(label, sdk, spec)
    async with AsyncExitStack() as stack:
        if spec.url is None:
            transport = _over_stdio(peer, spec)
        else:
            transport = await over_http(spec.url, spec, stack, note=peer.note)
        try:
            client = await stack.enter_async_context(
                sdk.client(cast("Transport", transport), message_handler=peer.heard, cache=None)
            )
            await peer.begin(client)
        except Exception as exc:  # the boundary to a foreign library, which wraps it in groups
            reason = peer.problem or peer.unreachable or reason_of(exc)
            raise ToolError(reason, code="not_connected") from exc
        stack.callback(peer.end, "it was closed")  # before the client is: nobody calls it then
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(peer.watch)
        yield peer
        group.cancel_scope.cancel()


def _sdk() -> _Sdk:
    try:
        from mcp import Client, MCPError
    except ImportError as exc:
        raise ConfigError(
            f"it needs the package mcp, which cannot be loaded here: {exc}",
            hint="pip install 'hermes-courier[mcp]'",
        ) from exc
    logger = logging.getLogger("mcp.client")
    if logger.level == logging.NOTSET:
        # It logs with tracebacks what it raises as well, and that is told here in a line.
        logger.setLevel(logging.CRITICAL)
    return _Sdk(client=Client, error=MCPError)


def _words(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:500] or type(exc).__name__


@asynccontextmanager
async def _over_stdio(
    peer: McpPeer, spec: McpServer
) -> AsyncGenerator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]
]:
    """A program under our guard, with bounded lines and an ear for noise."""
    from mcp.shared.message import SessionMessage

    args = (spec.command or "", *spec.args)
    env = filled_in(spec.env)
    async with program(peer.label, args, env=env, cwd=spec.cwd) as running:
        heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        async with heard, read, write, to_send, anyio.create_task_group() as group:
            group.start_soon(_listen, peer, running, heard)
            group.start_soon(_send, running, to_send)
            yield read, write
            # The protocol's own way to say goodbye; whoever does not go is ended by the guard.
            await running.stdin.aclose()
            group.cancel_scope.cancel()


async def _listen(
    peer: McpPeer,
    running: Program,
    heard: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    noise = 0
    # Closed at the end: whoever waits for an answer then finds the reason said.
    async with heard, aclosing(lines(running.stdout, limit=ANSWER_BYTES)) as found:
        try:
            async for line in found:
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    noise += bool(line.strip())
                    if noise == 1:
                        text = "%s: writes to stdout what is no message: %.80r"
                        _LOG.warning(text, peer.label, line)
                    continue
                await heard.send(SessionMessage(message))
            peer.end(await running.reason())
        except LineTooLong as exc:
            peer.end(f"it wrote {exc}")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session is being left


async def _send(running: Program, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
    try:
        async for item in to_send:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await running.stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # it has ended, and its stdout tells why
