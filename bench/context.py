"""What a long task sends: bytes and tokens against turns, with and without compaction.

A scripted model calls one tool a turn, each result 3 KB, and goes by what it is sent alone: it
calls for the item after the highest one that it is told of. Each request is encoded as it would go
to a chat completions server. Prints a table and the ratios that the project is held to, and draws
a PNG:

* with compaction the sum grows as a line, without it as a square: n turns cost n times, or n² times
  what one costs, as the exponent of a fitted power says;
* 300 turns with compaction send at most a tenth of what they send without;
* consecutive requests begin with the same bytes, but for the compactions between them;
* without compaction the CPU to build a request grows no faster than its bytes.

Usage: python bench/context.py [--turns 10 50 200 500] [--window 32768] [--png FILE]
"""

from __future__ import annotations

import argparse
import io
import math
import re
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import anyio

from hermes import Agent, Hermes, tool
from hermes.core.budget import Limits
from hermes.core.chat import AssistantMessage, ChatMessage, ToolCall, Usage, estimate_tokens
from hermes.loop.summary import INSTRUCTION
from hermes.models import ModelReply, ModelRequest, StreamPart
from hermes.models.openai_request import BodyBuilder
from hermes.models.profiles import Profile
from hermes.tools import Tool

WINDOW = 32_768
TURNS = (10, 50, 200, 500)
GOAL = "Fetch every item, one after the other, and say how many there are."
UNBOUNDED = 1 << 40
WANTED_SHARE = 0.1
WANTED_REUSE = 0.9
_ITEM = re.compile(r"item[-=](\d+)")
_LINE = "sensor {item:04d}: pressure 1013.2 hPa, humidity 44 %, battery 97 %, last seen today\n"


@dataclass(slots=True)
class Sent:
    """What one task sent.

    Attributes:
        sizes: Bytes of each request, the ones for a summary included.
        tokens: Of each, estimated from its bytes.
        summaries: Requests for a summary.
        shared: Bytes that a request begins with just as the one before it did.
        breaks: Requests that did not begin with all messages of the one before: the first one, and
            those after a compaction. Places in `shared`.
        turns: Places of the requests of the conversation in `sizes`.
        build_s: CPU seconds to build each request.
        fetched: Items in the order they were fetched.
        status: How the task ended.
        bodies: Of the requests, if they are kept.
    """

    sizes: list[int] = field(default_factory=list[int])
    tokens: list[int] = field(default_factory=list[int])
    summaries: int = 0
    shared: list[int] = field(default_factory=list[int])
    breaks: list[int] = field(default_factory=list[int])
    turns: list[int] = field(default_factory=list[int])
    build_s: list[float] = field(default_factory=list[float])
    fetched: list[int] = field(default_factory=list[int])
    status: str = ""
    bodies: list[bytes] = field(default_factory=list[bytes])

    @property
    def reuse(self) -> float:
        """The share of identical leading bytes, over all requests but those after a compaction."""
        whole = [place for place in range(len(self.turns)) if place not in self.breaks]
        sent = sum(self.sizes[self.turns[place]] for place in whole)
        return sum(self.shared[place] for place in whole) / max(1, sent)


