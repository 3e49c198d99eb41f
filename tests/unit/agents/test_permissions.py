"""Names in allow- and deny-lists are those of tools that exist, on or off."""

from __future__ import annotations

import pytest

from hermes import tool
from hermes.agents.permissions import offered, policy_of
from hermes.errors import ConfigError
from hermes.tools import BuiltinOptions, ToolRegistry

BUILTIN = BuiltinOptions()


@tool(group="shop")
def purge(path: str) -> None:
    """Purge."""


@tool
def keep(path: str) -> None:
    """Keep."""


REGISTRY = ToolRegistry([keep])


def test_a_tool_that_is_off_and_a_built_in_one_may_be_named() -> None:
    names = ["purge", "ask_human"]
    assert offered(REGISTRY, [("deny", names)], own=[purge], builtin=BUILTIN).names == ("keep",)
    policy = policy_of(REGISTRY, [("allow", names)], own=[purge], builtin=BUILTIN)
    assert [entry.name for entry in policy.allow] == names


def test_the_lists_are_taken_together() -> None:
    lists = [("agent", ["purge"]), ("settings", ["keep"])]
    registry = ToolRegistry([purge, keep])
    assert offered(registry, lists, own=(), builtin=BUILTIN).names == ()
    assert len(policy_of(registry, lists, own=(), builtin=BUILTIN).allow) == 2


@pytest.mark.parametrize("is_whole", [True, False], ids=["all plugins", "one is missing"])
def test_a_misspelled_name_is_refused_also_where_a_plugin_is_missing(is_whole: bool) -> None:
    with pytest.raises(ConfigError, match="deny names 'kepe'"):
        offered(REGISTRY, [("deny", ["kepe"])], own=(), builtin=BUILTIN, is_whole=is_whole)
    with pytest.raises(ConfigError, match="allow names 'kepe'"):
        policy_of(REGISTRY, [("allow", ["kepe"])], own=(), builtin=BUILTIN, is_whole=is_whole)


def test_a_name_that_only_the_missing_plugin_can_know_is_let_be() -> None:
    lists = [("list", ["zx9_launch"])]
    assert offered(REGISTRY, lists, own=(), builtin=BUILTIN, is_whole=False).names == ("keep",)
    with pytest.raises(ConfigError, match="zx9_launch"):
        offered(REGISTRY, lists, own=(), builtin=BUILTIN)
