"""Named places in the engine where a test may end the process, delay it, or raise.

Nothing happens at a failpoint unless `hermes.testing` has put a hook in.
"""

from __future__ import annotations

from collections.abc import Callable

Hook = Callable[[str], None]

_hook: Hook | None = None


def hit(name: str) -> None:
    """Say that the engine has come to the place `name`, such as `loop.model.before`."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> None:
    """Have `hook` called at every failpoint; None takes it away."""
    global _hook
    _hook = hook
