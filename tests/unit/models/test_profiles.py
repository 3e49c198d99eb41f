import logging
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.chat import Usage
from hermes.errors import ConfigError
from hermes.models import OpenAIModel
from hermes.models.profile_files import (
    WINDOW,
    ProfileTable,
    known_profiles,
    load_profiles,
    read_profiles,
)
from hermes.models.profiles import Prices, Profile, find_profile, profile_in


def mine(table: Mapping[str, object]) -> list[ProfileTable]:
    return [read_profiles(table, source="mine.toml")]


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4o", 128_000),
        ("GPT-4o-2024-11-20", 128_000),
        ("openai/gpt-4.1-mini", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("o3-mini", 200_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("deepseek-chat", 131_072),
        ("deepseek-v4-pro", 1_000_000),
        ("claude-opus-4-20250514", 200_000),
        ("claude-opus-4-7", 1_000_000),
        ("qwen2.5:7b", 32_768),
        ("Qwen/Qwen2.5-7B-Instruct", 32_768),
        ("qwen-plus-latest", 131_072),
        ("glm-4.6", 200_000),
        ("moonshot-v1-32k", 32_768),
        ("kimi-k2-0905-preview", 262_144),
        ("llama3.1:8b-instruct-q4_K_M", 131_072),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
        ("mistral-large-latest", 131_072),
        ("models/gemini-2.5-flash", 1_048_576),
        ("gemma2:9b", 8_192),
        ("google/gemma-3-27b-it", 131_072),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", 8_192),
    ],
)
def test_known_models_are_found_however_they_are_written(name: str, window: int) -> None:
    profile = find_profile(name)

    assert profile.is_known
    assert profile.window == window


def test_an_unknown_model_gets_the_stated_defaults_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="hermes.models"):
        first = find_profile("nobody-knows-7b")
        find_profile("nobody-knows-7b")

    assert first == Profile(name="nobody-knows-7b")
    assert not first.is_known
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "'nobody-knows-7b'" in told[0]
    assert "32768 tokens" in told[0]
    assert caplog.records[0].levelno == logging.INFO


def test_a_longer_glob_holds_against_a_shorter_one() -> None:
    assert find_profile("gpt-4o-mini").prices == Prices(prompt=0.15, completion=0.6, cached=0.075)
    assert find_profile("gpt-4o").prices == Prices(prompt=2.5, completion=10.0, cached=1.25)


def test_a_server_adds_what_holds_for_its_models_only() -> None:
    assert find_profile("x", host="api.openai.com").cap_field == "max_completion_tokens"
    assert find_profile("qwen2.5:7b", host="localhost:11434").json_mode == "schema"
    assert find_profile("qwen2.5:7b", host="localhost:8000").json_mode == "none"
    assert not find_profile("x", host="api.openai.com").is_known


def test_what_is_known_of_a_model_holds_against_what_its_server_mostly_does() -> None:
    assert find_profile("gpt-3.5-turbo", host="api.openai.com").json_mode == "object"


def test_a_user_s_profile_changes_what_it_says_and_nothing_else() -> None:
    profile = find_profile("gpt-4o", more=mine({"gpt-4o": {"window": 64_000}}))

    assert profile.window == 64_000
    assert profile.max_output == 16_384
    assert profile.sources["window"] == "mine.toml [gpt-4o]"
    assert profile.sources["max_output"] == "hermes [gpt-4o*]"


def test_a_user_s_profile_makes_a_model_known() -> None:
    row = {"window": 4096, "dialect": "react", "prices": {"prompt": 1, "completion": 2.5}}
    profile = find_profile("my-model", more=mine({"my-*": row}))

    assert profile.is_known
    assert (profile.window, profile.dialect) == (4096, "react")
    assert profile.prices == Prices(prompt=1, completion=2.5)


def test_new_prices_do_not_keep_the_old_date() -> None:
    row = {"prices": {"prompt": 1, "completion": 2}}

    assert find_profile("gpt-4o", more=mine({"gpt-4o": row})).priced_at == ""


