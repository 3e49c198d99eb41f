"""`hermes replay`: the present program against a task's record."""

from __future__ import annotations

from dataclasses import asdict

import anyio

from hermes.agents import Launch
from hermes.app import Agent, Hermes
from hermes.core import json
from hermes.runtime.replay import Replayed

from . import exits, output
from .find import find_task, require_journal
from .run import settings_in_force

_WIDTH = 400


def replay(wanted: str, flags: Launch, *, json: bool) -> exits.Exit:
    """Print whether the program decides as the record says; 0 if it does, else 1."""
    settings = settings_in_force()
    require_journal(settings)

    async def work() -> Replayed:
        async with Hermes(settings=settings) as app:
            found = await find_task(app.store, wanted)
            launch = Launch.recorded(found.spec.launch).overridden_by(flags)
            return await app.replay(found.task_id, Agent.of(launch.definition()))

    found = anyio.run(work)
    if json:
        output.print_json(_object(found))
    else:
        output.print_text("\n".join(_lines(found)))
    return exits.Exit.SUCCEEDED if found.difference is None else exits.Exit.FAILED


def _object(found: Replayed) -> dict[str, object]:
    return {
        "task_id": found.task_id,
        "same": found.difference is None,
        "decisions": found.decisions,
        "whole": found.is_whole,
        "difference": asdict(found.difference) if found.difference else None,
        "program": list(found.changes),
        "accepted": list(found.accepted),
    }


def _lines(found: Replayed) -> list[str]:
    decisions = output.count(found.decisions, "decision")
    until = "to its end" if found.is_whole else "as far as the record goes"
    lines = [f"{found.task_id}  replayed without any effect"]
    if found.difference is None:
        lines.append(f"the same {until}: {decisions}")
    else:
        difference = found.difference
        lines += [
            f"{decisions} the same, then at {difference.path or 'the end'} another "
            f"{difference.what}",
            f"  then  {_shown(difference.then)}",
            f"  now   {_shown(difference.now)}",
        ]
    if found.changes:
        lines += ["the program has changed:", *(f"  {line}" for line in found.changes)]
    if found.accepted:
        lines += ["it had changed on the way:", *(f"  {line}" for line in found.accepted)]
    return lines


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return output.short(value if isinstance(value, str) else json.dumps(value), _WIDTH)
