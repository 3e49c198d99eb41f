"""What a model can do, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.core.chat import Usage

JsonMode = Literal["none", "object", "schema"]
Dialect = Literal["native", "react"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Money for a million tokens.

    Attributes:
        prompt: Read.
        completion: Written.
        cached: Read from the provider's cache; as `prompt` if None.
        cache_write: Put into it; as `prompt` if None.
    """

    prompt: float
    completion: float
    cached: float | None = None
    cache_write: float | None = None

    def cost_nano(self, usage: Usage) -> int:
        """What this costs, in billionths of the currency."""
        cached = self.prompt if self.cached is None else self.cached
        cache_write = self.prompt if self.cache_write is None else self.cache_write
        plain = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        money = (
            max(0, plain) * self.prompt
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * cache_write
            + usage.completion_tokens * self.completion
        )
        return round(money * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of a model; the defaults are for one that nobody knows.

    Attributes:
        name: As the provider names it.
        window: Tokens of a whole request and its reply.
        max_output: Most tokens of one reply; None if not known.
        native_tools: It calls tools by its server's own means.
        parallel_calls: Several in one reply.
        json_mode: What its server can hold it to: `object`, any JSON; `schema`, a JSON Schema.
        images: It reads them.
        prices: None if not known.
        is_known: False for the stated defaults.
    """

    name: str
    window: int = 32_768
    max_output: int | None = None
    native_tools: bool = True
    parallel_calls: bool = True
    json_mode: JsonMode = "none"
    images: bool = False
    prices: Prices | None = None
    is_known: bool = False

    @property
    def dialect(self) -> Dialect:
        """How it is asked to call tools."""
        return "native" if self.native_tools else "react"
