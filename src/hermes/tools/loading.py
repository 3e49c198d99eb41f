"""Tools from Python files of the user's own."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

from hermes.errors import ConfigError

from .base import Tool
from .failures import described


def load_tools(path: Path) -> list[Tool]:
    """Import a Python file, or each `*.py` of a folder, and collect the tools made in it.

    A tool belongs to the file in which `@tool`, `tool(...)` or `@register_tool(...)` stands; one
    that a file merely imports is not loaded with it. Files of a folder whose name begins with `_`
    are left out. While a file is imported its folder comes first on the path, so it can import
    its neighbours; those stay private to it, so that two folders may both have a `common.py`.

    Args:
        path: A Python file of any name, or a folder.

    Returns:
        The tools in the order of files and lines; never an empty list.

    Raises:
        ConfigError: There is no such file, it cannot be imported, or no tool is made in it.
    """
    if path.is_dir():
        found = [tool for file in tool_files(path) for tool in load_file(file)[1]]
    elif path.is_file():
        found = load_file(path)[1]
    else:
        raise ConfigError(f"{path}: no such file or folder", hint="tools are loaded from there")
    if not found:
        raise ConfigError(
            f"{path}: no tool is made in it",
            hint="decorate a function with @tool; tools imported from elsewhere do not count",
        )
    return found


def tool_files(folder: Path) -> list[Path]:
    """The Python files of a folder that tools are looked for in."""
    return sorted(item for item in folder.glob("*.py") if not item.name.startswith("_"))


class _FreshLoader(SourceFileLoader):
    """Compiles each time: a cache beside the user's file may be stale within a second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_file(file: Path) -> tuple[ModuleType, list[Tool]]:
    """One file as a module, and the tools made in it, which may be none.

    Raises:
        ConfigError: It cannot be imported.
    """
    file = file.resolve()
    name = f"hermes_tools_{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}"
    loader = _FreshLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _neighbours(file.parent):
        # Stays there: dataclasses and pydantic look a class's module up by name, even later.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # whatever a file raises as it loads is that file's fault
            del sys.modules[name]
            raise ConfigError(f"{_place(file, exc)}: {described(exc)}") from exc
    made = [tool for tool in _tools_of(module) if _is_made_in(tool, file)]
    return module, sorted(made, key=lambda tool: int(tool.origin.rpartition(":")[2]))


def _tools_of(module: ModuleType) -> list[Tool]:
    values = cast("dict[str, object]", vars(module)).values()
    tools = [cast("Tool", value) for value in values if isinstance(value, Tool)]
    return list({id(tool): tool for tool in tools}.values())


def _is_made_in(tool: Tool, file: Path) -> bool:
    return tool.origin.rpartition(":")[0] == str(file)


def _place(file: Path, exc: BaseException) -> str:
    """File and line to look at: the syntax error's own, else the deepest line within the file."""
    if isinstance(exc, SyntaxError) and exc.filename:
        return f"{exc.filename}:{exc.lineno or 1}"
    frames = traceback.extract_tb(exc.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


@contextmanager
def _neighbours(folder: Path) -> Generator[None]:
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).is_relative_to(folder) and "hermes_tools_" not in name:
                del sys.modules[name]
