"""What all wrappers around a model share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from .base import Model, ModelReply, ModelRequest, StreamPart
from .profiles import Profile, profile_in


class Wrapper:
    """A model that passes everything on to another one.

    Attributes:
        profile: As the inner one's; the stated defaults where it has none.
    """

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self.profile: Profile = profile_of(inner)

    @property
    def name(self) -> str:
        """As the inner one's."""
        return self._inner.name

    @property
    def models(self) -> tuple[Model, ...]:
        """Each model that a request may go to: this one, where there is no choice behind it."""
        inner = models_of(self._inner)
        return inner if len(inner) > 1 else (self,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """As the inner one's."""
        return await self._inner.reply(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As the inner one's."""
        async with parts_of(self._inner, request) as parts:
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        """Close the inner one."""
        await self._inner.aclose()


def profile_of(model: Model) -> Profile:
    """What is known of a model."""
    return profile_in(model) or Profile(name=model.name)


def models_of(model: Model) -> tuple[Model, ...]:
    """Each model that a request may go to, in order."""
    return model.models if isinstance(model, Wrapper) else (model,)


def parts_of(model: Model, request: ModelRequest) -> aclosing[AsyncGenerator[StreamPart]]:
    """A model's stream, which ends with the block, not with a garbage collection."""
    parts: AsyncIterator[StreamPart] = model.stream(request)
    if not isinstance(parts, AsyncGenerator):
        parts = _generated(parts)
    return aclosing(cast("AsyncGenerator[StreamPart]", parts))


async def _generated(parts: AsyncIterator[StreamPart]) -> AsyncGenerator[StreamPart]:
    async for part in parts:
        yield part
