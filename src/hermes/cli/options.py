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
MaxModelCalls = Annotated[
    int | None,
    typer.Option(
        "--max-model-calls", min=1, metavar="N", help="Model calls, of all tasks below it, too."
    ),
]
MaxToolCalls = Annotated[
    int | None,
    typer.Option(
        "--max-tool-calls", min=1, metavar="N", help="Tool calls, of all tasks below it, too."
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", min=1, metavar="N", help="Tokens in and out, of all tasks below it, too."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="MONEY", help="Money, as 0.50, of all tasks below it, too."),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option("--max-seconds", metavar="S", help="Time at work, of all tasks below it, too."),
]
Stream = Annotated[
    bool, typer.Option("--stream/--no-stream", help="Show the answer as it comes; on by default.")
]
Reasoning = Annotated[
    bool,
    typer.Option("--reasoning", help="Show the model's reasoning too, where text is shown."),
]
Events = Annotated[
    bool,
    typer.Option("--events", help="Print all that happens as JSON Lines on stdout, as it happens."),
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


def bounds(
    *,
    model_calls: int | None,
    tool_calls: int | None,
    tokens: int | None,
    cost: float | None,
    seconds: float | None,
) -> dict[str, float | None]:
    """The bounds of a tree of tasks, by their names in `Limits`."""
    return {
        "max_model_calls": model_calls,
        "max_tool_calls": tool_calls,
        "max_tokens": tokens,
        "max_cost": cost,
        "max_seconds": seconds,
    }


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise typer.Exit(code)
