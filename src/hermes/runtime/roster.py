"""Which agent does a task, where only its record and the command line know."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.agents import AgentDefinition, Launch
from hermes.core import json
from hermes.core.task import Task
from hermes.errors import ConfigError


class Roster:
    """Finds agents by name among files, and otherwise as a task's record tells.

    Definitions are read once: a process that runs on has to be started anew to see a change.

    Args:
        files: Launches by the name of their agent; stronger than the record.
    """

    def __init__(self, files: Mapping[str, Launch] | None = None) -> None:
        self._files = dict(files or {})
        self._read: dict[str, AgentDefinition] = {}

    def definition(self, task: Task) -> AgentDefinition:
        """The agent of a task.

        Raises:
            ConfigError: Nobody here knows it, or a file of it is missing or wrong.
        """
        name = task.spec.agent
        recorded, ours = Launch.recorded(task.spec.launch), self._files.get(name)
        if ours is None and recorded.by != "command":
            raise _unknown(name)
        launch = recorded if ours is None else recorded.overridden_by(ours)
        key = json.digest(launch.as_record())
        if key not in self._read:
            self._read[key] = launch.definition()
        definition = self._read[key]
        if definition.name != name:
            raise _unknown(name)
        return definition


def _unknown(name: str) -> ConfigError:
    return ConfigError(
        f"no worker here knows agent {name!r}", hint="start one with --agent FILE of that agent"
    )
