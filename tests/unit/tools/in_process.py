"""Functions that tests run in a process of their own, and so live in a module of their own."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from hermes.errors import NotDone, ToolError
from hermes.tools import Question, ToolContext


@dataclass(frozen=True)
class Point:
    x: int
    y: int


def shifted(point: Point, by: date) -> dict[str, object]:
    return {"point": Point(point.x + by.day, point.y), "pid": os.getpid()}


def used(ctx: ToolContext) -> str:
    ctx.progress("half way")
    ctx.artifact("notes.txt", "noted")
    seen = ctx.variables["city"]
    ctx.variables["country"] = "CN"
    return f"{ctx.idempotency_key} {ctx.task.goal} {seen} {len(ctx.history)}"


def spin() -> None:
    while True:
        pass


def hold_the_lock() -> bool:
    """Minutes within one C function that never lets go of the interpreter lock."""
    return re.fullmatch("(a+)+b", "a" * 40) is not None


def crash() -> None:
    ctypes.string_at(0)


def leave(code: int) -> None:
    os._exit(code)


def refuse() -> None:
    raise NotDone("closed today", code="closed")


def complain() -> None:
    raise ToolError("no such shelf", code="shelf", retryable=True, hint="ask again")


def stumble() -> None:
    raise ValueError("3 legs")


class GatewayTimeout(TimeoutError):
    """Known to nobody else."""


def lose() -> None:
    raise GatewayTimeout("no answer from the bank")


def strange() -> object:
    return object()


async def _later() -> str:
    return "later"


def wrapped() -> Awaitable[str]:
    return _later()


def start_a_sleeper(file: str) -> None:
    child = subprocess.Popen(["setsid", "sleep", "600"])
    Path(file).write_text(str(child.pid))
    child.wait()


def shout() -> str:
    sys.stdout.write("out loud")
    return "shouted"


class Shelf:
    def count(self) -> int:
        return 3

    @staticmethod
    def size() -> int:
        return 4


def leave_7() -> None:
    leave(7)


def question() -> Question:
    return Question(text="which colour?", options=["red", "blue"])
