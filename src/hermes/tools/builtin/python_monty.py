"""Monty as a sandbox: an interpreter of its own that has no way out; extra `sandbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from hermes.errors import ToolError
from hermes.tools.threads import call_in_thread

from .python_result import MEMORY_BYTES, Ended, Printed, Snippet, failed, too_slow

if TYPE_CHECKING:
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

MAX_DEPTH = 500
_GRACE_S = 2.0


async def run_in_monty(snippet: Snippet) -> Ended:
    """Run a program in a fresh worker process, which is ended with it.

    Raises:
        ToolError: Monty is not installed, or its worker died.
    """
    return cast("Ended", await call_in_thread(lambda: _run(snippet), name="run_python"))


def _run(snippet: Snippet) -> Ended:
    try:
        import pydantic_monty as monty
    except ImportError as exc:
        raise ToolError(
            "Monty is not installed",
            code="no_sandbox",
            hint="pip install 'hermes-courier[sandbox]'",
        ) from exc
    printed = Printed()

    def keep(_stream: Literal["stdout", "stderr"], text: str) -> None:
        printed.add(text)

    limits: monty.ResourceLimits = {
        "max_feed_duration_secs": snippet.timeout_s,
        "max_memory": MEMORY_BYTES,
        "max_recursion_depth": MAX_DEPTH,
        "max_total_sleep_secs": snippet.timeout_s,
    }
    pool = monty.Monty(
        min_processes=1, max_processes=1, request_timeout=2 * snippet.timeout_s + _GRACE_S
    )
    try:
        with pool, pool.checkout(limits=limits) as session:
            value: object = session.feed_run(
                snippet.code, inputs=dict(snippet.inputs), print_callback=keep
            )
            return Ended(value=_unwrapped(value), printed=printed.text)
    except (monty.MontyRuntimeError, monty.MontySyntaxError) as exc:
        return Ended(printed=printed.text, error=_told(exc, snippet))
    except monty.MontyCrashedError as exc:
        if exc.timed_out:
            return Ended(printed=printed.text, error=too_slow(snippet.timeout_s))
        # How a worker ends that asks for more than there is, or that code brought down.
        raise ToolError(
            f"the sandbox died over this program: {exc}",
            code="sandbox_died",
            hint="write it in another way, with less data at a time",
        ) from exc
    except monty.MontyError as exc:
        return Ended(printed=printed.text, error=failed(type(exc).__name__, str(exc)))


def _told(exc: MontyRuntimeError | MontySyntaxError, snippet: Snippet) -> dict[str, object]:
    name = type(exc.exception()).__name__
    message = exc.display(format="msg")
    if name == "TimeoutError":
        return too_slow(snippet.timeout_s)
    frames = exc.traceback()
    line = frames[-1].line if frames else None
    return failed(name, message, line=line, code=snippet.code)


def _unwrapped(value: object) -> object:
    """The value, or its text where it is an object of the sandbox's own."""
    from pydantic_monty import MontyClassProxy

    return repr(value) if isinstance(value, MontyClassProxy) else value
