"""What tests of tools stand on: a context whose workbench is a plain object."""

import pytest

from hermes.core.request import AgentRequest
from hermes.errors import NotFoundError
from hermes.tools import TaskSnapshot, ToolContext


class MemoryBench:
    """Progress and artifacts in lists, handles in a dict."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.blobs: dict[str, bytes] = {}
        self.cancelled = False

    def progress(self, text: str) -> None:
        self.told.append(text)

    def artifact(self, name: str, data: bytes | str) -> str:
        self.blobs[name] = data.encode() if isinstance(data, str) else data
        return name

    async def read(self, handle: str) -> bytes:
        if handle not in self.blobs:
            raise NotFoundError(f"no blob {handle}")
        return self.blobs[handle]


@pytest.fixture
def bench() -> MemoryBench:
    return MemoryBench()


def context_of(bench: MemoryBench) -> ToolContext:
    """A call's context over a bench."""
    return ToolContext(
        request=AgentRequest(input="report the five worst errors"),
        history=(),
        task=TaskSnapshot(task_id="task_1", agent="main", goal="report", step=1),
        variables={},
        idempotency_key="task_1/turn1/tool1",
        trace_id="0" * 31 + "1",
        bench=bench,
    )


@pytest.fixture
def context(bench: MemoryBench) -> ToolContext:
    return context_of(bench)
