from pathlib import Path

import pytest

from hermes.errors import ConfigError
from hermes.models import OpenAIModel, PlaybookModel, open_model


def test_a_playbook_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "greet.yaml"
    path.write_text("playbook: 1\nrules: [{name: a, answer: hi}]")
    model = open_model(f"playbook:{path}")
    assert isinstance(model, PlaybookModel)
    assert model.name == "playbook:greet"


def test_a_name_with_a_colon_is_a_model_all_the_same() -> None:
    model = open_model("qwen2.5:7b", base_url="http://localhost:11434")
    assert isinstance(model, OpenAIModel)
    assert model.name == "qwen2.5:7b"


def test_a_key_alone_means_openai() -> None:
    assert "api.openai.com" in repr(open_model("gpt-x", api_key="sk-1"))


@pytest.mark.parametrize("spec", [None, "", "  "])
def test_no_model_says_what_to_set(spec: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        open_model(spec)
    for word in ("MODEL_NAME", "API_BASE", "--model", "--playbook"):
        assert word in caught.value.hint


def test_no_server_names_the_setting_and_asks_for_no_key() -> None:
    with pytest.raises(ConfigError) as caught:
        open_model("llama3")
    assert "API_BASE" in caught.value.hint
    assert "needs no API_KEY" in caught.value.hint


def test_a_missing_playbook_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot read playbook 'nowhere\.yaml'"):
        open_model("playbook:nowhere.yaml")
