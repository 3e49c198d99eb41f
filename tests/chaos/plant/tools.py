"""Tools of every effect class; each calls the outside world at the address in `WORLD_PORT`."""

from __future__ import annotations

import asyncio
import json
import os

from hermes import ToolContext, tool
from hermes.tools import NOT_DONE
from hermes.tools.waiting import Child, Children

TIMEOUT_S = 8.0
CHILDREN = 4


async def ask(op: str, name: str, effect: str, key: str) -> int:
    """Do something to the world, or ask it; how often it was called with this key."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["WORLD_PORT"]))
    request = {"op": op, "tool": name, "effect": effect, "key": key}
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the world hung up")
    return int(json.loads(line)["calls"])


async def has_shipped(key: str, arguments: dict[str, object]) -> object:
    """Whether the call with this key took place."""
    calls = await ask("find", "ship", "reconcile", key)
    return f"shipped {arguments['article']}" if calls else NOT_DONE


@tool(effect="read")
def split(parent: int) -> Children:
    """Hand the work to child tasks."""
    goals = [f"child {n} of parent {parent}, skip {(parent + n) % 4}" for n in range(CHILDREN)]
    return Children(tasks=[Child(goal=goal) for goal in goals])


@tool(effect="read", timeout_s=TIMEOUT_S)
async def look(article: str, context: ToolContext) -> str:
    """Look an article up."""
    await ask("call", "look", "read", context.idempotency_key)
    return f"looked at {article}"


@tool(effect="idempotent", timeout_s=TIMEOUT_S)
async def reserve(article: str, context: ToolContext) -> str:
    """Reserve an article."""
    await ask("call", "reserve", "idempotent", context.idempotency_key)
    return f"reserved {article}"


@tool(effect="reconcile", reconcile=has_shipped, timeout_s=TIMEOUT_S)
async def ship(article: str, context: ToolContext) -> str:
    """Ship an article."""
    await ask("call", "ship", "reconcile", context.idempotency_key)
    return f"shipped {article}"


@tool(timeout_s=TIMEOUT_S)
async def pay(article: str, context: ToolContext) -> str:
    """Pay an article."""
    await ask("call", "pay", "unsafe", context.idempotency_key)
    return f"paid {article}"
