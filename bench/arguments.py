"""What reading of damaged tool calls comes to: right, refused, or wrong, beside other readers.

The right calls of bfcl-eval, a public set, are damaged in ten ways and written as text. Every
reader gets the same texts; what it makes of them counts as a call only if it fits the schema to
the letter, as any program would check. Wrong, a call that fits and was not meant, is the share
that has to be near zero. The set is fetched once, as `locks/bfcl.txt` says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Literal, cast

import fast_json_repair
import json_repair
from calls.damage import DAMAGES, dialect, several
from calls.dataset import Call, Case, NoData, Schema, fits, load

from hermes.core.effects import Effect
from hermes.tools import Arguments, read_arguments
from hermes.tools.arguments.text_calls import ParseError, written_calls

Verdict = Literal["right", "refused", "wrong"]
Calls = list[tuple[str, object]]
ReadArguments = Callable[[Schema, str], object]
ReadCalls = Callable[[str, Case], Calls | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One contender; both functions give None for a refusal."""

    arguments: ReadArguments
    calls: ReadCalls


@dataclass(slots=True)
class Score:
    """What one reader made of one kind of damage."""

    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    spent_us: list[float] = field(default_factory=list[float])
    wrong: list[tuple[str, object, object]] = field(
        default_factory=list[tuple[str, object, object]]
    )

    def share(self, verdict: Verdict) -> float:
        """In percent."""
        return 100 * self.verdicts[verdict] / max(1, self.verdicts.total())


def hermes(effect: Effect) -> Reader:
    """The reader of the project, for tools of one effect class."""

    def arguments(schema: Schema, text: str) -> object:
        read = read_arguments(schema, text, effect=effect)
        return read.values if isinstance(read, Arguments) else None

    def calls(text: str, case: Case) -> Calls | None:
        found = written_calls(text, case.tools)
        if isinstance(found, ParseError) or not found:
            return None
        read = [(one.name, arguments(dict(case.tools[one.name]), one.raw)) for one in found]
        return None if any(values is None for _, values in read) else read

    return Reader(arguments=arguments, calls=calls)


def plain(loads: Callable[[str], object]) -> Reader:
    """A reader of JSON, with the schema as its judge."""

    def arguments(schema: Schema, text: str) -> object:
        value = loads(text)
        return value if _is_object(value) and fits(schema, value) else None

    def calls(text: str, case: Case) -> Calls | None:
        value = loads(text)
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        read: Calls = []
        for item in items:
            if not isinstance(item, dict):
                return None
            table = cast("dict[str, object]", item)
            name, given = str(table.get("name")), table.get("arguments")
            if name not in case.tools or not fits(dict(case.tools[name]), given):
                return None
            read.append((name, given))
        return read or None

    return Reader(arguments=arguments, calls=calls)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _json_loads(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _fast(text: str) -> object:
    try:
        return cast("object", fast_json_repair.loads(text))
    except ValueError:
        return None


READERS = {
    "hermes, read": hermes("read"),
    "hermes, unsafe": hermes("unsafe"),
    "json.loads": plain(_json_loads),
    "json_repair": plain(json_repair.loads),
    "fast-json-repair": plain(_fast),
}


WRITTEN = {"10 several calls in one text": several, "calls in dialects": dialect}


def same(one: object, other: object) -> bool:
    """Whether two plain values are the same; true is not 1, and 1.0 is 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, object]", one), cast("dict[str, object]", other)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        first, second = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(first) == len(second) and all(map(same, first, second))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


Scores = dict[str, dict[str, Score]]


def judge(score: Score, text: str, meant: object, read: Callable[[], object]) -> None:
    """Have one reader read one text."""
    begun = time.thread_time()
    found = read()
    score.spent_us.append((time.thread_time() - begun) * 1e6)
    if found is None:
        score.verdicts["refused"] += 1
    elif same(found, meant):
        score.verdicts["right"] += 1
    else:
        score.verdicts["wrong"] += 1
        score.wrong.append((text, meant, found))


def measure(cases: Sequence[Case], rng: Random) -> Scores:
    """Every reader on every kind of damage."""
    scores: Scores = {kind: {name: Score() for name in READERS} for kind in (*DAMAGES, *WRITTEN)}
    for case in cases:
        for call in case.calls:
            _measure_arguments(scores, call, dict(case.tools[call.name]), rng)
        meant = [(call.name, call.arguments) for call in case.calls]
        for kind, write in WRITTEN.items():
            text = write(case, rng)
            for name, reader in READERS.items():
                judge(scores[kind][name], text, meant, partial(reader.calls, text, case))
    return scores


def _measure_arguments(scores: Scores, call: Call, schema: Schema, rng: Random) -> None:
    for kind, damage in DAMAGES.items():
        damaged = damage(call, schema, rng)
        if damaged is None:
            continue
        text, meant = damaged
        for name, reader in READERS.items():
            judge(scores[kind][name], text, meant, partial(reader.arguments, schema, text))


def show(scores: Scores, examples: int) -> None:
    """Print one table, and wrong readings of ours."""
    print(f"{'damage':34}{'texts':>6}  " + "".join(f"{name:>22}" for name in READERS))
    print(f"{'':42}" + "".join(f"{'right refused wrong':>22}" for _ in READERS))
    for kind, row in scores.items():
        texts = row["json.loads"].verdicts.total()
        cells = [
            "".join(f"{row[name].share(verdict):7.2f}" for verdict in ("right", "refused", "wrong"))
            for name in READERS
        ]
        print(f"{kind:34}{texts:6}  " + "".join(f"{cell:>22}" for cell in cells))
    times = [sorted(us for row in scores.values() for us in row[name].spent_us) for name in READERS]
    for label, at in (("median", 0.5), ("99 %", 0.99)):
        cells = [f"{spent[int(at * (len(spent) - 1))]:.0f} µs" for spent in times]
        print(f"{'time a text, ' + label:42}" + "".join(f"{cell:>22}" for cell in cells))
    for kind, row in scores.items():
        for name in ("hermes, read", "hermes, unsafe"):
            for text, meant, found in row[name].wrong[:examples]:
                print(f"\nwrong, {name}, {kind}\n  {text!r:.400}\n  meant {meant!r:.300}")
                print(f"  found {found!r:.300}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--cases", type=int, default=0, help="take so many at random, 0 for all")
    parser.add_argument("--examples", type=int, default=3, help="wrong readings to show, a kind")
    options = parser.parse_args()
    try:
        cases, left_out = load()
    except NoData as exc:
        print(f"skipped: the set of calls could not be fetched: {exc}", file=sys.stderr)
        return
    rng = Random(options.seed)
    if options.cases:
        cases = rng.sample(cases, min(options.cases, len(cases)))
    calls = sum(len(case.calls) for case in cases)
    print(f"seed {options.seed}; {len(cases)} questions, {calls} calls in percent ", end="")
    print(f"({left_out} left out: their own answer does not fit their schema)")
    show(measure(cases, rng), options.examples)


if __name__ == "__main__":
    main()
