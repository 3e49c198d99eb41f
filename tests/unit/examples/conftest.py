"""The example's files import each other by name, as they do when Hermes loads its tools."""

import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/log_report"
if str(EXAMPLE) not in sys.path:
    sys.path.insert(0, str(EXAMPLE))


@pytest.fixture
def example() -> Path:
    """The folder of the log report."""
    return EXAMPLE


@pytest.fixture
def real_log(example: Path) -> Path:
    """Two days of a real nginx."""
    return example / "logs/error.log"
