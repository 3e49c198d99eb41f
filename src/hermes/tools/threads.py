"""Plain functions beside the event loop, each in a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable

from hermes.errors import NotDone

MAX_THREADS = 256
_free = threading.BoundedSemaphore(MAX_THREADS)
_at_work: Counter[str] = Counter()
_names = threading.Lock()


def is_at_work(name: str) -> bool:
    """Whether a call of this name is at work in a thread of this process, waited for or not."""
    return bool(name) and _at_work[name] > 0


async def call_in_thread(call: Callable[[], object], *, name: str = "") -> object:
    """Run a blocking call in a thread of its own, with the caller's context variables.

    A thread cannot be stopped: when the caller is cancelled the thread is left to itself, and
    what it returns or raises later is ignored. The threads are daemons, unlike those of
    `anyio.to_thread`, so that one that hangs does not keep the program from ending; and each call
    gets a new one, which costs no more than handing work to a waiting one.

    Args:
        call: What blocks.
        name: For `is_at_work`.

    Raises:
        NotDone: `MAX_THREADS` calls are at work, those that were left to themselves included; or
            the machine gives no further thread.
    """
    if not _free.acquire(blocking=False):
        raise NotDone(
            f"{MAX_THREADS} blocking calls are at work already, perhaps hanging since an earlier "
            "timeout",
            code="busy",
            hint="try again later",
        )
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value: object = None
        failure: BaseException | None = None
        try:
            value = context.run(call)
        except BaseException as exc:  # nothing that ends a thread is meant for the loop
            failure = exc
        finally:
            _count(name, -1)
            _free.release()
        try:
            loop.call_soon_threadsafe(_settle, outcome, value, failure)
        except RuntimeError:
            return  # the loop has ended, and the caller with it

    _count(name, 1)
    try:
        threading.Thread(target=work, name="hermes tool", daemon=True).start()
    except RuntimeError as exc:
        _count(name, -1)
        _free.release()
        raise NotDone(f"no thread for it: {exc}", code="busy", hint="try again later") from exc
    return await outcome


def _count(name: str, change: int) -> None:
    with _names:
        _at_work[name] += change
        if not _at_work[name]:
            del _at_work[name]


def _settle(outcome: asyncio.Future[object], value: object, failure: BaseException | None) -> None:
    if outcome.done():
        return
    if isinstance(failure, StopIteration) or not isinstance(failure, Exception | SystemExit | None):
        # No future can carry it, or it would end the loop.
        wrapped = RuntimeError(f"the function raised {type(failure).__name__}")
        wrapped.__cause__ = failure
        failure = wrapped
    if failure is None:
        outcome.set_result(value)
    else:
        outcome.set_exception(failure)
