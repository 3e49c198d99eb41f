"""What a model can do, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hermes.core.chat import Usage

if TYPE_CHECKING:
    from hermes.models.profile_files import Profiles  # read on use: it takes its time

JsonMode = Literal["none", "object", "schema"]
Dialect = Literal["native", "react"]
DialectChoice = Literal["auto", "native", "react"]
ReasoningBack = Literal["never", "calls", "always"]
CapField = Literal["max_tokens", "max_completion_tokens"]


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
        cap_field: How its server calls the cap of a reply's tokens.
        native_tools: It calls tools by its server's own means.
        parallel_calls: Several in one reply.
        parallel_field: Its server has to be told so, by `parallel_tool_calls`.
        tool_choice: Its server can hold it to calling some tool.
        json_mode: What its server can hold it to: `object`, any JSON; `schema`, a JSON Schema.
        json_with_tools: Also while tools are offered, without keeping it from calling them.
        strict_schema: Its server can promise a schema, if that is of the kind OpenAI calls strict.
        images: It reads them.
        alternates: User and assistant have to take turns.
        reasoning_back: Which assistant messages its server wants the reasoning of once more: none,
            those with `calls`, or all.
        prices: None if not known.
        priced_at: When they were published, as YYYY-MM.
        is_known: False for the stated defaults.
        sources: Where each of these came from, by its name; what is missing is a default.
    """

    name: str
    window: int = 32_768
    max_output: int | None = None
    cap_field: CapField = "max_tokens"
    native_tools: bool = True
    parallel_calls: bool = True
    parallel_field: bool = False
    tool_choice: bool = False
    json_mode: JsonMode = "none"
    json_with_tools: bool = False
    strict_schema: bool = False
    images: bool = False
    alternates: bool = False
    reasoning_back: ReasoningBack = "never"
    prices: Prices | None = None
    priced_at: str = ""
    is_known: bool = False
    sources: Mapping[str, str] = field(
        default_factory=dict[str, str], compare=False, hash=False, repr=False
    )

    @property
    def dialect(self) -> Dialect:
        """How it is asked to call tools."""
        return "native" if self.native_tools else "react"


def profile_in(model: object) -> Profile | None:
    """What a model says is known of it; None if it says nothing."""
    profile = getattr(model, "profile", None)
    return profile if isinstance(profile, Profile) else None


def find_profile(
    name: str, *, host: str = "", more: Profiles = (), window: int | None = None
) -> Profile:
    """What is known of a model.

    A model that nobody knows gets the defaults of `Profile`; this is logged once, as information.

    Args:
        name: In any case, with or without the part before a `/`, a tag after a `:` included.
        host: Host and port of its server, where that is known.
        more: What the user knows; the later ones hold against the earlier, and all of them
            against what Hermes knows, field by field.
        window: Holds against all of them.
    """
    from hermes.models.profile_files import find

    return find(name, host=host, more=more, window=window)
