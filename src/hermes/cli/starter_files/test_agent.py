"""The agent with a scripted model: no key, no network, the same result every time."""

from pathlib import Path

from hermes import Agent
from hermes.testing import ScriptedModel, call

AGENT_FILE = Path(__file__).parent / "agent.toml"


def test_the_agent_looks_the_weather_up() -> None:
    model = ScriptedModel([call("get_weather", city="Beijing"), "Sunny, 23 degrees."])

    response = Agent.from_file(AGENT_FILE, model=model).run_sync("How is the weather in Beijing?")

    assert response.output == "Sunny, 23 degrees."
    assert '"celsius":23' in model.requests[-1].messages[-1].text


def test_the_playbook_answers_without_a_model() -> None:
    response = Agent.from_file(AGENT_FILE).run_sync("What is the weather in Beijing?")

    assert response.output == "Beijing: sunny, 23 degrees."
