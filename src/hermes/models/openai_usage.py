"""Token figures as chat completions servers give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hermes.core import json
from hermes.core.chat import Usage, estimate_tokens
from hermes.models.profiles import Prices

_MAX_TOKENS = 10**9


def read_usage(
    usage: Mapping[str, object], *, prompt: bytes, written: str, prices: Prices | None = None
) -> Usage:
    """Token figures and their cost; each that is missing, null or an impossible zero is estimated.

    Args:
        usage: The provider's figures, possibly empty.
        prompt: The request body.
        written: All that the model wrote.
        prices: Of the model, if they are known.
    """
    asked = _first(usage, "prompt_tokens", "input_tokens")
    answered = _first(usage, "completion_tokens", "output_tokens")
    details = json.as_object(usage.get("prompt_tokens_details")) or {}
    details = details or json.as_object(usage.get("input_tokens_details")) or {}
    known = asked or estimate_tokens(prompt.decode())
    cached = min(
        known,
        _first(details, "cached_tokens")
        or _first(
            usage,
            "prompt_cache_hit_tokens",  # DeepSeek
            "cached_tokens",  # Kimi
            "cache_read_input_tokens",  # Anthropic's names, as gateways pass them on
        ),
    )
    kept = _first(
        details,
        "cache_write_tokens",  # OpenRouter
        "cache_creation_input_tokens",  # Qwen
    ) or _first(usage, "cache_creation_input_tokens")
    found = Usage(
        prompt_tokens=known,
        completion_tokens=answered or estimate_tokens(written),
        cached_tokens=cached,
        cache_write_tokens=min(kept, known - cached),
        estimated=not asked or (not answered and bool(written)),
    )
    return found if prices is None else replace(found, cost_nano=prices.cost_nano(found))


def _first(figures: Mapping[str, object], *names: str) -> int:
    for name in names:
        if count := _count(figures.get(name)):
            return count
    return 0


def _count(value: object) -> int:
    """A token figure; 0 for anything that is none, or that no model can have read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if 0 <= value <= _MAX_TOKENS else 0
    return 0
