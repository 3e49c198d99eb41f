"""Asking a person; group `core`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from hermes.tools.base import Tool
from hermes.tools.function import tool
from hermes.tools.waiting import Question

from .options import BuiltinOptions


@tool(name="ask_human", effect="read", group="core", timeout_s=None)
async def _ask(
    question: str,
    options: Annotated[list[str], Field(max_length=20)] = [],  # noqa: B006  # copied for each call
) -> Question:
    """Ask a person, and wait for the answer, which may take days.

    Use it where only a person can know or decide; never to report or to say what comes next.

    Args:
        question: One clear question, with all that the person has to know to answer it.
        options: Answers to choose from, where there are only a few.
    """
    return Question(text=question, options=options)


ask_human: Tool = replace(_ask, effect="internal")
"""The question is in the journal or it was not asked: nothing of it happens outside."""


def tools(_: BuiltinOptions) -> tuple[Tool, ...]:
    """The way to a person."""
    return (ask_human,)
