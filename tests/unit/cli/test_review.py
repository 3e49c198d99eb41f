"""`hermes review`: questions to people, found, shown and decided."""

from __future__ import annotations

import getpass
from typing import cast

import anyio
import pytest

from hermes.core.events import ReviewReason
from hermes.store import MessageRow, Wait, open_store
from tests.unit.cli.asked import CLOCK, URL, ask
from tests.unit.cli.shop import Cli, Result


def woken(task_id: str) -> tuple[list[MessageRow], list[Wait]]:
    async def read() -> tuple[list[MessageRow], list[Wait]]:
        async with open_store(URL, clock=CLOCK) as store:
            return await store.messages(task_id=task_id), await store.waits(task_id)

    return anyio.run(read)


def listed(result: Result) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", result.value["reviews"])


class TestList:
    def test_open_reviews_come_oldest_first(self, cli: Cli) -> None:
        [first], [second] = ask("approval"), ask("question")
        result = cli("review", "list")
        lines = result.out.splitlines()
        assert [line.split()[0] for line in lines[1:]] == [first.review_id, second.review_id]
        assert "100 EUR" in lines[1]

    def test_json_says_what_may_be_decided(self, cli: Cli) -> None:
        [review] = ask("question", data={"options": ["yes", "no"]})
        [item] = listed(cli("review", "list", "--json"))
        assert item["review_id"] == review.review_id
        assert (item["decisions"], item["options"]) == (["answer", "cancel"], ["yes", "no"])

    def test_decided_ones_are_listed_with_all_alone(self, cli: Cli) -> None:
        [review] = ask("approval")
        cli("review", "approve", review.review_id, "--by", "ann")
        assert cli("review", "list").out == "no open reviews; nobody is waited for\n"
        assert "approve by ann" in cli("review", "list", "--all").out

    def test_a_task_can_be_chosen(self, cli: Cli) -> None:
        [first], _ = ask("approval"), ask("approval")
        [item] = listed(cli("review", "list", "--task", first.task_id, "--json"))
        assert item["review_id"] == first.review_id

    def test_without_a_journal_there_are_none_and_none_is_made(self, cli: Cli) -> None:
        result = cli("review", "list", "--json")
        assert (result.code, result.value) == (0, {"reviews": []})
        assert "no journal at" in result.err
        assert "no journal at" in cli("review", "list").err


class TestShow:
    def test_it_has_all_that_a_person_needs_and_the_exact_commands(self, cli: Cli) -> None:
        [review] = ask("in_doubt", data={"arguments": {"amount": 100}, "effect": "unsafe"})
        out = cli("review", "show", review.review_id[-6:]).out
        for text in (
            "pay the bill",
            '{"amount":100}',
            "unsafe",
            f"hermes review done {review.review_id}",
            f"hermes review retry {review.review_id}",
            f"hermes review cancel {review.review_id}",
        ):
            assert text in out
        assert "approve" not in out

    def test_a_decided_one_says_what_by_whom(self, cli: Cli) -> None:
        [review] = ask("question")
        cli("review", "answer", review.review_id, "42", "--by", "ann")
        out = cli("review", "show", review.review_id).out
        assert "answered by ann" in out
        assert "answer   42" in out
        assert "decide:" not in out


@pytest.mark.parametrize(
    ("reason", "words", "answer"),
    [
        ("approval", ["approve"], None),
        ("approval", ["reject", "--comment", "too much"], "too much"),
        ("question", ["answer", "blue"], "blue"),
        ("question", ["answer", '{"n": 1}', "--json-value"], {"n": 1}),
        ("in_doubt", ["done", "--result", "booked"], "booked"),
        ("in_doubt", ["retry"], None),
        ("dead_letter", ["retry"], None),
        ("partial", ["accept"], None),
        ("partial", ["reject"], None),
        ("approval", ["cancel"], None),
    ],
)
def test_a_decision_is_recorded_and_wakes_the_task(
    cli: Cli, reason: ReviewReason, words: list[str], answer: object
) -> None:
    [review] = ask(reason)
    command, *rest = words
    result = cli("review", command, review.review_id, *rest, "--by", "ann")
    assert result.code == 0
    assert "by ann: transfer" in result.out
    assert f"`hermes resume {review.task_id}`" in result.err
    [message], [wait] = woken(review.task_id)
    assert (message.state, message.message.payload) == ("ready", {"wait_id": review.wait_id})
    assert wait.answer == {"decision": command, "answer": answer, "by": "ann"}


class TestDecide:
    def test_a_second_decision_says_who_was_first_and_changes_nothing(self, cli: Cli) -> None:
        [review] = ask("approval")
        cli("review", "approve", review.review_id, "--by", "ann")
        result = cli("review", "reject", review.review_id, "--by", "bob")
        assert result.code == 1
        [line] = result.err.splitlines()
        assert "approve by ann at 20" in line
        assert cli("review", "show", review.review_id, "--json").value["by"] == "ann"

    def test_a_second_decision_by_the_tasks_id_says_the_same(self, cli: Cli) -> None:
        [review] = ask("approval")
        cli("review", "approve", review.task_id, "--by", "ann")
        result = cli("review", "approve", review.task_id)
        assert (result.code, "approve by ann" in result.err) == (1, True)

    def test_a_decision_that_does_not_fit_names_those_that_do(self, cli: Cli) -> None:
        [review] = ask("in_doubt")
        result = cli("review", "approve", review.review_id)
        assert result.code == 2
        assert "done, retry, cancel" in result.err

    def test_a_question_with_options_takes_only_these(self, cli: Cli) -> None:
        [review] = ask("question", data={"options": ["red", "blue"]})
        result = cli("review", "answer", review.review_id, "green")
        assert result.code == 2
        assert '"red", "blue"' in result.err
        assert cli("review", "answer", review.review_id, "blue").code == 0

    def test_an_answer_that_is_no_json_is_refused(self, cli: Cli) -> None:
        [review] = ask("question")
        result = cli("review", "answer", review.review_id, "{oops", "--json-value")
        assert (result.code, "is not JSON" in result.err) == (2, True)

    def test_a_task_with_several_open_reviews_makes_one_say_which(self, cli: Cli) -> None:
        reviews = ask("approval", times=2)
        result = cli("review", "approve", reviews[0].task_id)
        assert result.code == 2
        assert all(review.review_id in result.err for review in reviews)

    def test_what_is_still_asked_is_named(self, cli: Cli) -> None:
        first, second = ask("approval", times=2)
        result = cli("review", "approve", first.review_id)
        assert f"1 more review of this task: {second.review_id}" in result.err

    def test_the_login_name_decides_by_default(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(getpass, "getuser", lambda: "carol")
        [review] = ask("approval")
        value = cli("review", "approve", review.review_id, "--json").value
        assert (value["decision"], value["by"]) == ("approve", "carol")
        assert value["decisions"] == []

    @pytest.mark.parametrize(
        ("wanted", "says"), [("nothing-like-it", "no review and no task"), ("x", "no review")]
    )
    def test_what_is_not_there_is_said(self, cli: Cli, wanted: str, says: str) -> None:
        ask("approval")
        result = cli("review", "approve", wanted)
        assert (result.code, says in result.err) == (2, True)

    def test_a_task_that_asks_nobody_is_said(self, cli: Cli) -> None:
        task_id = cli("run", "look", "--tools", "tools.py", "--playbook", "rules.yaml", "--json")
        result = cli("review", "approve", str(task_id.value["task_id"]))
        assert (result.code, "asks nobody" in result.err) == (2, True)
