"""Write the journals of this version as SQL.

Usage: python -m tests.corpus.write FOLDER [NAME...]

Run it once for a released version; its files are then never changed. README.md says more.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from apsw.shell import Shell

from hermes import Hermes
from hermes.config import Settings
from hermes.runtime.fork import Changes
from hermes.store.driver import connect
from tests.corpus.agents import agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """One file of the corpus.

    Attributes:
        goals: Run one after the other.
        session_id: Of all of them.
        killed_by: The process dies when this tool is called for the `nth` time.
        looks_again: A second process goes on after the death, as far as it comes without a person.
        window: Of the model, in tokens; what is longer is compacted.
        fork_at: Step at which the last task is forked; the new one is left to be resumed.
    """

    goals: tuple[str, ...]
    session_id: str | None = None
    killed_by: str = ""
    nth: int = 1
    looks_again: bool = False
    fork_at: str = ""
    window: int | None = None


JOURNALS = {
    "plain": Journal(goals=("plain",)),
    "faults": Journal(goals=("faults",)),
    "large": Journal(goals=("large",)),
    "session": Journal(goals=("first of a session", "second of a session"), session_id="s"),
    "broken_off": Journal(goals=("broken off",), killed_by="put"),
    "doubt_open": Journal(goals=("doubt",), killed_by="pay"),
    "doubt_waiting": Journal(goals=("doubt",), killed_by="pay", looks_again=True),
    "reconcile": Journal(goals=("reconcile",), killed_by="send"),
    "deed": Journal(goals=("deed",)),
    "question": Journal(goals=("question",)),
    "approval": Journal(goals=("approval",)),
    "time": Journal(goals=("time",)),
    "event": Journal(goals=("event",)),
    "children": Journal(goals=("children",)),
    "outside": Journal(goals=("outside",)),
    "fork": Journal(goals=("plain",), fork_at="/turn2"),
    "compacted": Journal(goals=("long",), killed_by="put", window=16_000),
    "child_broken_off": Journal(goals=("children",), killed_by="pay"),
}


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(JOURNALS)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "hermes.db"
            _make(JOURNALS[name], path)
            (folder / f"{name}.sql").write_text(_dump(path), encoding="utf-8")
            sys.stdout.write(f"{name}\n")


def _make(journal: Journal, path: Path) -> None:
    _in_child(lambda: _work(journal, path, killed_by=journal.killed_by))
    if journal.looks_again:
        _in_child(lambda: _work(journal, path, killed_by=""))


def _work(journal: Journal, path: Path, *, killed_by: str) -> None:
    left = journal.nth

    def on_call(name: str) -> None:
        nonlocal left
        left -= name == killed_by
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        settings = Settings.model_validate({"context_window": journal.window})
        async with Hermes(f"sqlite:///{path}", settings=settings) as app:
            for goal in journal.goals:
                response = await app.run(
                    agent(on_call), goal, session_id=journal.session_id, dedupe_key=goal
                )
                if journal.fork_at:
                    at, task_id = journal.fork_at, response.task_id
                    await app.fork(task_id, agent(on_call), at=at, changes=Changes())

    anyio.run(run)


def _in_child(work: Callable[[], None]) -> None:
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status


def _dump(path: Path) -> str:
    connection: Any = connect(str(path))
    # Whoever reads it, and when: the holder has been silent for long.
    connection.execute("UPDATE worker SET renewed_at = 0")
    out = io.StringIO()
    Shell(db=connection, stdout=out).process_command(".dump")  # pyright: ignore[reportUnknownMemberType]  # no types
    connection.close()
    lines = [line for line in out.getvalue().splitlines() if not line.startswith("--")]
    text = "\n".join(line for line in lines if line) + "\n"
    # Nothing of the machine that wrote it.
    return text.replace(str(path.parent), "/home").replace(f"'{socket.gethostname()}'", "'host'")


if __name__ == "__main__":
    main()
