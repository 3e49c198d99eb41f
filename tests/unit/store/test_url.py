"""Which store a database URL names."""

import os
from pathlib import Path

import pytest

from hermes.errors import ConfigError, StoreError
from hermes.store import MemoryStore, SQLiteStore, open_store, pending_migrations
from hermes.testing.clock import FakeClock


@pytest.mark.parametrize(
    ("url", "folder", "run_dir"),
    [
        ("sqlite:///hermes.db", ".", ".hermes/run"),
        ("sqlite:///./.hermes/hermes.db", ".hermes", ".hermes/run"),
        ("sqlite:///日志 1/hermes.db", "日志 1", "日志 1/.hermes/run"),
    ],
)
async def test_a_relative_path_starts_in_the_current_folder(
    workdir: Path, url: str, folder: str, run_dir: str
) -> None:
    async with open_store(url, clock=FakeClock(), synchronous="NORMAL") as store:
        assert isinstance(store, SQLiteStore)
        assert store.run_dir == str(workdir / run_dir)
    assert (workdir / folder / "hermes.db").is_file()


async def test_the_path_holds_when_the_current_folder_changes(workdir: Path) -> None:
    (workdir / "elsewhere").mkdir()
    store = open_store("sqlite:///hermes.db", clock=FakeClock())
    os.chdir("elsewhere")

    async with store:
        assert (workdir / "hermes.db").is_file()


def test_four_slashes_name_an_absolute_path() -> None:
    store = open_store("sqlite:////var/lib/hermes/hermes.db", clock=FakeClock())

    assert store.run_dir == "/var/lib/hermes/.hermes/run"


async def test_memory_needs_no_folder() -> None:
    async with open_store("memory://", clock=FakeClock()) as store:
        assert isinstance(store, MemoryStore)
        assert store.run_dir is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hermes.db",
        "/var/lib/hermes.db",
        "memory",
        "memory://x",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://hermes.db",
        "sqlite:///hermes.db?mode=ro",
        "SQLITE:///hermes.db",
        "mysql://localhost/hermes",
    ],
)
def test_any_other_url_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(url, clock=FakeClock())
    assert "sqlite:///" in caught.value.hint
    assert "memory://" in caught.value.hint


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_postgresql_url_makes_its_store(scheme: str) -> None:
    store = open_store(f"{scheme}://user:secret@localhost/hermes", clock=FakeClock())

    assert type(store).__name__ == "PostgresStore"


def test_a_password_in_a_url_that_names_no_store_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        open_store("postgresql+psycopg://user:secret@localhost/hermes", clock=FakeClock())
    assert "secret" not in str(caught.value)


async def test_a_new_database_lacks_every_migration_and_an_open_one_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hermes.db'}"

    before = await pending_migrations(url)
    assert not (tmp_path / "hermes.db").exists()
    async with open_store(url, clock=FakeClock()):
        pass

    assert [migration.name for migration in before] == [
        "0001_journal",
        "0002_waits",
        "0003_todos",
        "0004_quota",
        "0005_budget",
    ]
    assert all("Safe before the code upgrade" in migration.about for migration in before)
    assert await pending_migrations(url) == []
    assert await pending_migrations("memory://") == []


async def test_a_database_that_is_not_to_be_migrated_is_refused_with_what_to_do(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'hermes.db'}"
    store = open_store(url, clock=FakeClock(), migrate=False)

    with pytest.raises(StoreError, match="hermes db migrate"):
        await store.__aenter__()

    assert not (tmp_path / "hermes.db").exists()
    async with open_store(url, clock=FakeClock()):
        pass
    async with open_store(url, clock=FakeClock(), migrate=False) as ready:
        assert (await ready.status()).version == 5
