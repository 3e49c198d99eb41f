"""Small programs that a model writes, run in a sandbox; group `python`."""

from __future__ import annotations

import keyword
import shutil
from importlib.util import find_spec
from typing import Annotated

from pydantic import Field

from hermes.errors import ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool
from hermes.tools.results import ResultFault, normalise

from .options import BuiltinOptions, PythonSandbox
from .python_bubblewrap import run_in_bubblewrap
from .python_monty import run_in_monty
from .python_result import Ended, Snippet

MAX_TIMEOUT_S = 30
_MISSING = {
    "monty": "the package pydantic-monty (pip install 'hermes-courier[sandbox]')",
    "bubblewrap": "the program bwrap (on Debian: the package bubblewrap)",
}


class Python:
    """Running code in the sandbox that is set, or the first that is there."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._wanted: PythonSandbox = options.python_sandbox

    async def run_python(
        self,
        code: Annotated[str, Field(min_length=1, max_length=100_000)],
        inputs: dict[str, object] = {},  # noqa: B006  # copied for each call
        timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S)] = 5,
    ) -> dict[str, object]:
        """Run a small Python program in a sandbox, and get the value of its last line.

        Use it for arithmetic, dates, text and small data that must be exact. Not for files
        (`query_data`, `read_file`), the network or other programs: in the sandbox there are
        none. Nothing is kept between calls. It may take 128 MiB of memory. Which sandbox it is
        stands in the result: `monty` knows much of the language and few modules (math, json, re,
        datetime, random, itertools); `bubblewrap` has Python with its standard library.

        Args:
            code: The program; if its last line is an expression, that is the value.
            inputs: Values that the program finds under these names.
            timeout_s: Seconds until it is ended.

        Returns:
            `value` as JSON, what it `printed` (20,000 characters at most), and, where the program
            failed, `error` with type, message and line.

        Example:
            run_python(code="sum(prices) / len(prices)", inputs={"prices": [3, 4, 8]})
        """
        for name in inputs:
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
                raise ToolError(
                    f"the input {name!r:.80} cannot be a name in Python", code="bad_input"
                )
        snippet = Snippet(code=_bare(code), inputs=inputs, timeout_s=float(timeout_s))
        sandbox = self._sandbox()
        run = run_in_monty if sandbox == "monty" else run_in_bubblewrap
        return _told(await run(snippet), sandbox)

    def can_run(self) -> str | None:
        """Why no sandbox can be used; None if one can."""
        try:
            self._sandbox()
        except ToolError as fault:
            return fault.message
        return None

    def _sandbox(self) -> str:
        there = {"monty": _has_monty, "bubblewrap": lambda: shutil.which("bwrap") is not None}
        names = list(there) if self._wanted == "auto" else [self._wanted]
        for name in names:
            if there[name]():
                return name
        wanted = " or ".join(_MISSING[name] for name in names)
        raise ToolError(
            f"there is no sandbox to run Python in, and without one it is not run: {wanted} "
            "is missing",
            code="no_sandbox",
            hint="a person has to install it; HERMES_PYTHON_SANDBOX says which is used",
        )


def _bare(code: str) -> str:
    """The program without the fence that models like to put around it."""
    lines = code.strip().split("\n")
    is_fenced = len(lines) > 2 and lines[0] in ("```", "```python", "```py") and lines[-1] == "```"
    return "\n".join(lines[1:-1]) if is_fenced else code


def _has_monty() -> bool:
    return find_spec("pydantic_monty") is not None


def _told(ended: Ended, sandbox: str) -> dict[str, object]:
    told: dict[str, object] = {"sandbox": sandbox}
    if ended.error is None:
        try:
            told["value"] = normalise(ended.value)
        except ResultFault as fault:
            told["value"] = None
            told["value_left_out"] = f"it has no form in JSON: {fault}"
    else:
        told["error"] = ended.error
    if ended.printed:
        told["printed"] = ended.printed
    return told


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Running code: it reads nothing and changes nothing but what it was given."""
    python = Python(options)
    made = tool(
        effect="read",
        group="python",
        timeout_s=MAX_TIMEOUT_S + 15.0,
        concurrency=4,
        health=python.can_run,
    )
    return (made(python.run_python),)
