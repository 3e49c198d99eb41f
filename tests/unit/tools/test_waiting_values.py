"""What may be waited for: each field is as annotated, or the tool is told which one is not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import cast

import pytest

from hermes.core import codec
from hermes.core.events import TaskCreated
from hermes.tools import Child, Children, Event, Question, Until, normalise
from hermes.tools.results import ResultFault
from hermes.tools.waiting import Waiting, checked

_LATE = datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))


def _any(value: object) -> str:
    """A value that no type checker would let through, as tools return it all the same."""
    return cast("str", value)


def _children(child: object, **more: object) -> Children:
    return Children(tasks=[cast("Child", child)], **cast("dict[str, int]", more))


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        (Question(text=" "), "Question.text is empty"),
        (Question(text=_any(None)), "Question.text is a text, got None"),
        (Question(text="a\x00b"), "Question.text holds a NUL character"),
        (Question(text="a", options="SML"), "Question.options is a list, got a value of type str"),
        (Until(at=cast("datetime", None)), "Until.at is a datetime, got None"),
        (Until(at=cast("datetime", date(2026, 1, 1))), "Until.at is a datetime, got a value"),
        (Until(at=datetime(2026, 1, 1)), "Until.at needs a time zone"),  # noqa: DTZ001
        (Until(at=_LATE), "Until.at is beyond all time in UTC"),
        (Event(name=_any(None)), "Event.name is a text, got None"),
        (Event(name="a", until=cast("datetime", 5)), "Event.until is a datetime, got a value"),
        (Children(tasks=[]), "Children.tasks holds 1 to 100 tasks, got 0"),
        (Children(tasks=cast("list[Child]", None)), "Children.tasks is a list, got None"),
        (_children("inspect"), "Children.tasks holds values of `Child`, got a value of type str"),
        (_children(Child(goal=_any(None))), "Child.goal is a text, got None"),
        (_children(Child(goal="a\x00b")), "Child.goal holds a NUL character"),
        (_children(Child(goal="a", agent="")), "Child.agent is empty"),
        (
            _children(Child(goal="a", variables=cast("dict[str, object]", None))),
            "Child.variables is a mapping, got None",
        ),
        (_children(Child(goal="a", max_steps=True)), "Child.max_steps is a whole number from 1"),
        (_children(Child(goal="a"), accept_ratio=None), "Children.accept_ratio is from 0 to 1"),
        (
            _children(Child(goal="a"), accept_ratio=float("nan")),
            "Children.accept_ratio is from 0 to 1",
        ),
        (_children(Child(goal="a"), max_rounds=0.5), "Children.max_rounds is a whole number"),
    ],
)
def test_what_is_not_as_annotated_is_named(waiting: Waiting, told: str) -> None:
    with pytest.raises(ResultFault, match=told):
        checked(waiting)


def test_a_question_without_options_may_say_none() -> None:
    question = checked(Question(text="Which size?", options=cast("list[str]", None)))

    assert question == Question(text="Which size?", options=())


def test_half_characters_are_stored_as_their_escapes() -> None:
    child = Child(goal="list \udce9", agent="b\udce9", variables={"\udce9": "\udce9"})
    found = checked(Children(tasks=[child]))

    assert isinstance(found, Children)
    spec = TaskCreated(
        agent=found.tasks[0].agent or "",
        goal=found.tasks[0].goal,
        variables=found.tasks[0].variables,
    )
    assert spec.goal == "list \\udce9"
    assert codec.encode(spec).data
    assert checked(Event(name="x\udce9")) == Event(name="x\\udce9")
    assert checked(Question(text="\udce9", options=["\udce9"])) == Question(
        text="\\udce9", options=("\\udce9",)
    )


@pytest.mark.parametrize(
    "value",
    [
        [Question(text="first?"), Question(text="second?")],
        {"when": Until(at=datetime(2026, 1, 1, tzinfo=UTC))},
        Child(goal="inspect"),
    ],
)
def test_a_wait_inside_of_a_result_is_refused_rather_than_stored_and_forgotten(
    value: object,
) -> None:
    with pytest.raises(ResultFault, match="returning one Question, Until, Event or Children alone"):
        normalise(value)
