"""From what a user writes in a setting to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.errors import ConfigError
from hermes.models.base import Model
from hermes.models.http import ClientPool
from hermes.models.openai import OPENAI_URL, OpenAIModel

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

_PLAYBOOK = "playbook:"


def open_model(
    spec: str | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    client: httpx2.AsyncClient | ClientPool | None = None,
    timeout_s: float = 120.0,
) -> Model:
    """The model that a setting names; nothing is asked of it yet.

    Args:
        spec: `playbook:` and the path of a playbook, or the name of a model at `base_url`.
        base_url: A chat completions server; with a key alone it is OpenAI's.
        api_key: The server's key, if it wants one.
        client: A connection pool to share; its owner closes it.
        timeout_s: Longest silence of the server, in seconds.

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
    if not (base_url or api_key):
        raise ConfigError(
            f"model {name!r} has no server",
            hint="set API_BASE to a chat completions server, such as http://localhost:11434/v1; "
            "a local one needs no API_KEY",
        )
    return OpenAIModel(
        name,
        base_url=base_url or OPENAI_URL,
        api_key=api_key,
        client=client,
        timeout_s=timeout_s,
    )
