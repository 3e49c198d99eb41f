"""Where one model gives no answer, the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from hermes.errors import ModelError

from .base import FailedAttempt, Model, ModelReply, ModelRequest, StreamPart
from .wrapper import Wrapper, models_of, parts_of


class FallbackModel(Wrapper):
    """Asks models in turn until one answers.

    The next one is asked after an error, a reply that a content filter withheld, and one without
    text and calls; where the last one's reply is such, it is given as it is. Once a part of a
    stream was given away there is no switch: a reader never sees two models in one answer.

    Args:
        models: In order; at least one. The first gives its name.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__(models[0])
        self._models = tuple(models)

    @property
    def models(self) -> tuple[Model, ...]:
        """All of them."""
        return tuple(each for model in self._models for each in models_of(model))

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The first reply that is one.

        Raises:
            ModelError: The last model's; it names the others and what they said.
        """
        switches = _Switches(request)
        for model, following in self._in_turn():
            try:
                reply = await model.reply(switches.request)
            except ModelError as exc:
                await switches.failed(model, exc, following)
                continue
            if following is None or not (problem := _problem(model, reply)):
                return reply
            await switches.failed(model, problem, following)
        raise AssertionError("the last model's error was raised")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`; a model's error goes out as it is once a part of its answer was given away.

        Raises:
            ModelError: As `reply`.
        """
        switches = _Switches(request)
        for model, following in self._in_turn():
            reply, shown = None, False
            try:
                async with parts_of(model, switches.request) as parts:
                    async for part in parts:
                        if isinstance(part, ModelReply):
                            reply = part
                        else:
                            shown = True
                            yield part
            except ModelError as exc:
                if shown:
                    raise
                await switches.failed(model, exc, following)
                continue
            problem = None if shown or reply is None else _problem(model, reply)
            if problem is None or following is None:
                if reply is not None:
                    yield reply
                return
            await switches.failed(model, problem, following)

    async def aclose(self) -> None:
        """Close all of them."""
        for model in self._models:
            await model.aclose()

    def _in_turn(self) -> list[tuple[Model, Model | None]]:
        return list(zip(self._models, (*self._models[1:], None), strict=True))


class _Switches:
    """What has failed so far in one request, counted over all of its models."""

    def __init__(self, request: ModelRequest) -> None:
        self._watch, self._count = request.watch, 0
        self._said: list[str] = []
        self.request = replace(request, watch=self._tell)

    async def failed(self, model: Model, exc: ModelError, following: Model | None) -> None:
        """Tell of a switch, or raise the error if there is nobody to switch to."""
        if following is None:
            raise self._last(exc) from exc
        self._said.append(f"{model.name}: {exc.message}")
        await self._tell(
            FailedAttempt(model=model.name, error=exc, attempt=1, next_model=following.name)
        )

    async def _tell(self, failed: FailedAttempt) -> None:
        self._count += 1
        if self._watch is not None:
            await self._watch(replace(failed, attempt=self._count))

    def _last(self, exc: ModelError) -> ModelError:
        if not self._said:
            return exc
        return exc.reworded(f"{exc.message}; before it failed {'; '.join(self._said)}")


def _problem(model: Model, reply: ModelReply) -> ModelError | None:
    if reply.finish_reason == "content_filter":
        return ModelError(f"model {model.name!r} withheld its answer", code="refused")
    if not (reply.text.strip() or reply.calls or reply.problem):
        return ModelError(f"model {model.name!r} gave an empty reply", code="bad_reply")
    return None
