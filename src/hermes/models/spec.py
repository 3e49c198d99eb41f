"""From what a user writes in a setting to a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes.errors import ConfigError
from hermes.models.base import Model
from hermes.models.clients import ClientPool
from hermes.models.deadline import TOTAL_S
from hermes.models.openai import OPENAI_URL, OpenAIModel, host_of
from hermes.models.profiles import find_profile

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

    from hermes.models.anthropic_request import Thinking
    from hermes.models.profile_files import Profiles

_PLAYBOOK = "playbook:"
_ANTHROPIC = "anthropic:"
_LOCAL = "local:"


def open_model(
    spec: str | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    client: httpx2.AsyncClient | ClientPool | None = None,
    timeout_s: float = 120.0,
    total_s: float = TOTAL_S,
    profiles: Profiles = (),
    window: int | None = None,
    thinking: Thinking = None,
) -> Model:
    """The model that a setting names; nothing is asked of it yet.

    Args:
        spec: `playbook:` and the path of a playbook, `anthropic:` and the name of a model behind
            the Messages API, `local:` and the path of a GGUF file, or the name of a model at
            `base_url`.
        base_url: A chat completions server; with a key alone it is OpenAI's.
        api_key: The server's key, if it wants one.
        client: A connection pool to share; its owner closes it.
        timeout_s: Longest silence of the server, in seconds.
        total_s: Longest time of one request, the whole answer included.
        profiles: What the user knows of models.
        window: Tokens of a request and its reply, whatever a profile says.
        thinking: How much a model of Anthropic may think; its own default if None.

    Raises:
        ConfigError: The setting is missing or wrong, or the playbook is.
    """
    name = (spec or "").strip()
    if not name:
        raise ConfigError(
            "no model is set",
            hint="set MODEL_NAME and API_BASE (API_KEY where the server wants one), "
            "or give --model NAME, or --playbook FILE to work without a model",
        )
    if name.startswith(_PLAYBOOK):
        # Jinja2 and YAML are loaded only for those who use them.
        from hermes.models.playbook import PlaybookModel
        from hermes.models.playbook_file import load_playbook

        return PlaybookModel(load_playbook(name.removeprefix(_PLAYBOOK)))
    if name.startswith(_LOCAL):
        # Few run their model in a process of this one.
        from hermes.models.local import LocalModel

        path = Path(name.removeprefix(_LOCAL).strip()).expanduser()
        return LocalModel(path, window=window, timeout_s=timeout_s, total_s=total_s)
    if name.startswith(_ANTHROPIC):
        return _open_anthropic(
            name.removeprefix(_ANTHROPIC).strip(),
            base_url=base_url,
            api_key=api_key,
            client=client,
            timeout_s=timeout_s,
            total_s=total_s,
            profiles=profiles,
            window=window,
            thinking=thinking,
        )
    if not (base_url or api_key):
        raise ConfigError(
            f"model {name!r} has no server",
            hint="set API_BASE to a chat completions server, such as http://localhost:11434/v1; "
            "a local one needs no API_KEY",
        )
    url = base_url or OPENAI_URL
    return OpenAIModel(
        name,
        base_url=url,
        api_key=api_key,
        client=client,
        timeout_s=timeout_s,
        total_s=total_s,
        profile=find_profile(name, host=host_of(url), more=profiles, window=window),
    )


def _open_anthropic(
    name: str,
    *,
    base_url: str | None,
    api_key: str | None,
    client: httpx2.AsyncClient | ClientPool | None,
    timeout_s: float,
    total_s: float,
    profiles: Profiles,
    window: int | None,
    thinking: Thinking,
) -> Model:
    # Most runs speak chat completions.
    from hermes.models.anthropic import ANTHROPIC_URL, AnthropicModel

    if not name:
        raise ConfigError("no model is named after `anthropic:`", hint="write anthropic:NAME")
    if not (base_url or api_key):
        raise ConfigError(
            f"model {name!r} of Anthropic has no key",
            hint="set API_KEY to a key of Anthropic, or API_BASE to another server that speaks "
            "the Messages API",
        )
    url = base_url or ANTHROPIC_URL
    return AnthropicModel(
        name,
        base_url=url,
        api_key=api_key,
        client=client,
        timeout_s=timeout_s,
        total_s=total_s,
        profile=find_profile(name, host=host_of(url), more=profiles, window=window),
        thinking=thinking,
    )
