"""What a reply costs that broke off: an estimate that travels with the error."""

from __future__ import annotations

from dataclasses import asdict, replace

from hermes.core.chat import Usage, estimate_tokens
from hermes.errors import ModelError

from .profiles import Prices


def charge(exc: ModelError, usage: Usage) -> None:
    """Note on an error what the provider may charge all the same."""
    figures = asdict(usage)
    del figures["estimated"]  # it always is
    exc.charged = figures


def charge_of(exc: ModelError) -> Usage:
    """What the provider may charge although there is no reply; nothing if none had begun."""
    return Usage(**exc.charged, estimated=True) if exc.charged else Usage()


def estimated_usage(*, prompt: bytes | int, written: bytes | str, prices: Prices | None) -> Usage:
    """Usage where the provider has told none of it.

    Args:
        prompt: The request body, or its tokens.
        written: What came of the answer.
        prices: Of the model, if they are known.
    """
    text = written if isinstance(written, str) else written.decode("utf-8", "replace")
    usage = Usage(
        prompt_tokens=prompt if isinstance(prompt, int) else estimate_tokens(prompt.decode()),
        completion_tokens=estimate_tokens(text),
        estimated=True,
    )
    return usage if prices is None else replace(usage, cost_nano=prices.cost_nano(usage))
