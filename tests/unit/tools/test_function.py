"""Functions as tools: what the model is shown, and what the function gets."""

import dataclasses
import enum
import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from socket import socket
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, cast
from uuid import UUID

import pytest
import typing_extensions
from pydantic import BaseModel, Field

from hermes import tools
from hermes.errors import ToolDefinitionError
from hermes.tools import (
    ArgumentFault,
    Arguments,
    Tool,
    ToolContext,
    read_arguments,
    register_tool,
    tool,
)


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Code(enum.IntEnum):
    OK = 1
    BAD = 2


class Row(BaseModel):
    """One row of an order."""

    qty: int = Field(ge=1)
    sku: str | None = None


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Window(TypedDict, total=False):
    first: typing.Required[date]
    last: date


class Size(typing_extensions.TypedDict):
    width: int


class Pair(NamedTuple):
    key: str
    value: int


UserId = NewType("UserId", int)


def with_parameter(annotation: object, default: object = inspect.Parameter.empty) -> Tool:
    """A tool of one parameter `x`; it gives back what it got."""

    def probe(x: object) -> object:
        return x

    probe.__annotations__["x"] = annotation
    if default is not inspect.Parameter.empty:
        probe.__defaults__ = (default,)
    return tool(probe)


def arrives(made: Tool, given: object) -> object:
    """What reaches the function when a model writes `given`, through the whole pipeline."""
    read = read_arguments(made.parameters, {"x": given})
    assert isinstance(read, Arguments), read
    return called(made, read.values)


def called(made: Tool, arguments: dict[str, object]) -> object:
    return made(**made.bind(arguments))


DELIVERED: dict[str, tuple[object, object, object]] = {
    "R087-str": (str, "a", "a"),
    "R087-int": (int, "25", 25),
    "R087-whole-float": (int, 3.0, 3),
    "R087-float": (float, 1, 1.0),
    "R087-bool": (bool, "true", True),
    "R087-none": (None, None, None),
    "R087-enum": (Level, "High", Level.HIGH),
    "R087-int-enum": (Code, 2, Code.BAD),
    "R087-literal": (Literal["a", "b"], " A ", "a"),
    "R087-literal-number": (Literal[1, 2], 2.0, 2),
    "R087-model": (Row, {"qty": 2}, Row(qty=2)),
    "R087-models": (list[Row], [{"qty": 1, "sku": "a"}], [Row(qty=1, sku="a")]),
    "R087-dataclass": (Point, {"x": "1"}, Point(1, 0)),
    "R087-dataclasses": (dict[str, list[Point]], {"a": [{"x": 1}]}, {"a": [Point(1)]}),
    "R087-typed-dict": (Window, {"first": "2026-11-29"}, {"first": date(2026, 11, 29)}),
    "R087-typed-dicts": (list[Size], [{"width": 1}], [{"width": 1}]),
    "R087-named-tuple": (Pair, ["a", 1], Pair("a", 1)),
    "R087-path": (Path, "/var/log", Path("/var/log")),
    "R087-datetime": (datetime, "2026-11-29T08:00:00Z", datetime(2026, 11, 29, 8, tzinfo=UTC)),
    "R087-date": (date, "2026-11-29", date(2026, 11, 29)),
    "R087-time": (time, "08:30", time(8, 30)),
    "R087-timedelta": (timedelta, "PT5M", timedelta(minutes=5)),
    "R087-decimal": (Decimal, "1.10", Decimal("1.10")),
    "R087-decimal-number": (Decimal, 1.5, Decimal("1.5")),
    "R087-uuid": (
        UUID,
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        UUID(int=0x6BA7B8109DAD11D180B400C04FD430C8),
    ),
    "R087-optional": (Optional[int], None, None),  # noqa: UP045  # the older spelling
    "R087-optional-text": (int | None, "3", 3),
    "R087-union": (int | str, "25", "25"),
    "R087-tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "R087-endless-tuple": (tuple[int, ...], [1, "2"], (1, 2)),
    "R087-set": (set[int], [1, 1, 2], {1, 2}),
    "R087-frozenset": (frozenset[str], ["a"], frozenset({"a"})),
    "R087-bare-list": (list, [1, "a", None], [1, "a", None]),
    "R087-sequence": (Sequence[int], [1], [1]),
    "R087-mapping": (Mapping[str, int], {"a": 1}, {"a": 1}),
    "R087-int-keys": (dict[int, str], {"1": "a"}, {1: "a"}),
    "R087-any": (Any, {"a": [1]}, {"a": [1]}),
    "R087-object": (dict[str, object], {"a": [1]}, {"a": [1]}),
    "R087-new-type": (UserId, "7", 7),
    "R087-annotated": (Annotated[int, Field(ge=1)], 1, 1),
}


