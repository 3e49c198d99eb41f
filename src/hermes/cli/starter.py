"""`hermes init`: a starter that runs at once."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

from hermes.errors import ConfigError

from . import output

_FILES = {
    "agent.toml": "agent.toml",
    "playbook.yaml": "playbook.yaml",
    "tools.py.tmpl": "tools.py",
    "test_agent.py.tmpl": "test_agent.py",
    "env.example": ".env.example",
    "gitignore": ".gitignore",
}


def init(folder: Path, *, json: bool) -> None:
    """Write the starter's files; a file that is there already stops it before anything is written.

    Raises:
        ConfigError: The folder cannot be made, or holds one of the files.
    """
    present = [name for name in _FILES.values() if (folder / name).exists()]
    if present:
        raise ConfigError(
            f"{folder} already holds {', '.join(present)}; nothing was written",
            hint="choose a new folder",
        )
    source = resources.files("hermes.cli") / "starter_files"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for template, name in _FILES.items():
            text = (source / template).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be written: {exc.strerror}") from exc
    if json:
        output.print_json({"folder": str(folder), "files": list(_FILES.values())})
        return
    output.print_text(
        f"wrote {', '.join(_FILES.values())} in {folder}\n\n"
        f"  cd {shlex.quote(str(folder))}\n"
        '  hermes run "What is the weather in Beijing?" --agent agent.toml\n'
        "  python -m pytest\n\n"
        "agent.toml says how to switch from the playbook to a model."
    )
