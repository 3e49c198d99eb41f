"""The stores that the conformance suite runs on; a further one needs a line in `MAKERS`."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hermes.core.clock import Clock
from hermes.store import Store, open_store
from hermes.testing.clock import FakeClock
from tests.postgres import clear, database


def memory(_: pytest.FixtureRequest) -> str:
    return "memory://"


def sqlite(request: pytest.FixtureRequest) -> str:
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder / 'hermes.db'}"


def postgres(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    clear(url)
    return url


MAKERS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "memory": memory,
    "sqlite": sqlite,
    "postgres": postgres,
}
"""Each gives the URL of an empty database."""


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database for the whole run; its tests are skipped, or fail under CI, if there is none."""
    with database() as url:
        yield url


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=list(MAKERS))
def kind(request: pytest.FixtureRequest) -> str:
    """Which database."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    """Where an empty database is."""
    return MAKERS[kind](request)


@pytest.fixture
async def store(url: str, clock: Clock) -> AsyncIterator[Store]:
    """An open store on an empty database."""
    async with open_store(url, clock=clock, synchronous="NORMAL") as opened:
        yield opened
