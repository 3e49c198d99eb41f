"""`hermes tools`: its commands and their options; the work is imported on use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import AgentFile, AsJson, ToolFiles, leave

app = typer.Typer(
    help="The tools there are: list them, show, call and check them.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

ToolName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tool.")]
ToolNames = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these tools.")
]


@dataclass(frozen=True, slots=True)
class _Before:
    """Options that stand before the command."""

    agent: Path | None = None
    files: tuple[Path, ...] = ()
    json: bool = False


@app.callback()
def tools(
    context: typer.Context,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """List the tools there are, with group and effect; or show, call or check one."""
    context.obj = _Before(agent, tuple(tools or ()), json)
    if context.invoked_subcommand is None:
        _list(context.obj)


@app.command("list")
def list_(
    context: typer.Context,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """List the tools, with group and effect; the same as without a command."""
    _list(_given(context, agent, tools, json))


@app.command()
def show(
    context: typer.Context,
    name: ToolName,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """Show all that is known of one tool: description, parameters, effect, bounds, origin."""
    from . import toolbox

    given = _given(context, agent, tools, json)
    toolbox.show(name, given.agent, given.files, json=given.json)


@app.command()
def call(
    context: typer.Context,
    name: ToolName,
    args: Annotated[
        str,
        typer.Option(
            "--args", metavar="JSON", help="Arguments as a model would write them; `-` reads stdin."
        ),
    ] = "{}",
    yes: Annotated[
        bool, typer.Option("--yes", help="Make the call, also where it changes something.")
    ] = False,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """Call a tool as a run would, without a task; what may change something only with --yes."""
    from . import toolcall

    given = _given(context, agent, tools, json)
    leave(toolcall.call(name, args, given.agent, given.files, yes=yes, json=given.json))


@app.command()
def lint(
    context: typer.Context,
    names: ToolNames = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 for warnings too, not only for errors.")
    ] = False,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """Check how well a model can understand tools: your own ones, or those that come along."""
    from . import toolcheck

    given = _given(context, agent, tools, json)
    code = toolcheck.lint(names or [], given.agent, given.files, strict=strict, json=given.json)
    leave(code)


@app.command()
def health(
    context: typer.Context,
    names: ToolNames = None,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    json: AsJson = False,
) -> None:
    """Run the health checks of tools; exit 1 names the broken ones."""
    from . import toolcheck

    given = _given(context, agent, tools, json)
    leave(toolcheck.health(names or [], given.agent, given.files, json=given.json))


def _list(given: _Before) -> None:
    from . import toolbox

    toolbox.list_(given.agent, given.files, json=given.json)


def _given(
    context: typer.Context, agent: Path | None, tools: list[Path] | None, json: bool
) -> _Before:
    """The options, wherever on the command line they stand."""
    before = context.obj if isinstance(context.obj, _Before) else _Before()
    return _Before(
        agent=agent or before.agent,
        files=(*before.files, *(tools or ())),
        json=json or before.json,
    )
