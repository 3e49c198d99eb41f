"""`hermes db`: its commands and their options; the work is in `database`, imported on use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson

app = typer.Typer(
    help="The database as a whole: how it stands, migrate, backup, prune.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def status(json: AsJson = False) -> None:
    """Show schema version, size, tasks, messages, workers and open reviews; changes nothing."""
    from . import database

    database.status(json=json)


@app.command()
def migrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is pending; nothing is changed.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Bring the schema up to this version of Hermes; opening a database does the same."""
    from . import database

    database.migrate(dry_run=dry_run, json=json)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    json: AsJson = False,
) -> None:
    """Write a consistent copy while others go on working."""
    from . import database

    database.backup(file, json=json)


@app.command()
def prune(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="As 30d, 12h or 2w, since a tree's last event."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would go; nothing is removed.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Remove old settled tasks and give their space back; what can still resume stays."""
    from . import database

    database.prune(older_than, dry_run=dry_run, json=json)