def test_the_window_that_is_set_holds_against_all() -> None:
    profile = find_profile("gpt-4o", more=mine({"gpt-4o": {"window": 64_000}}), window=8000)

    assert profile.window == 8000
    assert profile.sources["window"] == WINDOW


def test_a_later_table_holds_against_an_earlier_one() -> None:
    more = [*mine({"m": {"window": 1000}}), *mine({"m*": {"window": 2000}})]

    assert find_profile("m", more=more).window == 2000


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"windw": 5}, "did you mean `window`?"),
        ({"window": "32k"}, "window"),
        ({"window": True}, "window"),
        ({"window": -1}, "window"),
        ({"json_mode": "scheme"}, "json_mode"),
        ({"images": 1}, "images"),
        ({"prices": {"promt": 1, "completion": 1}}, "prices.promt"),
        ({"prices": {"prompt": -1, "completion": 1}}, "prices.prompt"),
        ({"prices": {"prompt": float("nan"), "completion": 1}}, "prices.prompt"),
        ({"prices": {"completion": 1}}, "prices.prompt"),
        ({"priced_at": "Nov"}, "priced_at"),
        ({"priced_at": "2026-13"}, "priced_at"),
        (7, "must be a table"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_path(tmp_path: Path, row: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_profiles({"my-model": row}, source="models.toml")

    assert 'models.toml: ["my-model"]' in str(caught.value)
    assert told in str(caught.value)


def test_profiles_are_read_from_files_in_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text('["m"]\nwindow = 1000\nimages = true\n')
    two.write_text('["m"]\nwindow = 2000\n')

    profile = find_profile("m", more=load_profiles([one, two]))

    assert (profile.window, profile.images) == (2000, True)


def test_a_file_that_is_not_there_is_told_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read.*HERMES_MODEL_PROFILES"):
        load_profiles([tmp_path / "none.toml"])


def test_what_comes_along_is_sound() -> None:
    for key, row in known_profiles().rows.items():
        assert key == key.casefold()
        assert ("prices" in row) == ("priced_at" in row), key
        window, output = row.get("window"), row.get("max_output")
        if isinstance(window, int) and isinstance(output, int):
            assert output < window, key


def test_the_data_file_lies_beside_the_code() -> None:
    assert files("hermes.models").joinpath("profiles.toml").is_file()


def test_a_model_has_a_profile() -> None:
    profile = profile_in(OpenAIModel("gpt-4o", base_url="https://api.openai.com"))

    assert profile is not None
    assert profile.is_known
    assert profile.strict_schema
    assert profile_in(object()) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_name_and_host_has_a_profile(name: str, host: str) -> None:
    assert find_profile(name, host=host).window >= 256


@given(*(st.integers(0, 10**7) for _ in range(4)))
def test_cheaper_tokens_never_make_a_request_dearer(
    prompt: int, cached: int, kept: int, completion: int
) -> None:
    usage = Usage(
        prompt_tokens=prompt + cached + kept,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=kept,
    )
    full = Prices(prompt=3.0, completion=15.0).cost_nano(usage)

    assert full == 3000 * usage.prompt_tokens + 15_000 * completion
    assert Prices(prompt=3.0, completion=15.0, cached=0.3).cost_nano(usage) <= full


def test_the_guide_lists_every_key_with_its_default() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    table = guide.partition("| Key | Means | Otherwise |")[2].partition("\n\n")[0]
    told = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    keys = [item.name for item in fields(Profile)]
    keys = [name for name in keys if name not in ("name", "is_known", "sources")]

    assert [row[1].strip(" `") for row in told] == keys
    defaults = Profile(name="m")
    for row in told:
        value = getattr(defaults, row[1].strip(" `"))
        said = row[3].strip(" `").replace(" ", "")
        assert said == ("notknown" if value in (None, "") else str(value).lower())
