"""The commands around a worker, in process."""

from __future__ import annotations

import signal

import pytest

from tests.unit.cli.shop import RUN, Cli


def test_a_detached_run_is_only_submitted(cli: Cli) -> None:
    result = cli("run", "look", *RUN, "--detach", "--json")
    assert result.code == 0
    assert result.value["status"] == "dispatched"
    assert result.value["output"] is None
    plain = cli("run", "look", *RUN, "--detach")
    assert plain.out.strip().startswith("task_")
    assert "hermes worker" in plain.err


def test_a_worker_carries_what_there_is_and_ends(cli: Cli) -> None:
    task_id = cli("run", "look", *RUN, "--detach", "-q").out.strip()
    assert cli("worker", "--once").code == 0
    assert f"{task_id}  succeeded" in cli("tasks").out


def test_a_worker_says_who_it_is_and_what_it_does(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LOG_FORMAT", "text")
    cli("run", "look", *RUN, "--detach", "-q")
    told = cli("worker", "--once", "--queues", "agent, other", "--concurrency", "3").err
    assert "event=worker.started worker_id=worker_" in told
    assert "database=sqlite:///" in told
    assert "queues=agent,other concurrency=3" in told
    for event in ("worker.claimed", "worker.settled", "tool.start", "model.round"):
        assert f"event={event}" in told


def test_a_worker_leaves_other_queues_alone(cli: Cli) -> None:
    cli("run", "look", *RUN, "--detach", "-q")
    assert cli("worker", "--once", "--queues", "other").code == 0
    assert "dispatched" in cli("tasks").out


def test_a_worker_takes_the_agent_of_its_file_and_the_playbook_of_the_task(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("first", "second"):
        body = f'name = "clerk"\ninstructions = "{text}"\ntools = ["tools.py"]\n'
        with open(f"{text}.toml", "w", encoding="utf-8") as file:
            file.write(body)
    cli("run", "look", "--agent", "first.toml", "--playbook", "rules.yaml", "--detach", "-q")
    assert cli("worker", "--once", "--agent", "second.toml").code == 0
    assert "succeeded" in cli("tasks").out


def test_two_files_of_one_agent_are_refused(cli: Cli) -> None:
    for name in ("a.toml", "b.toml"):
        with open(name, "w", encoding="utf-8") as file:
            file.write('name = "clerk"\n')
    result = cli("worker", "--once", "--agent", "a.toml", "--agent", "b.toml")
    assert result.code == 2
    assert "both agent 'clerk'" in result.err


def test_times_that_do_not_fit_each_other_are_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LEASE_S", "10")
    result = cli("worker", "--once")
    assert result.code == 2
    assert "HERMES_HEARTBEAT_S (10) must be less than half of HERMES_LEASE_S (10)" in result.err


def test_a_worker_puts_the_signal_handlers_back(cli: Cli) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    cli("worker", "--once")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_submitted_task_is_cancelled_by_the_command(cli: Cli) -> None:
    task_id = cli("run", "look", *RUN, "--detach", "-q").out.strip()
    result = cli("cancel", task_id[-6:], "--json")
    assert result.code == 0
    assert result.value == {"task_id": task_id, "status": "cancelled", "unsettled": []}
    assert cli("cancel", "last").out.strip() == f"{task_id} cancelled"


@pytest.mark.parametrize(
    ("queues", "says"),
    [(" , ", "names no agent"), ("", "names no agent"), ("a\udcff", "no UTF-8")],
)
def test_queues_that_name_nobody_are_refused_rather_than_taken_for_any(
    cli: Cli, queues: str, says: str
) -> None:
    cli("run", "look", *RUN, "--detach", "-q")
    result = cli("worker", "--once", "--queues", queues)
    assert (result.code, says in result.err) == (2, True), result.err
    assert "dispatched" in cli("tasks").out


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_an_event_that_no_task_can_wait_for_is_refused(cli: Cli, name: str) -> None:
    cli("run", "hi", *RUN, "-q")
    result = cli("signal", name)
    assert (result.code, "an event needs a name" in result.err) == (2, True), result.err


def test_a_signal_happens_once(cli: Cli) -> None:
    cli("run", "hi", *RUN, "-q")
    assert cli("signal", "bell", "--payload", '{"a": 1}', "--json").value == {
        "name": "bell",
        "new": True,
    }
    assert "before" in cli("signal", "bell").out
    wrong = cli("signal", "bell", "--payload", "yes")
    assert wrong.code == 2
    assert "no JSON" in wrong.err


def test_a_cancel_or_signal_makes_no_empty_journal(cli: Cli) -> None:
    for words in (("cancel", "last"), ("signal", "bell")):
        result = cli(*words)
        assert result.code == 2
        assert "no journal" in result.err
