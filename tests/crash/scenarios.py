"""What the crash tests break off: small agents whose tools write into files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from hermes import Agent, ToolContext, tool
from hermes.core.clock import SystemClock
from hermes.testing import call, calls
from hermes.testing.replies import RepliesModel, Reply
from hermes.testing.scenario import Scenario
from hermes.tools import NOT_DONE, Tool
from hermes.tools.waiting import Child, Children, Event, Question, Until

Tools = Callable[[Path], list[Tool]]
Script = Sequence[Reply] | Mapping[str, Sequence[Reply]]


def write_line(folder: Path, name: str, text: str) -> None:
    """One line at the end of a file, there whole whatever becomes of the process."""
    fd = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


def files(folder: Path) -> dict[str, list[str]]:
    """All lines of all files, sorted: what the tools did to the world."""
    return {path.name: sorted(path.read_text().splitlines()) for path in sorted(folder.iterdir())}


def simple_tools(folder: Path) -> list[Tool]:
    """One of each class that needs nobody's help."""

    @tool(effect="read")
    async def look(name: str) -> str:
        """Look."""
        return f"saw {name}"

    @tool(effect="idempotent")
    async def put(name: str, context: ToolContext) -> str:
        """Put a value in its place."""
        (folder / f"put {name}").write_text(name)
        context.variables["last"] = name
        return "put"

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        write_line(folder, "payments", str(amount))
        return f"paid {amount}"

    return [look, put, pay]


def careful_tools(folder: Path) -> list[Tool]:
    """Those that can say what became of a call, or that know a deed again."""

    def find(key: str, arguments: dict[str, object]) -> object:
        path = key.partition("/")[2]
        sent = folder / "sent"
        is_there = sent.exists() and f"{path} {arguments['text']}" in sent.read_text().splitlines()
        return "sent" if is_there else NOT_DONE

    @tool(reconcile=find)
    async def send(text: str, context: ToolContext) -> str:
        """Send a text."""
        path = context.idempotency_key.partition("/")[2]
        write_line(folder, "sent", f"{path} {text}")
        return "sent"

    @tool(key="{order}")
    async def refund(order: str, reason: str) -> str:
        """Refund an order."""
        write_line(folder, "refunds", order)
        return f"refunded {order}: {reason}"

    return [send, refund]


def waiting_tools(folder: Path) -> list[Tool]:
    """Those that suspend their task, and two that a person has to allow.

    Until its wait is recorded, a call that only waits has done nothing: it may be made again.
    """

    @tool(effect="read")
    async def ask(question: str) -> object:
        """Ask a person."""
        return Question(text=question, options=("blue", "red"))

    @tool(effect="read")
    async def rest() -> object:
        """Wait for a moment."""
        return Until(at=SystemClock().now() + timedelta(seconds=0.02))

    @tool(effect="read", untrusted_output=True)
    async def await_parcel() -> object:
        """Wait for the parcel."""
        return Event(name="parcel")

    @tool(requires_approval=True)
    async def delete(name: str, dry_run: bool) -> str:
        """Delete something."""
        if not dry_run:
            write_line(folder, "deleted", name)
        return f"deleted {name}"

    @tool
    async def answer(text: str) -> str:
        """Answer whoever sent the parcel: a person is asked, since it came from outside."""
        write_line(folder, "answered", text)
        return "answered"

    return [ask, rest, await_parcel, delete, answer]


def parent_tools(folder: Path) -> list[Tool]:
    """One that hands work out, and what the children use."""

    @tool(effect="read")
    async def share_out(parts: list[str]) -> object:
        """Share the work out."""
        return Children(tasks=[Child(goal=part) for part in parts])

    return [share_out, *simple_tools(folder)]


def one_agent(script: Script, tools: Tools) -> Callable[[Path], Sequence[Agent]]:
    """An agent with these replies, in each process anew."""

    def make(folder: Path) -> list[Agent]:
        return [Agent(name="a", model=RepliesModel(script), tools=tools(folder))]

    return make


EFFECTS = Scenario(
    name="effects",
    goal="one call of each class",
    agents=one_agent(
        [
            calls(call("look", name="a"), call("look", name="b")),
            calls(call("put", name="c"), call("pay", amount=3), call("look", name="d")),
            call("pay", amount=4),
            "All done.",
        ],
        simple_tools,
    ),
    measure=files,
)

CAREFUL = Scenario(
    name="careful",
    goal="calls that know what became of them",
    agents=one_agent(
        [
            calls(call("send", text="one"), call("refund", order="7", reason="late")),
            call("refund", order="7", reason="broken on arrival"),
            call("send", text="two"),
            "All done.",
        ],
        careful_tools,
    ),
    measure=files,
)

WAITS = Scenario(
    name="waits",
    goal="wait for a person, a time and an event",
    agents=one_agent(
        [
            calls(call("ask", question="Which colour?"), call("rest")),
            call("await_parcel"),
            call("delete", name="draft"),
            call("answer", text="thanks"),
            "All done.",
        ],
        waiting_tools,
    ),
    signals={"parcel": {"number": 7}},
    measure=files,
)

CHILDREN = Scenario(
    name="children",
    goal="share the work",
    agents=one_agent(
        {
            "share the work": [call("share_out", parts=["first half", "second half"]), "Shared."],
            "first half": [call("pay", amount=1), "First half done."],
            "second half": [calls(call("put", name="x"), call("pay", amount=2)), "Second done."],
        },
        parent_tools,
    ),
    measure=files,
)

ALL = {scenario.name: scenario for scenario in (EFFECTS, CAREFUL, WAITS, CHILDREN)}