@pytest.mark.parametrize(("annotation", "given", "wanted"), DELIVERED.values(), ids=DELIVERED)
def test_a_parameter_arrives_as_it_is_annotated(
    annotation: object, given: object, wanted: object
) -> None:
    value = arrives(with_parameter(annotation), given)

    assert value == wanted
    assert type(value) is type(wanted)


UNSUPPORTED: dict[str, object] = {
    "R087-socket": socket,
    "R087-callable": Callable[[int], int],
    "R087-generator": Generator[int, None, None],
    "R087-iterator": Iterator[int],
    "R087-async-iterator": AsyncIterator[int],
    "R087-bytes": bytes,
    "R087-type": type,
    "R087-complex": complex,
    "R087-inside-a-list": list[socket],
    "R087-inside-a-union": int | socket,
    "R087-inside-annotated": Annotated[socket, "one"],
    "R087-type-variable": typing.TypeVar("T"),
    "R087-self": tools,
}


@pytest.mark.parametrize("annotation", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_an_unsupported_annotation_is_refused_by_name_at_registration(annotation: object) -> None:
    with pytest.raises(ToolDefinitionError, match="tool 'probe': parameter 'x'") as caught:
        with_parameter(annotation)

    assert "supported: str, int, float" in caught.value.hint


def test_an_unsupported_field_of_a_model_is_refused_with_the_parameter() -> None:
    @dataclasses.dataclass
    class Handle:
        call: Callable[[], int]

    with pytest.raises(ToolDefinitionError, match="parameter 'x'"):
        with_parameter(list[Handle])


def test_a_typed_dict_that_holds_itself_is_refused_with_a_way_out() -> None:
    with pytest.raises(ToolDefinitionError, match=r"typing_extensions\.TypedDict"):
        with_parameter(Tree)


class Tree(TypedDict):
    inner: "list[Tree]"


def test_unresolved_and_missing_annotations_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be resolved: name 'Gone'"):
        with_parameter("Gone")

    def bare(x, y: int = 0) -> None: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  # the fault under test

    with pytest.raises(ToolDefinitionError, match="'bare': parameter 'x' has no annotation"):
        tool(cast("Callable[..., None]", bare))


ODD_SHAPES: dict[str, tuple[Callable[..., object], str]] = {}


def odd(match: str) -> Callable[[Callable[..., object]], None]:
    def note(function: Callable[..., object]) -> None:
        ODD_SHAPES[function.__name__] = (function, match)

    return note


@odd("takes any number of arguments")
def star(*x: int) -> None: ...


@odd("takes arguments of any name")
def double_star(**x: int) -> None: ...


@odd("is positional-only")
def positional(x: int, /) -> None: ...


@odd("a generator function has no single result")
def generator() -> Iterator[int]:
    yield 1


@odd("a generator function has no single result")
async def async_generator() -> AsyncIterator[int]:
    yield 1


@odd("`name=`|by name=")
def näme() -> None: ...


@pytest.mark.parametrize(("function", "match"), ODD_SHAPES.values(), ids=ODD_SHAPES)
def test_functions_that_cannot_be_called_by_name_are_refused(
    function: Callable[..., object], match: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=match):
        tool(function)


def test_classes_and_partials_are_refused() -> None:
    for thing in (Point, functools.partial(max)):
        with pytest.raises(ToolDefinitionError, match="is not a function"):
            tool(name="x")(cast("Callable[..., object]", thing))


def test_wrong_options_are_refused() -> None:
    def fine() -> None: ...

    with pytest.raises(ToolDefinitionError, match="effect 'safe' is none of read, idempotent"):
        tool(effect=cast("Literal['read']", "safe"))(fine)
    with pytest.raises(ToolDefinitionError, match="timeout_s must be more than 0, got 0"):
        tool(timeout_s=0)(fine)


@tool(effect="read", group="logs", timeout_s=None)
async def read_logs(
    path: Path,
    ctx: ToolContext,
    level: Annotated[Literal["error", "crit"], "least severity"] = "error",
    limit: int = Field(200, ge=1, description="most lines"),
) -> str:
    """Read error lines.

    Args:
        path: the log file
        level: overruled by the annotation
        limit: overruled as well
    """
    return f"{ctx.idempotency_key} {path} {level} {limit}"


def test_the_schema_is_small_plain_and_documented() -> None:
    assert read_logs.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "format": "path", "description": "the log file"},
            "level": {
                "type": "string",
                "enum": ["error", "crit"],
                "description": "least severity",
                "default": "error",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "most lines",
                "default": 200,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_options_and_docstring_reach_the_tool() -> None:
    assert (read_logs.name, read_logs.effect, read_logs.group) == ("read_logs", "read", "logs")
    assert read_logs.timeout_s is None
    assert read_logs.description == "Read error lines."
    assert read_logs.spec.parameters is read_logs.parameters
    assert read_logs.origin.startswith(f"{__file__}:")
    assert len(read_logs.fingerprint) == 16


def test_the_bare_decorator_takes_the_defaults() -> None:
    @tool
    def count_files() -> int:
        return 1

    assert (count_files.effect, count_files.group, count_files.timeout_s) == ("unsafe", "", 30.0)
    assert count_files.description == "count files"
    assert count_files.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_name_and_description_can_be_given() -> None:
    @tool(name="count-files", description=" Counts. ")
    def anything() -> int:
        """Not this."""
        return 1

    assert (anything.name, anything.description) == ("count-files", "Counts.")


def test_a_tool_is_still_the_function() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    total: int = add(2, b=3)
    assert total == 5


async def test_the_context_is_injected_and_hidden(context: ToolContext) -> None:
    bound = read_logs.bind({"path": "/a"})

    assert await read_logs.invoke(bound, context) == "task_1/turn1/tool1 /a error 200"


def test_a_bound_method_is_a_tool() -> None:
    class Desk:
        def __init__(self) -> None:
            self.tickets = 3

        def count(self, add: int = 0) -> int:
            return self.tickets + add

    assert tool(Desk().count)(add=1) == 4
    with pytest.raises(ToolDefinitionError, match="no annotation") as caught:
        tool(cast("Callable[..., int]", Desk.count))
    assert caught.value.hint == "make the tool from the bound method: tool(instance.method)"


def test_types_may_be_local_even_if_annotations_are_text() -> None:
    class Local(BaseModel):
        size: int

    def measure(x: "Local") -> int:
        return x.size

    assert called(tool(measure), {"x": {"size": 3}}) == 3


def test_a_mutable_default_is_new_for_each_call() -> None:
    @tool
    def collect(
        x: int,
        into: list[int] = [],  # noqa: B006  # what is under test
        seen: Annotated[dict[str, int], "x"] = {},  # noqa: B006  # what is under test
    ) -> list[int]:
        into.append(x)
        seen["x"] = x
        return into

    assert called(collect, {"x": 1}) == [1]
    assert called(collect, {"x": 2}) == [2]


def test_a_default_factory_runs_for_each_call() -> None:
    numbers = iter(range(10))

    @tool
    def take(number: int = Field(default_factory=lambda: next(numbers))) -> int:
        return number

    first, second = take.bind({})["number"], take.bind({})["number"]
    assert first != second
    assert "number" not in cast("list[str]", take.parameters.get("required", []))


def test_binding_makes_fresh_objects_and_leaves_the_record_alone() -> None:
    made = with_parameter(dict[str, list[int]])
    arguments: dict[str, object] = {"x": {"a": [1]}}

    cast("dict[str, list[int]]", made.bind(arguments)["x"])["a"].append(2)

    assert arguments == {"x": {"a": [1]}}


FAULTS: dict[str, tuple[object, object, str]] = {
    "date": (date, "20261129", "`x`: input should be a valid date"),
    "date-with-time": (date, "2026-11-29T00:00:00", "`x`: input should be a valid date"),
    "uuid": (UUID, "no", "`x`: input should be a valid UUID"),
    "timedelta": (timedelta, "soon", "`x`: input should be a valid duration"),
    "nested": (list[Row], [{"qty": 0}], "`x.0.qty`: input should be greater than or equal to 1"),
    "strict-bool": (bool, "yes", "`x`: input should be a valid boolean"),
    "strict-int": (int, "3", "`x`: input should be a valid integer"),
    "unknown": (int, 3, ""),
}


@pytest.mark.parametrize(("annotation", "given", "wanted"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_bound_is_an_argument_fault_for_the_model(
    annotation: object, given: object, wanted: str
) -> None:
    arguments: dict[str, object] = {"x": given} if wanted else {"x": given, "y": 1}
    with pytest.raises(ArgumentFault) as caught:
        with_parameter(annotation).bind(arguments)

    assert str(caught.value).startswith(wanted or "`y`: extra inputs are not permitted")
    assert "got" in str(caught.value)


WEATHER: dict[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    },
    "required": ["city"],
}


def test_register_tool_takes_a_schema_by_hand() -> None:
    @register_tool(name="get-weather", description="Weather.", parameters_schema=WEATHER)
    def weather(city: str, unit: str) -> str:
        return f"{city} {unit}"

    assert (weather.name, weather.description, weather.effect) == (
        "get-weather",
        "Weather.",
        "unsafe",
    )
    assert weather.parameters == WEATHER
    assert called(weather, {"city": "上海"}) == "上海 celsius"
    assert weather.origin.startswith(f"{__file__}:")


def test_register_tool_reads_arguments_like_typed_tools() -> None:
    @register_tool("w", "Weather.", WEATHER, effect="read", group="mock", timeout_s=1)
    def weather(city: str, unit: str) -> str:
        return f"{city} {unit}"

    read = read_arguments(weather.parameters, '{"city": "上海", "unit": "Celsius"}')
    assert isinstance(read, Arguments)
    assert read.values == {"city": "上海", "unit": "celsius"}


def test_a_python_default_is_stronger_than_the_schemas() -> None:
    @register_tool("w", "Weather.", WEATHER)
    def weather(city: str, unit: str = "kelvin") -> str:
        return f"{city} {unit}"

    assert weather.bind({"city": "上海"}) == {"city": "上海"}


def test_what_the_function_needs_is_required_even_if_the_schema_forgot_it() -> None:
    @register_tool("add", "Adds.", {"properties": {"a": {}, "b": {}}})
    def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(ArgumentFault, match="`b` is required and missing"):
        add.bind({"a": 1})


def test_what_the_function_does_not_take_is_unknown_even_if_the_schema_is_open() -> None:
    @register_tool("add", "Adds.", {"properties": {"a": {}}, "additionalProperties": True})
    def add(a: int) -> int:
        return a

    with pytest.raises(ArgumentFault, match="`b` is unknown"):
        add.bind({"a": 1, "b": 2})


async def test_register_tool_injects_the_context(context: ToolContext) -> None:
    @register_tool("w", "Weather.", WEATHER)
    async def weather(ctx: ToolContext, **rest: object) -> object:
        return ctx.task.goal, rest

    bound = weather.bind({"city": "上海"})
    assert await weather.invoke(bound, context) == ("report", {"city": "上海", "unit": "celsius"})


def test_what_a_tool_does_to_its_arguments_does_not_reach_the_record() -> None:
    @register_tool("w", "d", {"properties": {"x": {"type": "array"}}})
    def drop(x: list[object]) -> None:
        x.clear()

    arguments: dict[str, object] = {"x": [1]}
    called(drop, arguments)
    assert arguments == {"x": [1]}


BAD_SCHEMAS: dict[str, tuple[dict[str, object], str]] = {
    "not-an-object": ({"type": "array"}, "type is 'array'"),
    "unknown-type": ({"properties": {"x": {"type": "text"}}}, r"wrong at \$\.properties\.x\.type"),
    "bad-pattern": ({"properties": {"x": {"pattern": "("}}}, "is not a 'regex'"),
    "remote-reference": (
        {"properties": {"x": {"$ref": "https://example.org/x.json"}}},
        "leads nowhere within the schema",
    ),
    "dead-reference": ({"properties": {"x": {"$ref": "#/$defs/Gone"}}}, "leads nowhere"),
    "no-json": ({"properties": {"x": {"default": object()}}}, "not plain JSON"),
    "unknown-parameter": ({"properties": {"x": {}, "y": {}}}, "schema lists 'y'"),
    "not-listed": ({"properties": {}}, "function needs 'x', which the schema does not list"),
}


@pytest.mark.parametrize(("schema", "match"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_a_bad_schema_is_refused_at_registration(schema: dict[str, object], match: str) -> None:
    def probe(x: object) -> object:
        return x

    with pytest.raises(ToolDefinitionError, match=match):
        register_tool("probe", "d", schema)(probe)


def test_a_bad_schema_names_no_tool_that_was_made() -> None:
    schema = dict(WEATHER)

    @register_tool("w", "Weather.", schema)
    def weather(city: str, unit: str) -> str:
        return f"{city} {unit}"

    schema["properties"] = {}
    assert weather.parameters["properties"] == WEATHER["properties"]


def test_a_misspelled_option_is_refused_with_the_right_word() -> None:
    with pytest.raises(ToolDefinitionError, match="requires_approval"):
        tool(requires_aproval=True)  # pyright: ignore[reportCallIssue]
