"""A model with all that stands before it: made of settings, with what models of one key share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes.core.breaker import Breaker
from hermes.core.clock import Clock
from hermes.core.quota import LocalQuota, Quota, Rate
from hermes.core.retry import RetryPolicy

from .base import Model
from .breaker import BreakerModel
from .limits import ConcurrentModel, LimitedModel, Pace
from .profiles import DialectChoice, Profile
from .retrying import DEFAULT_POLICY, RetryingModel
from .wrapper import profile_of

if TYPE_CHECKING:  # what most programs do without is loaded on use
    from .caching import ReplyCache
    from .recording import Cassette

_UNWRAPPED = ("playbook:",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """How models are asked.

    Attributes:
        rate: What the provider allows one key.
        concurrency: Requests at a time, of one key in this process.
        retry: How often is asked again.
        breaker_failures: So many in a row that fail outside, and nothing is sent.
        breaker_cooldown_s: How long then.
        fallback: Specs of the models that are asked where the first gives no answer, in order.
        cache_s: How long a reply is given again to the same request; 0 for never.
        cache_dir: Where replies are kept for other processes; None for memory alone.
        cassette: File to record to or to replay.
        is_replay: Replay it; nothing is sent then.
        secrets: Never written to it.
    """

    rate: Rate = Rate()
    concurrency: int = 32
    retry: RetryPolicy = DEFAULT_POLICY
    breaker_failures: int = 10
    breaker_cooldown_s: float = 15.0
    fallback: tuple[str, ...] = ()
    cache_s: float = 0.0
    cache_dir: Path | None = None
    cassette: Path | None = None
    is_replay: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Chains:
    """Makes models out of specs, and keeps what those of one key share.

    Args:
        options: How models are asked.
        clock: Measures all that takes time.
        quota: Counts for all processes that share a key; only asked where there is a rate.
    """

    def __init__(self, options: ChainOptions, *, clock: Clock, quota: Quota | None = None) -> None:
        self._options, self._clock = options, clock
        local = LocalQuota(clock=clock)
        is_rated = options.rate != Rate()
        self._quota = quota if quota is not None and is_rated else local
        self._shared: dict[str, _Shared] = {}
        self._cache: ReplyCache | None = None
        self._cassette: Cassette | None = None
        if options.cache_s:
            from .caching import ReplyCache

            self._cache = ReplyCache(ttl_s=options.cache_s, clock=clock, folder=options.cache_dir)
        if options.cassette is not None:
            from .recording import Cassette

            self._cassette = Cassette(options.cassette, secrets=options.secrets)

    def chain(
        self,
        spec: str,
        open_one: Callable[[str], Model],
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dialect: DialectChoice = "auto",
    ) -> Model:
        """The model of a spec, and of those that stand in for it.

        Args:
            spec: As for `open_model`.
            open_one: Opens the model of one spec.
            base_url: Where it is asked.
            api_key: Who asks; only a digest of it is kept.
            dialect: How tool calls are asked for; `auto` goes by each model's profile.

        Raises:
            ConfigError: One of the specs is wrong.
        """
        specs = list(dict.fromkeys([spec.strip(), *self._options.fallback]))
        models: list[Model] = []
        for each in specs:
            key = key_of(each, base_url=base_url, api_key=api_key)
            models.append(self._wrapped(each, open_one(each), key, dialect, last=each == specs[-1]))
        if len(models) == 1:
            return models[0]
        from .fallback import FallbackModel

        return FallbackModel(models)

    def _wrapped(
        self, spec: str, model: Model, key: str, dialect: DialectChoice, *, last: bool
    ) -> Model:
        if spec.startswith(_UNWRAPPED):
            return model
        options, clock = self._options, self._clock
        if self._cassette is not None:
            from .recording import RecordingModel, ReplayingModel

            kind = ReplayingModel if options.is_replay else RecordingModel
            model = kind(model, cassette=self._cassette)
        model = in_dialect(model, profile_of(model), dialect)
        if self._cassette is not None and options.is_replay:
            return model
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(
                breaker=Breaker(
                    failures=options.breaker_failures, cooldown_s=options.breaker_cooldown_s
                ),
                places=anyio.Semaphore(options.concurrency, fast_acquire=True),
            )
        model = BreakerModel(model, breaker=shared.breaker, clock=clock)
        model = LimitedModel(
            model, quota=self._quota, key=key, rate=options.rate, pace=shared.pace, clock=clock
        )
        model = ConcurrentModel(model, places=shared.places)
        model = RetryingModel(model, policy=options.retry, waits_for_breaker=last)
        if self._cache is not None:
            from .caching import CachingModel

            model = CachingModel(model, cache=self._cache, scope=key)
        return model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What all models behind one key have in common."""

    breaker: Breaker
    places: anyio.Semaphore
    pace: Pace = field(default_factory=Pace)


def in_dialect(model: Model, profile: Profile, choice: DialectChoice = "auto") -> Model:
    """A model that is asked for tool calls in the way that suits it.

    Args:
        model: Whose requests go to its provider unchanged otherwise.
        profile: What is known of it.
        choice: `auto` goes by the profile.
    """
    dialect = profile.dialect if choice == "auto" else choice
    if dialect == "native" or model.name.startswith(_UNWRAPPED):
        return model
    from .react import ReActModel

    return ReActModel(model, profile)


def key_of(spec: str, *, base_url: str | None, api_key: str | None) -> str:
    """What stands for one account at one provider; it tells nothing of the key."""
    if spec.startswith("local:"):
        place = spec
    else:
        dialect = "anthropic" if spec.startswith("anthropic:") else "chat"
        place = f"{dialect} {base_url or ''} {api_key or ''}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]
