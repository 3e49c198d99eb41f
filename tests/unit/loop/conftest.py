from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.loop.stage import Stage, staged


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage on each store that needs no server."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/j.db"
    async with staged(url) as opened:
        yield opened
