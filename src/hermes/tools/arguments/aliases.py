"""Other words for the members of a closed set, declared where a parameter is annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from hermes.core.json import as_list, as_object
from hermes.errors import ToolDefinitionError
from hermes.tools.schema import ALIASES

from .vocabulary import fold


class _Handler(Protocol):
    """What pydantic passes to an annotation."""

    def __call__(self, core_schema: object, /) -> dict[str, object]:
        """The JSON Schema of the annotated type."""
        ...

    def resolve_ref_schema(self, maybe_ref_json_schema: dict[str, object]) -> dict[str, object]:
        """The schema behind a reference."""
        ...


@dataclass(frozen=True)
class Aliases:
    """Words that mean a member of a `Literal` or `Enum`, or a known name of a text parameter.

    `Annotated[Literal["low", "high"], Aliases({"high": ["高", "紧急"]})]` takes 紧急 for `high`,
    whatever the tool's effect. On a plain `str` it declares known names: a text that is one of the
    words, in any case, becomes the name; every other text stays as it is. In a JSON Schema the same
    is written `"x-aliases": {"high": ["高", "紧急"]}`. Models do not see it.

    Attributes:
        words: By member or name, the other words for it; a word may stand for one only.

    Raises:
        ToolDefinitionError: A word is none, or stands for two.
    """

    words: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        if fault := faults_of_aliases(self.words):
            raise ToolDefinitionError(f"aliases: {fault}")

    def __hash__(self) -> int:
        return hash(tuple((name, *words) for name, words in self.words.items()))

    def __get_pydantic_json_schema__(
        self, core_schema: object, handler: _Handler
    ) -> dict[str, object]:
        """The parameter's own schema with the aliases in it."""
        schema = handler(core_schema)
        table = {name: list(words) for name, words in self.words.items()}
        if fault := no_members(handler.resolve_ref_schema(schema), table):
            raise ToolDefinitionError(f"aliases: {fault}")
        return {**schema, ALIASES: table}


def faults_of_aliases(given: object) -> str:
    """What is wrong with a table of aliases; "" if nothing is."""
    table = as_object(given)
    if table is None:
        return "a table is needed: for each member a list of other words"
    owner: dict[str, str] = {}
    for name, words in table.items():
        if not isinstance(words, list | tuple):
            return f"{name!r:.60} needs a list of other words"
        for word in (name, *cast("Sequence[object]", words)):
            if not isinstance(word, str) or not fold(word):
                return f"{word!r:.60} is no word for {name!r:.60}"
            if owner.setdefault(fold(word), name) != name:
                return f"{word!r} means both {owner[fold(word)]!r} and {name!r}"
    return ""


def no_members(schema: Mapping[str, object], table: Mapping[str, object]) -> str:
    """Which names of a table of aliases the schema's closed set does not have; "" if none."""
    members = as_list(schema.get("enum")) or [schema[name] for name in ("const",) if name in schema]
    if unknown := [name for name in table if members and name not in map(str, members)]:
        return f"{unknown[0]!r} is not allowed there; allowed: {', '.join(map(repr, members))}"
    return ""
