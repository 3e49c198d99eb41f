"""`hermes review`: its commands and their options; the work is in `reviews`, imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .options import AsJson

if TYPE_CHECKING:
    from .exits import Exit
    from .reviews import Verdict

app = typer.Typer(
    help="Questions to people: what waits for a decision, and deciding it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ReviewId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Review id, its first or last characters, or a task that has one open review.",
    ),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who decides; the login name by default.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Carry the task on here, as `hermes resume` does.")
]
JsonValue = Annotated[
    bool, typer.Option("--json-value", help="The text is a JSON value, not plain text.")
]


@app.command("list")
def list_(
    all: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="Only those of this task.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the open reviews, oldest first."""
    from . import reviews

    reviews.list_(all=all, task=task, json=json)


@app.command()
def show(review: ReviewId, json: AsJson = False) -> None:
    """Show what is asked, with all that belongs to it and the commands to decide."""
    from . import reviews

    reviews.show(review, json=json)


@app.command()
def approve(review: ReviewId, by: By = None, resume: Resume = False, json: AsJson = False) -> None:
    """Let a call that needs approval be made."""
    from .reviews import Verdict

    _decide(review, Verdict(decision="approve", by=by), resume=resume, json=json)


@app.command()
def reject(
    review: ReviewId,
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="TEXT", help="Why; the model reads it.")
    ] = None,
    by: By = None,
    resume: Resume = False,
    json: AsJson = False,
) -> None:
    """Refuse a call that needs approval, or a partial outcome."""
    from .reviews import Verdict

    verdict = Verdict(decision="reject", answer=comment, by=by)
    _decide(review, verdict, resume=resume, json=json)


@app.command()
def answer(
    review: ReviewId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    json_value: JsonValue = False,
    by: By = None,
    resume: Resume = False,
    json: AsJson = False,
) -> None:
    """Answer a question."""
    from .reviews import Verdict, answer_of

    verdict = Verdict(decision="answer", answer=answer_of(text, json_value=json_value), by=by)
    _decide(review, verdict, resume=resume, json=json)


@app.command()
def retry(review: ReviewId, by: By = None, resume: Resume = False, json: AsJson = False) -> None:
    """Have a call in doubt made again, or a dead message handled again."""
    from .reviews import Verdict

    _decide(review, Verdict(decision="retry", by=by), resume=resume, json=json)


@app.command()
def done(
    review: ReviewId,
    result: Annotated[
        str | None, typer.Option("--result", metavar="TEXT", help="What the call came to.")
    ] = None,
    json_value: JsonValue = False,
    by: By = None,
    resume: Resume = False,
    json: AsJson = False,
) -> None:
    """Say that a call in doubt took place; it is not made again."""
    from .reviews import Verdict, answer_of

    said = None if result is None else answer_of(result, json_value=json_value)
    _decide(review, Verdict(decision="done", answer=said, by=by), resume=resume, json=json)


@app.command()
def accept(review: ReviewId, by: By = None, resume: Resume = False, json: AsJson = False) -> None:
    """Take a partial outcome as it is."""
    from .reviews import Verdict

    _decide(review, Verdict(decision="accept", by=by), resume=resume, json=json)


@app.command()
def cancel(review: ReviewId, by: By = None, resume: Resume = False, json: AsJson = False) -> None:
    """End the whole task as cancelled."""
    from .reviews import Verdict

    _decide(review, Verdict(decision="cancel", by=by), resume=resume, json=json)


def _decide(review: str, verdict: Verdict, *, resume: bool, json: bool) -> NoReturn:
    from . import reviews

    code: Exit = reviews.decide(review, verdict, resume=resume, json=json)
    raise typer.Exit(code)