class Player:
    """A model that goes on after the highest item it is told of.

    Args:
        turns: It ends after so many.
        window: Tokens.
        keep: Keep the bodies.
    """

    name = "player"

    def __init__(self, turns: int, window: int, *, keep: bool = False) -> None:
        self.profile = Profile(name=self.name, window=window)
        self.sent = Sent()
        self._turns, self._keep = turns, keep
        self._bodies = BodyBuilder(self.name, profile=self.profile)
        self._before = b""
        self._asked = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The next call, the end, or a summary."""
        began = time.process_time()
        body = self._bodies.build(request, stream=False)
        self.sent.build_s.append(time.process_time() - began)
        tokens = estimate_tokens(body.decode())
        self.sent.sizes.append(len(body))
        self.sent.tokens.append(tokens)
        if self._keep:
            self.sent.bodies.append(body)
        usage = Usage(prompt_tokens=tokens, completion_tokens=20)
        if request.messages[0].text == INSTRUCTION:
            self.sent.summaries += 1
            text = "All sensors report normal pressure and humidity; none was missing so far."
            return ModelReply(text=text, usage=usage, model=self.name)
        self._compare(body)
        done = highest(request.messages)
        if done >= self._turns:
            return ModelReply(text=f"There are {done} items.", usage=usage, model=self.name)
        self._asked += 1
        call = ToolCall(
            id=f"call_{self._asked}", name="fetch", arguments=f'{{"item": "item-{done + 1}"}}'
        )
        return ModelReply(calls=(call,), finish_reason="tool_calls", usage=usage, model=self.name)

    def _compare(self, body: bytes) -> None:
        same = common(self._before, body)
        # The tools stand after the messages in this format; they come again in any case.
        head = self._before.rfind(b'],"tools":')
        if not self._before or same < head:
            self.sent.breaks.append(len(self.sent.turns))
        self.sent.turns.append(len(self.sent.sizes) - 1)
        self.sent.shared.append(same)
        self._before = body

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """The same, in one piece."""
        yield await self.reply(request)

    async def aclose(self) -> None:
        """Nothing is held open."""


def common(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def highest(messages: Sequence[ChatMessage]) -> int:
    """The highest item that the messages tell of."""
    found = 0
    for message in messages:
        texts = [message.text]
        if isinstance(message, AssistantMessage):
            texts += [call.arguments for call in message.calls]
        for text in texts:
            found = max([found, *(int(number) for number in _ITEM.findall(text))])
    return found


def fetcher(fetched: list[int], size: int) -> Tool:
    """The tool: some 3 KB about an item."""

    @tool(effect="read")
    def fetch(item: str) -> str:
        """Fetch an item.

        Args:
            item: Its name.
        """
        number = int(item.removeprefix("item-"))
        fetched.append(number)
        line = _LINE.format(item=number)
        return (line * (size // len(line) + 1))[:size]

    return fetch


async def play(turns: int, *, window: int = WINDOW, size: int = 3_000, keep: bool = False) -> Sent:
    """Carry one task to its end.

    Args:
        turns: How many items it fetches.
        window: Of the model, in tokens.
        size: Characters of a result.
        keep: Keep the bodies.
    """
    player = Player(turns, window, keep=keep)
    agent = Agent(
        model=player,
        tools=[fetcher(player.sent.fetched, size)],
        groups=(),
        limits=Limits(max_steps=turns + 5),
    )
    async with Hermes("memory://") as app:
        response = await app.run(agent, GOAL)
    player.sent.status = response.status
    return player.sent


def exponent(turns: Sequence[int], sums: Sequence[float]) -> float:
    """The power of the turns that fits their sums best: 1 for a line, 2 for a square."""
    xs, ys = [math.log(n) for n in turns], [math.log(s) for s in sums]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )


def main() -> int:
    """Measure, print, draw; 1 if a ratio is missed."""
    parser = argparse.ArgumentParser(description="What a long task sends.")
    parser.add_argument("--turns", type=int, nargs="+", default=list(TURNS))
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--png", type=Path)
    args = parser.parse_args()
    turns, window = cast("list[int]", args.turns), cast("int", args.window)
    rows = [(n, anyio.run(_both, n, window)) for n in sorted({*turns, 300})]
    print(f"window {window:,} tokens, results of 3 KB; tokens are estimated from the bytes")
    print("turns |  MB sent  tokens  with compaction |  MB sent  tokens  without | ratio")
    for n, (short, long) in rows:
        print(
            f"{n:5} | {sum(short.sizes) / 1e6:8.2f}  {sum(short.tokens):11,}  "
            f"({short.summaries} summaries) | {sum(long.sizes) / 1e6:8.2f}  "
            f"{sum(long.tokens):11,} | {sum(short.tokens) / sum(long.tokens):.3f}"
        )
    if args.png:
        cast("Path", args.png).write_bytes(picture(rows))
        print(f"drawn: {args.png}")
    return _judge(rows)


async def _both(turns: int, window: int) -> tuple[Sent, Sent]:
    return await play(turns, window=window), await play(turns, window=UNBOUNDED)


def _judge(rows: Sequence[tuple[int, tuple[Sent, Sent]]]) -> int:
    # The power law of long tasks: a short one is never compacted.
    long = [row for row in rows if row[0] >= 50]
    line = exponent([n for n, _ in long], [sum(short.tokens) for _, (short, _) in long])
    square = exponent([n for n, _ in long], [sum(whole.tokens) for _, (_, whole) in long])
    short, whole = dict(rows)[300]
    share = sum(short.tokens) / sum(whole.tokens)
    _, (_, longest) = rows[-1]
    cpu = build_exponent(longest)
    verdicts = [
        (f"tokens grow with turns to the power of {line:.2f} with compaction", line <= 1.25),
        (f"and to the power of {square:.2f} without", square >= 1.75),
        (f"300 turns send {share:.3f} of what they send without", share <= WANTED_SHARE),
        (f"{short.reuse:.1%} of the bytes begin as before, with compaction", short.reuse > 0.9),
        (f"{whole.reuse:.1%} without", whole.reuse > WANTED_REUSE),
        ("no item was fetched twice", all(_is_right(n, each) for n, both in rows for each in both)),
        (f"CPU to build grows with the bytes to the power of {cpu:.2f}", cpu <= 1.1),
    ]
    for text, good in verdicts:
        print(f"{'ok  ' if good else 'MISS'} {text}")
    return 0 if all(good for _, good in verdicts) else 1


def _is_right(turns: int, sent: Sent) -> bool:
    return sent.status == "succeeded" and sent.fetched == list(range(1, turns + 1))


def build_exponent(sent: Sent) -> float:
    """The power of a request's bytes that the CPU to build it grows with."""
    tenth = max(1, len(sent.sizes) // 10)
    parts = [slice(start, start + tenth) for start in range(tenth, len(sent.sizes), tenth)]
    sizes = [sum(sent.sizes[part]) for part in parts]
    return exponent(sizes, [sum(sent.build_s[part]) for part in parts])


class _Axes(Protocol):
    """What is used of matplotlib's axes."""

    def plot(self, *args: object, **options: object) -> object: ...
    def set_xlabel(self, label: str) -> object: ...
    def set_ylabel(self, label: str) -> object: ...
    def set_title(self, label: str) -> object: ...
    def set_xscale(self, value: str) -> object: ...
    def set_yscale(self, value: str) -> object: ...
    def legend(self) -> object: ...


class _Canvas(Protocol):
    def print_png(self, filename_or_obj: io.BytesIO) -> object: ...


def picture(rows: Sequence[tuple[int, tuple[Sent, Sent]]]) -> bytes:
    """Tokens sent against turns, both axes logarithmic, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    canvas = cast("_Canvas", FigureCanvasAgg(figure))
    axes = cast("_Axes", figure.add_subplot())
    turns = [n for n, _ in rows]
    axes.plot(turns, [sum(whole.tokens) for _, (_, whole) in rows], "o-", label="without")
    axes.plot(turns, [sum(short.tokens) for _, (short, _) in rows], "o-", label="with compaction")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("turns")
    axes.set_ylabel("tokens sent in all (estimated)")
    axes.set_title("What a long task sends")
    axes.legend()
    out = io.BytesIO()
    canvas.print_png(out)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
