"""From a task that waits for a person to its end, by the commands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.core.events import ReviewDecision
from hermes.runtime.review import decide
from hermes.store import Review, Store
from tests.unit.cli.asked import take_up
from tests.unit.cli.shop import Cli

RUN = ("--tools", "asking.py", "--playbook", "asking.yaml")

TOOLS = '''
import time
from pathlib import Path
from hermes import tool
from hermes.tools import Child, Children, Question

@tool(timeout_s=0.05)
def pay() -> str:
    """Pay."""
    paid = Path("paid")
    paid.write_text((paid.read_text() if paid.exists() else "") + "x")
    if paid.read_text() == "x":
        time.sleep(0.3)
    return "paid"

@tool(requires_approval=True)
def send(to: str = "bob") -> str:
    """Send."""
    return f"sent to {to}"

@tool
def colour() -> Question:
    """Ask."""
    return Question(text="which colour?", options=["red", "blue"])

@tool
def split() -> Children:
    """Split."""
    return Children(tasks=[Child(goal="colour"), Child(goal="hello")])
'''
PLAYBOOK = """
playbook: 1
name: shop
rules:
  - {name: p, when: {all: [pay]}, steps: [{call: pay, as: x}], answer: "{{ x }}"}
  - {name: s, when: {all: [send]}, steps: [{call: send, as: x}], answer: "{{ x }}"}
  - {name: c, when: {all: [colour]}, steps: [{call: colour, as: x}], answer: "{{ x }}"}
  - {name: d, when: {all: [split]}, steps: [{call: split, as: x}], answer: "{{ x }}"}
otherwise: "hello"
"""


@pytest.fixture
def waiting(cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    # A call whose thread still sleeps is made again only when a lease is over.
    monkeypatch.setenv("HERMES_LEASE_S", "1")
    monkeypatch.setenv("HERMES_HEARTBEAT_S", "0.2")
    (workdir / "asking.py").write_text(TOOLS)
    (workdir / "asking.yaml").write_text(PLAYBOOK)
    return cli


@pytest.mark.parametrize(
    ("goal", "words", "output", "paid"),
    [
        ("pay", ["done", "last", "--result", "all paid"], "all paid", "x"),
        ("pay", ["retry", "last"], "paid", "xx"),
        ("send", ["approve", "last"], "sent to bob", None),
        ("colour", ["answer", "last", "blue"], "blue", None),
    ],
    ids=["done", "retry", "approve", "answer"],
)
def test_a_decision_carries_the_task_to_its_end_with_resume(
    waiting: Cli, goal: str, words: list[str], output: str, paid: str | None
) -> None:
    asked = waiting("run", goal, *RUN, "--json")
    assert (asked.code, asked.value["status"]) == (3, "waiting")
    result = waiting("review", *words, "--resume", "--json")
    assert result.value["output"] == output, result.err
    assert (result.code, result.value["status"]) == (0, "succeeded")
    if paid is not None:
        assert Path("paid").read_text() == paid
    assert waiting("review", "list").out.startswith("no open reviews")


def test_a_refused_call_is_not_made_and_the_reason_is_told(waiting: Cli) -> None:
    waiting("run", "send", *RUN)
    result = waiting("review", "reject", "last", "--comment", "too far", "--resume", "--json")
    assert result.code == 1
    assert "too far" in str(result.value["error"])


def test_cancel_ends_the_task_as_cancelled(waiting: Cli) -> None:
    waiting("run", "colour", *RUN)
    result = waiting("review", "cancel", "last", "--resume", "--json")
    assert (result.code, result.value["status"]) == (130, "cancelled")


def test_without_resume_the_next_resume_takes_the_answer_in(waiting: Cli) -> None:
    waiting("run", "colour", *RUN)
    waiting("review", "answer", "last", "red")
    assert "an answer is there" in waiting("show", "last").out
    assert waiting("resume", "last", "--quiet").out == "red\n"


def test_the_question_stands_where_the_run_ends_with_the_command_to_answer(waiting: Cli) -> None:
    err = waiting("run", "colour", *RUN).err
    assert "waits for a person: which colour?" in err
    assert "hermes review answer review_" in err


def test_a_settled_task_can_be_decided_no_more(waiting: Cli) -> None:
    waiting("run", "colour", *RUN)
    waiting("review", "answer", "last", "red", "--by", "ann", "--resume")
    result = waiting("review", "answer", "last", "blue")
    assert (result.code, "answer by ann" in result.err) == (1, True)


def test_show_of_a_parent_names_its_children_and_what_they_ask(waiting: Cli) -> None:
    parent = str(waiting("run", "split", *RUN, "--json").value["task_id"])
    out = waiting("show", parent).out
    assert "children 1 of 2 settled" in out
    assert "waits for a person: which colour?" in out
    [review_id] = {word for word in out.split() if word.startswith("review_")}
    assert (
        parent
        in waiting("show", str(waiting("review", "show", review_id, "--json").value["task_id"])).out
    )
    waiting("review", "answer", review_id, "red", "--resume")
    result = waiting("resume", parent, "--json")
    assert (result.code, result.value["status"]) == (0, "succeeded"), result.err


def test_a_run_that_ends_in_the_question_of_a_child_says_how_to_answer_it(waiting: Cli) -> None:
    result = waiting("run", "split", *RUN)
    assert result.code == 3
    assert "waits for a person: which colour?" in result.err
    assert "hermes review answer review_" in result.err


def test_last_is_what_a_person_has_started_and_its_question_may_be_a_childs(waiting: Cli) -> None:
    parent = str(waiting("run", "split", *RUN, "--json").value["task_id"])
    assert waiting("show", "last", "--json").value["task_id"] == parent
    result = waiting("review", "answer", "last", "red", "--resume", "--json")
    assert (result.code, result.value["task_id"]) == (0, parent), result.err
    assert result.value["status"] == "succeeded"


def test_show_does_not_ask_for_a_decision_that_was_made(waiting: Cli) -> None:
    waiting("run", "colour", *RUN)
    waiting("review", "answer", "last", "red")
    assert "hermes review answer" not in waiting("show", "last").out


def test_a_worker_that_is_faster_than_the_resume_of_a_decision_is_no_fault(
    waiting: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decided(
        store: Store, review: Review, decision: ReviewDecision, **more: str
    ) -> Review:
        found = await decide(store, review, decision, answer=None, by=more["by"])
        await take_up(store, review.task_id)
        return found

    task_id = waiting("run", "send", *RUN, "--json").value["task_id"]
    monkeypatch.setattr("hermes.cli.reviews.decide_in", decided)
    result = waiting("review", "approve", "last", "--resume", "--json")
    assert (result.code, result.value["task_id"]) == (3, task_id), result.err
    assert result.value["status"] == "waiting"
    assert "it goes on there" in result.err
