"""How a task of an older version of its agent goes on with the present one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What its author says about a change of an agent.

    Attributes:
        from_version: The version that a task was worked on with; "" for an agent without one.
        to_version: The next version.
        rename_tools: Old name to new name; earlier calls count as calls of the new one.
        remove_tools: Tools that are gone; an open call of one is refused.
        variables: Set where the task does not have them.
    """

    from_version: str
    to_version: str
    rename_tools: Mapping[str, str] = field(default_factory=dict[str, str])
    remove_tools: tuple[str, ...] = ()
    variables: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The migrations from one version to another, as one.

    Attributes:
        versions: All on the way, the first and the last included.
    """

    versions: tuple[str, ...]
    renames: Mapping[str, str]
    removed: frozenset[str]
    variables: Mapping[str, object]

    def __str__(self) -> str:
        return f"migration {' → '.join(version or 'none' for version in self.versions)}"


def check_migrations(agent: str, migrations: Sequence[Migration]) -> None:
    """Refuse migrations of which it is not clear which one comes next.

    Raises:
        ConfigError: Two begin at the same version, or one leads nowhere.
    """
    seen: set[str] = set()
    for item in migrations:
        if item.from_version == item.to_version:
            raise ConfigError(
                f"agent {agent!r}: a migration leads from version {item.from_version!r} to itself"
            )
        if item.from_version in seen:
            raise ConfigError(
                f"agent {agent!r}: two migrations begin at version {item.from_version!r}"
            )
        seen.add(item.from_version)


def lineage(migrations: Sequence[Migration], then: str, now: str) -> Lineage | None:
    """The way from one version to another, or None if none is declared.

    Args:
        migrations: Checked ones.
        then: A task's version, "" for none.
        now: The agent's version.
    """
    by_start = {item.from_version: item for item in migrations}
    way: list[Migration] = []
    version = then
    while version != now and version in by_start and len(way) < len(migrations):
        way.append(by_start[version])
        version = way[-1].to_version
    if version != now:
        return None
    return Lineage(
        versions=(then, *(item.to_version for item in way)),
        renames=_renames(way),
        removed=frozenset(name for item in way for name in item.remove_tools),
        variables={name: value for item in way for name, value in item.variables.items()},
    )


def _renames(way: Sequence[Migration]) -> dict[str, str]:
    """Each older name to its last one."""
    found: dict[str, str] = {}
    for item in way:
        found = {old: item.rename_tools.get(new, new) for old, new in found.items()}
        found = {**item.rename_tools, **found}
    return {old: new for old, new in found.items() if old != new}
