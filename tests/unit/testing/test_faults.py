"""Where and when a blow falls."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from hermes.testing.faults import Point, Striker
from hermes.testing.outside import Outside, Seen

POINT = Point(name="store.commit.after", nth=1)


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set in place of the death of this process."""
    fallen = threading.Event()

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGKILL)
        fallen.set()

    monkeypatch.setattr(os, "kill", kill)
    return fallen


def test_a_blow_from_another_thread_does_not_fall_between_a_deed_and_its_record(
    tmp_path: Path, struck: threading.Event
) -> None:
    outside = Outside(tmp_path / "seen.jsonl")
    striker = Striker(POINT, "kill", is_quiet=outside.is_quiet)
    beside = threading.Thread(target=striker.reach, args=[POINT])

    with outside.deed(Seen(life=0, kind="tool", name="pay")):
        beside.start()
        assert not struck.wait(0.05)
    assert struck.wait(5)
    beside.join()


def test_a_blow_from_the_loop_itself_falls_at_once(tmp_path: Path, struck: threading.Event) -> None:
    outside = Outside(tmp_path / "seen.jsonl")
    with outside.deed(Seen(life=0, kind="tool", name="pay")):
        Striker(POINT, "kill", is_quiet=outside.is_quiet).reach(POINT)
        assert struck.is_set()
