"""What the status of an answer means for a second try."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from hermes.core.clock import Clock
from hermes.errors import ToolError

_LATER = (408, 425, 429, 500, 502, 503, 504)
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "gone",
    413: "too_large",
    422: "invalid",
    429: "rate_limited",
}


def is_passing(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _LATER


def code_of(status: int) -> str:
    """A short word for an error status."""
    return _CODES.get(status) or ("server_error" if status >= 500 else f"http_{status}")


def retry_after_s(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Seconds that the other side asks to wait, if it does."""
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told[:9])
    try:
        return max((parsedate_to_datetime(told) - clock.now()).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):  # no zone, or a year that is none
        return None


def status_error(
    who: str, status: int, headers: Mapping[str, str], *, clock: Clock, said: str = ""
) -> ToolError:
    """The error that a refusal comes to.

    Args:
        who: The system or host, as messages call it.
        status: 300 or more.
        headers: Of the answer.
        clock: For a `Retry-After` that is a date.
        said: What the other side said, without secrets.
    """
    wait_s = retry_after_s(headers, clock)
    later = is_passing(status)
    hint = f"wait {wait_s:.0f} s before trying again" if later and wait_s is not None else ""
    return ToolError(
        f"{who} answered with status {status}{f': {said}' if said else ''}",
        code=code_of(status),
        retryable=later,
        hint=hint,
    )
