"""What the built-in tools are set up with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinOptions:
    """Bounds and addresses of the built-in tools, the same for every agent of a process.

    Attributes:
        workspace: The folder that file tools are bound to.
    """

    workspace: Path = Path()
