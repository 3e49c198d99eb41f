import json
from pathlib import Path

import pytest

from hermes.config import load_settings
from hermes.errors import ConfigError
from hermes.tools.plugins.options import McpServer, PluginServer, shown_url


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[plugins.crm]\npyton = "x"\nfile = "f"', "`plugins.crm`: .*did you mean `python`"),
        ("[plugins.crm]\ngroup = 'x'", "either `file` or `module`"),
        ('[plugins.crm]\nfile = "f"\nmodule = "m"', "either `file` or `module`"),
        ('[plugins."my plugin"]\nfile = "f"', "`my plugin` is no name"),
        ('[mcp_servers.a__b]\nurl = "http://h/"', "`a__b` is no name"),
        ("[mcp_servers.a]", "either `command` or `url`"),
        ('[mcp_servers.a]\nurl = "ftp://h/"', "mcp_servers.a.url"),
        ('[mcp_servers.a]\nurl = "http://h/"\nargs = ["x"]', "`args` does not go with `url`"),
        ('[mcp_servers.a]\ncommand = "c"\nheaders = {A = "x"}', "`headers` does not go"),
        ('[mcp_servers.a]\ncommand = "c"\neffect = "reed"', "mcp_servers.a.effect"),
        ('[mcp_servers.a]\ncommand = "c"\ntimeout_s = 0', "mcp_servers.a.timeout_s"),
        ("[plugin.crm]\nfile = 'f'", "unknown key `plugin`; did you mean `plugins`"),
        ("plugins = 5", "plugins"),
    ],
)
def test_a_slip_in_a_table_is_named_with_its_place(workdir: Path, toml: str, told: str) -> None:
    (workdir / "hermes.toml").write_text(toml)

    with pytest.raises(ConfigError, match=told):
        load_settings()


def test_a_secret_in_a_table_that_is_wrong_is_not_told(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"a": {"url": "http://h/", "header": {"Authorization": "hush"}}}
    monkeypatch.setenv("HERMES_MCP_SERVERS", json.dumps(table))

    with pytest.raises(ConfigError, match="did you mean `headers`") as caught:
        load_settings()

    assert "hush" not in str(caught.value)


def test_secrets_are_shown_nowhere() -> None:
    server = McpServer.model_validate(
        {"url": "https://u:pw@h/mcp?key=k", "headers": {"Authorization": "hush"}}
    )
    plugin = PluginServer.model_validate({"file": "f", "env": {"TOKEN": "hush"}})

    dumped = f"{server.model_dump(mode='json')} {plugin.model_dump(mode='json')}"

    for shown in (dumped, repr(server), repr(plugin)):
        assert not [secret for secret in ("hush", "pw", "key=k") if secret in shown]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1:80/mcp"),
        ("https://u:p@h/a/b?c=d@e", "https://h/a/b"),
        ("https://u:p@h?x", "https://h"),
    ],
)
def test_an_address_is_shown_without_user_and_query(url: str, shown: str) -> None:
    assert shown_url(url) == shown
