"""The other side of a plugin that runs in its own environment: one file, nothing but Python.

`toolserver` starts it by its path with the plugin's interpreter, which need not have Hermes:

    toolserver_child.py (file|module) PLACE

It offers the plugin the module `hermes_plugin`, loads the plugin, and answers on what was its
stdout, a JSON object a line. Whatever the plugin itself prints goes to stderr.

    {"id": 1, "do": "list"}                    {"id": 1, "ok": {"tools": […], "version": "…"}}
    {"id": 2, "do": "call", "tool": "add",     {"id": 2, "progress": "half"}
     "arguments": {"a": 1}, "key": "…"}        {"id": 2, "ok": 3}
    {"id": 2, "do": "cancel"}                  {"id": 3, "error": {"message": "…", "code": "…"}}
    {"id": 4, "do": "ping"}                    {"id": 4, "ok": "pong"}

Runs on Python 3.9 and later.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # this file's own folder is not the plugin's

import asyncio
import contextvars
import dataclasses
import datetime
import enum
import importlib
import importlib.util
import inspect
import json
import os
import re
import threading
import traceback
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path

if typing.TYPE_CHECKING:
    Function = Callable[..., object]
    Json = dict[str, object]

MAX_RESULT_BYTES = 1_000_000
MAX_CALLS = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
_ARGUMENT = re.compile(r"^\s*\**(\w+)(?:\s*\([^)]*\))?:\s*(.+)$")
_SECTIONS = ("Args:", "Arguments:", "Raises:")
_call: contextvars.ContextVar[Call] = contextvars.ContextVar("call")


class ToolError(Exception):
    """A call that failed, in words for the model."""

    def __init__(
        self, message: str, *, code: str = "failed", retryable: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.retryable, self.hint = code, retryable, hint


class NotDone(ToolError):
    """A call that surely did not take place."""


class DefinitionError(Exception):
    """A function that cannot be a tool."""


@dataclasses.dataclass
class ToolFunction:
    """A marked function, still to be called as one."""

    function: Function
    name: str
    description: str
    parameters: Json
    options: Json
    enums: dict[str, type[enum.Enum]]

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)

    def described(self) -> Json:
        """What Hermes is told."""
        shown: Json = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {**shown, **self.options}


def tool(
    function: Function | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: str = "unsafe",
    group: str = "",
    timeout_s: float | None = 30.0,
    untrusted_output: bool = False,
    outbound: bool = False,
    parameters_schema: Json | None = None,
) -> ToolFunction | Callable[[Function], ToolFunction]:
    """Mark a function as a tool; options as in Hermes' own `@tool`."""
    options: Json = {
        "effect": effect,
        "group": group,
        "timeout_s": timeout_s,
        "untrusted_output": untrusted_output,
        "outbound": outbound,
    }

    def mark(function: Function) -> ToolFunction:
        called = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(called):
            raise DefinitionError(f"{called!r} is no name: 1 to 64 ASCII letters, digits, _ or -")
        text, arguments = _read_docstring(function.__doc__ or "")
        read = _read_signature(function, called, arguments) if parameters_schema is None else None
        parameters, enums = read or (parameters_schema or {}, {})
        told = text if description is None else description
        return ToolFunction(function, called, told, parameters, options, enums)

    return mark if function is None else mark(function)


def idempotency_key() -> str:
    """The same at each repeat of the present call, also after a crash."""
    return _call.get().key


def is_cancelled() -> bool:
    """Whether nobody waits for the present call any more; long loops look at it."""
    return _call.get().cancelled.is_set()


