"""`hermes db`: how the database stands, migrations, copies, and old tasks that go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hermes.cli.database import age_of
from hermes.errors import InputError
from hermes.store.driver import connect
from hermes.store.migrate import APPLICATION_ID
from hermes.store.queries import migrations
from tests.unit.cli.asked import ask
from tests.unit.cli.shop import RUN, Cli

JOURNAL = Path(".hermes/hermes.db")


@pytest.fixture
def old_journal(workdir: Path) -> Path:
    """A journal of the first schema version."""
    path = workdir / JOURNAL
    path.parent.mkdir()
    connection = connect(str(path))
    connection.execute(migrations()[0][1])
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    return path


class TestStatus:
    def test_it_counts_what_is_there(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        ask("approval")
        value = cli("db", "status", "--json").value
        assert (value["backend"], value["version"]) == ("sqlite", value["newest"])
        assert (value["tasks"], value["open_reviews"]) == ({"succeeded": 1, "waiting": 1}, 1)
        assert value["pending"] == []
        out = cli("db", "status").out
        assert "1 succeeded, 1 waiting" in out
        assert "open reviews  1" in out

    def test_a_setting_that_voids_a_promise_is_named(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_SQLITE_SYNCHRONOUS", "NORMAL")
        cli("run", "look", *RUN)
        assert "note          synchronous=NORMAL" in cli("db", "status").out

    def test_an_old_schema_is_told_and_left_as_it_is(self, cli: Cli, old_journal: Path) -> None:
        before = old_journal.read_bytes()
        result = cli("db", "status")
        assert result.code == 0
        assert "0002_waits" in result.out
        assert old_journal.read_bytes() == before

    @pytest.mark.parametrize("words", [("status",), ("prune", "--older-than", "1d")])
    def test_without_a_journal_none_is_made(self, cli: Cli, words: tuple[str, ...]) -> None:
        result = cli("db", *words)
        assert (result.code, "no journal at" in result.err) == (2, True)
        assert not JOURNAL.exists()


class TestMigrate:
    def test_a_dry_run_names_number_and_order_of_upgrade_and_changes_nothing(
        self, cli: Cli, old_journal: Path
    ) -> None:
        before = old_journal.read_bytes()
        out = cli("db", "migrate", "--dry-run").out
        assert "2  0002_waits" in out
        assert "Safe before the code upgrade" in " ".join(out.split())
        assert old_journal.read_bytes() == before

    def test_it_runs_what_is_pending_and_only_once(self, cli: Cli, old_journal: Path) -> None:
        assert "ran 0002_waits" in cli("db", "migrate").out
        assert cli("db", "migrate").out == "the schema is up to date\n"
        assert cli("db", "migrate", "--dry-run", "--json").value == {"dry_run": True, "pending": []}
        assert cli("db", "status").out.startswith("backend")

    def test_a_newer_schema_is_refused(self, cli: Cli, old_journal: Path) -> None:
        connection = connect(str(old_journal))
        connection.pragma("user_version", 999)
        connection.close()
        for words in (("migrate",), ("migrate", "--dry-run"), ("status",)):
            result = cli("db", *words)
            assert (result.code, "schema version 999" in result.err) == (1, True)


class TestBackup:
    def test_a_copy_is_a_journal_of_its_own(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = cli("run", "look", *RUN, "--json").value
        assert cli("db", "backup", "copy.db").code == 0
        monkeypatch.setenv("HERMES_DATABASE_URL", "sqlite:///copy.db")
        assert str(first["task_id"]) in cli("tasks").out

    def test_a_name_that_sqlite_cannot_take_is_refused(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        result = cli("db", "backup", "copy\udcff.db")
        assert (result.code, "is no UTF-8" in result.err) == (2, True), result.err

    def test_a_file_that_is_there_is_never_written_over(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        Path("copy.db").write_text("precious")
        result = cli("db", "backup", "copy.db")
        assert (result.code, "exists already" in result.err) == (2, True)
        assert Path("copy.db").read_text() == "precious"


class TestPrune:
    def test_settled_tasks_go_and_waiting_ones_stay(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        [review] = ask("approval")
        told = cli("db", "prune", "--older-than", "0s", "--dry-run", "--json").value
        assert (told["tasks"], told["tasks_before"], told["tasks_after"]) == (1, 2, 2)
        value = cli("db", "prune", "--older-than", "0s", "--json").value
        assert (value["tasks"], value["tasks_after"]) == (1, 1)
        assert value["events"] == told["events"]
        assert review.task_id in cli("tasks").out

    def test_what_is_younger_stays(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        out = cli("db", "prune", "--older-than", "30d").out
        assert out.startswith("removed 0 tasks")
        assert "tasks    1 → 1" in out


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("2w", timedelta(weeks=2)),
        ("90m", timedelta(minutes=90)),
        (" 5S ", timedelta(seconds=5)),
    ],
)
def test_an_age_is_a_number_and_a_unit(text: str, age: timedelta) -> None:
    assert age_of(text) == age


@pytest.mark.parametrize("text", ["", "30", "d", "1y", "-1d", "1.5h", "99999999999w"])
def test_no_other_text_is_an_age(cli: Cli, text: str) -> None:
    with pytest.raises(InputError, match="age"):
        age_of(text)


def test_pruning_gives_space_back_to_the_disk(cli: Cli) -> None:
    for _ in range(3):
        cli("run", "look", *RUN, "--var", f"what={'lamp ' * 40_000}")
    value = cli("db", "prune", "--older-than", "0s", "--json").value
    assert value["tasks"] == 3
    before, after = value["size_bytes_before"], value["size_bytes_after"]
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert after < before / 2
