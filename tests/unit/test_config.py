"""Where settings come from, and what stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.config import Settings, load_settings
from hermes.errors import ConfigError


def test_without_anything_the_defaults_hold(workdir: Path) -> None:
    loaded = load_settings()
    assert loaded.settings.max_steps == 10
    assert loaded.settings.tool_groups == ("core", "http")
    assert loaded.settings.database_url == "sqlite:///./.hermes/hermes.db"
    assert set(loaded.sources.values()) == {"default"}


def test_each_layer_is_stronger_than_the_one_before(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name_and_source(**flags: object) -> tuple[str | None, str]:
        loaded = load_settings(flags=flags)
        return loaded.settings.model_name, loaded.sources["model_name"]

    (workdir / "hermes.toml").write_text('model_name = "from-toml"')
    assert name_and_source() == ("from-toml", "hermes.toml")
    (workdir / ".env").write_text("MODEL_NAME=from-dotenv\n")
    assert name_and_source() == ("from-dotenv", ".env")
    monkeypatch.setenv("MODEL_NAME", "from-environment")
    assert name_and_source() == ("from-environment", "environment")
    assert name_and_source(model_name="from-flag") == ("from-flag", "flag")


def test_production_reads_its_own_dotenv_too(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / ".env").write_text("MODEL_NAME=small\nHERMES_LOG_LEVEL=info\n")
    (workdir / ".env.production").write_text("MODEL_NAME=large\n")
    assert load_settings().settings.model_name == "small"
    monkeypatch.setenv("HERMES_ENV", "production")
    settings = load_settings().settings
    assert (settings.model_name, settings.log_level) == ("large", "info")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"OPENAI_MODEL": "a"}, "a"),
        ({"OPENAI_MODEL": "a", "MODEL_NAME": "b"}, "b"),
        ({"MODEL_NAME": ""}, None),
    ],
    ids=["other-name", "own-name-first", "empty-counts-as-unset"],
)
def test_names_of_the_environment(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, names: dict[str, str], expected: str | None
) -> None:
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert load_settings().settings.model_name == expected


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("max_step = 5", ["hermes.toml", "`max_step`", "did you mean `max_steps`"]),
        ("databse_url = 'x'", ["`databse_url`", "did you mean `database_url`"]),
        ("[agent]\nmax_steps = 5", ["`agent`", "`max_steps` stands at the top level"]),
        ("max_steps = '5'", ["`max_steps` must be a number", "'5'"]),
        ("max_steps = 0", ["`max_steps`", "greater than 0"]),
        ("model_total_s = 0", ["`model_total_s`", "greater than 0"]),
        ("model_total_s = inf", ["`model_total_s`", "finite"]),
        ("model_total_s = nan", ["`model_total_s`", "got nan"]),
        ("log_level = 'loud'", ["`log_level`", "debug"]),
        ("zzz = 1", ["`zzz`", "known keys"]),
        ("model_name = ", ["hermes.toml", "TOML"]),
    ],
)
def test_r083_a_wrong_line_in_the_file_stops_the_start(
    workdir: Path, text: str, parts: list[str]
) -> None:
    (workdir / "hermes.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HERMES_DATABSE_URL", "did you mean `HERMES_DATABASE_URL`"),
        ("HERMES_REQUIRE_APROVAL", "did you mean `HERMES_SHELL_APPROVAL`"),
        ("HERMES_SOMETHING_WHOLLY_UNRELATED_TO_THE_REST", "known keys"),
    ],
)
def test_r083_an_unknown_name_of_ours_in_the_environment_stops_the_start(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match=name) as caught:
        load_settings()
    assert hint in str(caught.value)


@pytest.mark.parametrize("place", [".env", "environment"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MODEL_NAM", "MODEL_NAME"),
        ("AGENT_MAX_ITERATION", "AGENT_MAX_ITERATIONS"),
        ("TOOL_ENABLED_GROUP", "TOOL_ENABLED_GROUPS"),
        ("HERMES_LOGLEVEL", "HERMES_LOG_LEVEL"),
    ],
)
def test_r083_a_near_miss_stops_the_start_wherever_it_stands(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str, meant: str
) -> None:
    _give(name, "x", place, workdir, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert f"{place}: unknown key `{name}`; did you mean `{meant}`" in str(caught.value)


@pytest.mark.parametrize("place", [".env", "environment"])
@pytest.mark.parametrize(
    "name", ["APP_KEY", "APIKEY", "APP_BASE", "DATABASE_PASSWORD", "OPENAI_API_BASE", "env"]
)
def test_a_foreign_name_is_left_alone(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    _give(name, "x", place, workdir, monkeypatch)
    assert set(load_settings().sources.values()) == {"default"}


def _give(
    name: str, value: str, place: str, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "environment":
        monkeypatch.setenv(name, value)
    else:
        (workdir / ".env").write_text(f"{name}={value}\n")


def test_hermes_env_is_one_of_two(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_ENV", "prodution")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    for part in ("HERMES_ENV", "'development' or 'production'", "'prodution'"):
        assert part in str(caught.value)


def test_all_faults_are_told_at_once(workdir: Path) -> None:
    (workdir / "hermes.toml").write_text("max_step = 5\nlog_level = 'loud'")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert "max_step" in str(caught.value)
    assert "log_level" in str(caught.value)


def test_r085_files_are_utf8_whatever_the_locale_and_a_bom_is_accepted(workdir: Path) -> None:
    (workdir / ".env").write_bytes("\ufeffMODEL_NAME=模型◆\n".encode())
    assert load_settings().settings.model_name == "模型◆"


def test_the_key_is_never_shown(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-secret")
    settings = load_settings().settings
    assert "sk-secret" not in repr(settings)
    assert "sk-secret" not in str(settings.model_dump(mode="json"))


def test_settings_can_be_given_by_name() -> None:
    assert Settings.model_validate({"max_steps": 3}).max_steps == 3


def test_r085_a_bom_in_hermes_toml_is_accepted(workdir: Path) -> None:
    (workdir / "hermes.toml").write_bytes(b"\xef\xbb\xbfmax_steps = 5\n")
    assert load_settings().settings.max_steps == 5


@pytest.mark.parametrize("text", ["nonsense line\n", 'API_KEY="unterminated\n'])
def test_a_line_of_dotenv_that_cannot_be_read_stops_the_start(workdir: Path, text: str) -> None:
    (workdir / ".env").write_text(text)
    with pytest.raises(ConfigError, match=r"\.env: line 1"):
        load_settings()


def test_a_folder_called_dotenv_is_told(workdir: Path) -> None:
    (workdir / ".env").mkdir()
    with pytest.raises(ConfigError, match=r"\.env"):
        load_settings()
