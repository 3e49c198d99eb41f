"""Channels, mail and databases in the settings: their secrets are shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.config import load_settings
from hermes.errors import ConfigError
from hermes.tools.builtin.options import Channel

OPS = Channel(
    name="ops", kind="dingtalk", url="https://oapi.example/send?access_token=k3y", secret="SEC1"
)


def test_channels_come_from_the_file_or_as_json_from_the_environment(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "hermes.toml").write_text(
        f'[notify_channels.ops]\nkind = "dingtalk"\nurl = "{OPS.url}"\nsecret = "SEC1"\n'
    )
    assert load_settings().settings.builtin.channels == (OPS,)
    monkeypatch.setenv(
        "HERMES_NOTIFY_CHANNELS", '{"告警": {"kind": "webhook", "url": "https://a.example/x"}}'
    )
    [channel] = load_settings().settings.builtin.channels
    assert (channel.name, channel.kind, channel.idempotent) == ("告警", "webhook", False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"ops": {"kind": "dingtalk", "url": "k3y', "a JSON object"),
        ('{"ops": {"kind": "teams", "url": "k3y"}}', r"HERMES_NOTIFY_CHANNELS\.ops\.kind"),
        ('{"ops": {"kind": "slack", "uri": "k3y"}}', r"HERMES_NOTIFY_CHANNELS\.ops\.url"),
        ('["k3y"]', "dictionary"),
    ],
)
def test_a_wrong_channel_is_named_and_not_shown(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    monkeypatch.setenv("HERMES_NOTIFY_CHANNELS", value)
    with pytest.raises(ConfigError, match=said) as caught:
        load_settings()
    assert "k3y" not in str(caught.value)


def test_nothing_secret_is_in_the_settings_as_text(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SMTP_URL", "smtps://u:k3y@mail.example")
    monkeypatch.setenv("HERMES_NOTIFY_CHANNELS", '{"o": {"kind": "slack", "url": "https://k3y"}}')
    settings = load_settings().settings
    assert settings.builtin.smtp_url == "smtps://u:k3y@mail.example"
    assert "k3y" not in f"{settings!r} {settings.builtin!r} {settings.recordable()}"
    assert "k3y" not in settings.model_dump_json()
