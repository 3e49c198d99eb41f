"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

AgentFile = Annotated[
    Path | None, typer.Option("--agent", metavar="FILE", help="Agent file (TOML or YAML).")
]
ToolFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--tools",
        metavar="FILE|DIR",
        help="Python file or folder with @tool functions; repeatable.",
    ),
]
PlaybookFile = Annotated[
    Path | None,
    typer.Option("--playbook", metavar="FILE", help="Rules that decide in place of a model."),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Model name; MODEL_NAME otherwise.")
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", min=1, metavar="N", help="Turns at most.")
]
Stream = Annotated[
    bool, typer.Option("--stream/--no-stream", help="Ask the model for a streamed reply.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON value on stdout, the rest on stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]
TaskId = Annotated[
    str, typer.Argument(metavar="TASK", help="Task id, its first or last characters, or `last`.")
]
AcceptChanges = Annotated[
    bool,
    typer.Option(
        "--accept-changes", help="Go on although agent, tools or model are not what they were."
    ),
]
SetVariables = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="K=V", help="Set a variable before it goes on; repeatable."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Only submit it, for a worker; prints the task id.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Approve every call that needs leave, without asking.")
]
Deny = Annotated[
    bool, typer.Option("--deny", help="Refuse every call that needs leave, without asking.")
]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Tasks that belong together.")
]


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise typer.Exit(code)