def progress(text: object) -> None:
    """Tell people what the present call is doing."""
    _call.get().tell({"progress": str(text)})


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each argument."""
    about: list[str] = []
    arguments: dict[str, str] = {}
    last, section = "", ""
    for line in inspect.cleandoc(text).splitlines():
        if line.strip() in _SECTIONS:
            section, last = line.strip(), ""
        elif section and line and not line[0].isspace():
            section = ""  # a heading such as `Returns:` is for the model as well
        if not section:
            about.append(line)
        elif section != "Raises:" and (found := _ARGUMENT.match(line)):
            last = found[1]
            arguments[last] = found[2].strip()
        elif last and line.strip() and line.strip() != section:
            arguments[last] += " " + line.strip()
    return "\n".join(about).strip(), arguments


def _read_signature(
    function: Function, name: str, texts: dict[str, str]
) -> tuple[Json, dict[str, type[enum.Enum]]]:
    """The JSON Schema of a function's parameters, and which of them are enums."""
    hints = typing.get_type_hints(function)
    properties: Json = {}
    required: list[str] = []
    enums: dict[str, type[enum.Enum]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise DefinitionError(f"{name}: `{parameter}` cannot be given by name")
        hint: object = hints.get(parameter.name, object)
        try:
            schema = _schema_of(hint)
        except TypeError as exc:
            raise DefinitionError(
                f"{name}: `{parameter.name}`: {exc}; use plain types, or give parameters_schema="
            ) from exc
        if parameter.name in texts:
            schema["description"] = texts[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            schema["default"] = _plain(parameter.default)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            enums[parameter.name] = hint
        properties[parameter.name] = schema
    whole: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return ({**whole, "required": required} if required else whole), enums


def _schema_of(hint: object) -> Json:
    if hint is object or hint is typing.Any:
        return {}
    if hint is type(None):
        return {"type": "null"}
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [_plain(member.value) for member in hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if hint is list or origin is list:
        return {"type": "array", "items": _schema_of(inner[0]) if inner else {}}
    if origin is dict:
        if inner[0] is not str:
            raise TypeError("the keys of an object are text")
        return {"type": "object", "additionalProperties": _schema_of(inner[1])}
    if origin in (typing.Union, getattr(types, "UnionType", None)):
        return {"anyOf": [_schema_of(item) for item in inner]}
    raise TypeError(f"{hint!r} has no JSON Schema here")


def _plain(value: object) -> object:
    """A value for `json.dumps` to make plain."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(typing.cast("Iterable[object]", value), key=str)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Path) or type(value).__name__ in ("Decimal", "UUID"):
        return str(value)
    if value is None or isinstance(value, (str, int, float, list, tuple, dict)):
        return typing.cast("object", value)
    raise TypeError(f"a {type(value).__name__} has no plain JSON form")


class Call:
    """One call under way.

    Attributes:
        cancelled: Nobody waits for it any more.
        stop: Ends it, if it is async.
    """

    def __init__(self, number: int, key: str, tell: Callable[[Json], None]) -> None:
        self.key = key
        self.cancelled = threading.Event()
        self.stop: Callable[[], object] | None = None
        self._number, self._tell = number, tell

    def tell(self, words: Json) -> None:
        self._tell({"id": self._number, **words})


class Server:
    """Reads what is asked, and answers."""

    def __init__(self, asked: typing.BinaryIO, answers: typing.BinaryIO) -> None:
        self._asked, self._answers = asked, answers
        self._lock = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._tools: dict[str, ToolFunction] = {}

    def run(self, load: Callable[[], types.ModuleType]) -> None:
        """Load the plugin and answer until nobody asks any more."""
        listing = self._load(load)
        for line in self._asked:
            asked = json.loads(line)
            number, do = asked["id"], asked["do"]
            if do == "list":
                self._say({"id": number, **listing})
            elif do == "ping":
                self._say({"id": number, "ok": "pong"})
            elif do == "cancel":
                self._cancel(number)
            elif do == "call":
                self._begin(asked)

    def _load(self, load: Callable[[], types.ModuleType]) -> Json:
        try:
            module = load()
            values = typing.cast("dict[str, object]", vars(module)).values()
            found = [item for item in values if isinstance(item, ToolFunction)]
        except BaseException as exc:  # whatever a plugin raises as it loads is its own fault
            traceback.print_exc()
            return {"error": {"message": _described(exc), "code": "not_loaded"}}
        self._tools = {item.name: item for item in found}
        if len(self._tools) < len({id(item) for item in found}):
            return {"error": {"message": "two of its tools have one name", "code": "not_loaded"}}
        if not found:
            text = "it marks no function with `@tool` of `hermes_plugin`"
            return {"error": {"message": text, "code": "not_loaded"}}
        version = str(getattr(module, "__version__", "")) or _version_of(module)
        tools = [item.described() for item in self._tools.values()]
        return {"ok": {"tools": tools, "version": version}}

    def _begin(self, asked: typing.Any) -> None:
        number: int = asked["id"]
        found = self._tools.get(asked["tool"])
        if found is None or len(self._calls) >= MAX_CALLS:
            text = "there is no such tool" if found is None else f"{MAX_CALLS} calls run already"
            error: Json = {"message": text, "code": "busy" if found else "gone", "not_done": True}
            self._say({"id": number, "error": error})
            return
        call = self._calls[number] = Call(number, asked.get("key", ""), self._say)
        work = (call, number, found, asked["arguments"])
        threading.Thread(target=self._work, args=work, daemon=True).start()

    def _work(self, call: Call, number: int, found: ToolFunction, arguments: Json) -> None:
        _call.set(call)
        try:
            line = self._line({"id": number, "ok": self._value(call, found, arguments)})
        except BaseException as exc:  # the boundary: an exception of a tool is an answer
            line = self._line({"id": number, "error": _error_of(exc)})
        del self._calls[number]
        if not call.cancelled.is_set():
            self._write(line)

    def _value(self, call: Call, found: ToolFunction, arguments: Json) -> object:
        given = {
            name: found.enums[name](value) if name in found.enums else value
            for name, value in arguments.items()
        }
        function = found.function
        if not inspect.iscoroutinefunction(function):
            return function(**given)

        async def work() -> object:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            call.stop = lambda: loop.call_soon_threadsafe(task.cancel)
            return await function(**given)

        return asyncio.run(work())

    def _cancel(self, number: int) -> None:
        call = self._calls.get(number)
        if call is not None:
            call.cancelled.set()
            if call.stop is not None:
                try:
                    call.stop()
                except RuntimeError:
                    return  # its loop has just ended

    def _line(self, answer: Json) -> bytes:
        try:
            line = json.dumps(answer, default=_plain, allow_nan=False, ensure_ascii=False)
            data = line.encode()
        except (TypeError, ValueError, RecursionError) as exc:
            text = f"the tool did run, but its result is no plain JSON: {exc}"
            raise ToolError(text, code="bad_result") from exc
        if len(data) > MAX_RESULT_BYTES:
            text = f"the tool did run, but its result has {len(data)} bytes of JSON"
            hint = f"at most {MAX_RESULT_BYTES}: ask for less, or have it write a file"
            raise ToolError(text, code="bad_result", hint=hint)
        return data + b"\n"

    def _say(self, answer: Json) -> None:
        self._write(json.dumps(answer, default=_plain).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with self._lock:
            self._answers.write(line)
            self._answers.flush()


def _error_of(exc: BaseException) -> Json:
    """What a call's exception means, in the words of the protocol."""
    error: Json = {"message": str(exc) or type(exc).__name__, "code": "exception"}
    if isinstance(exc, ToolError):
        error.update(code=exc.code, retryable=exc.retryable, hint=exc.hint)
        return {**error, "not_done": isinstance(exc, NotDone)}
    error["message"] = _described(exc)
    if isinstance(exc, TimeoutError) or "Timeout" in type(exc).__name__:
        error["open"] = "timeout"
    elif isinstance(exc, ConnectionError) and not isinstance(exc, ConnectionRefusedError):
        error["open"] = "connection"
    return error


def _described(exc: BaseException) -> str:
    """An exception in one line, with the plugin's own line where it has one."""
    text = " ".join(str(exc).split())[:500]
    place = ""
    if isinstance(exc, SyntaxError) and exc.filename:
        place = f"{exc.filename}:{exc.lineno}: "
    elif exc.__traceback__ is not None:
        frames = traceback.extract_tb(exc.__traceback__)
        own = [item for item in frames if not item.filename.startswith(("<", __file__))]
        if own:
            place = f"{own[-1].filename}:{own[-1].lineno}: "
    return f"{place}{type(exc).__name__}: {text}".rstrip(": ")


def _version_of(module: types.ModuleType) -> str:
    """The version of the distribution that has a module; "" if none has."""
    try:
        import importlib.metadata as metadata

        return metadata.version(module.__name__.partition(".")[0])
    except Exception:  # a broken distribution is no reason not to use the module
        return ""


def _load(kind: str, place: str) -> types.ModuleType:
    """The plugin's module, with its folder first on the path."""
    if kind == "module":
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    path = Path(place).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main(kind: str, place: str) -> None:
    """Serve one plugin until stdin ends."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    offered = types.ModuleType("hermes_plugin", "What a plugin of Hermes may use.")
    for item in (tool, ToolError, NotDone, idempotency_key, is_cancelled, progress):
        setattr(offered, item.__name__, item)
    sys.modules["hermes_plugin"] = offered
    Server(asked, answers).run(lambda: _load(kind, place))
    # Threads of plain functions cannot be stopped; nobody waits for them.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
