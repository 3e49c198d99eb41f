"""Quirks of providers through a whole run: each ends as the reports from the field demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import cast

import anyio
import pytest

from hermes import Agent, Hermes, Limits, tool
from hermes.app import RunOptions
from hermes.core.request import AgentResponse
from hermes.models import OpenAIModel
from tests.providers.quirks import (
    EVENTS,
    MODEL,
    Quirk,
    QuirkServer,
    Wire,
    chunk,
    events,
    told,
    whole,
)
from tests.providers.quirks_calls import CALLS
from tests.providers.quirks_errors import ERRORS
from tests.providers.quirks_text import DIALECTS, TEXTS
from tests.providers.quirks_usage import USAGES
from tests.providers.quirks_wire import WIRES

FORMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
NAMED = {quirk.name: quirk for quirk in [*CALLS, *TEXTS, *USAGES, *WIRES, *ERRORS]}
DONE = Quirk(
    name="the end",
    source="",
    whole=whole({"content": "Done."}),
    stream=told({"content": "Done."}),
    demand=NAMED["R021 an empty final message"].demand,
)


class Tools:
    """Tools that remember what they were called with."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def all(self) -> list[object]:
        @tool(effect="read")
        async def weather(city: str) -> str:
            """Tell the weather of a city."""
            self.ran.append(("weather", city))
            return f"cold in {city}"

        @tool(effect="read")
        async def list_rooms() -> str:
            """List the rooms."""
            self.ran.append(("list_rooms", ""))
            return "one"

        @tool(effect="read")
        async def read_file(path: str) -> str:
            """Read a file."""
            self.ran.append(("read_file", path))
            return "text"

        return [weather, list_rooms, read_file]


class Run:
    """One run against a server that plays quirks in turn."""

    def __init__(self, response: AgentResponse, ran: list[tuple[str, str]], server: QuirkServer):
        self.response, self.ran = response, ran
        self.requests = server.requests

    def messages(self, place: int) -> list[dict[str, object]]:
        return cast("list[dict[str, object]]", self.requests[place]["messages"])

    def asked(self, place: int) -> list[dict[str, object]]:
        """The calls that the request number `place` gives back, each with its result's text."""
        messages = self.messages(place)
        results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
        calls = [
            call
            for message in messages
            for call in cast("list[dict[str, object]]", message.get("tool_calls") or [])
        ]
        return [{**call, "result": results[call["id"]]} for call in calls]


async def play(quirks: Sequence[Quirk], *, stream: bool, limits: Limits | None = None) -> Run:
    tools = Tools()
    wires = [quirk.wire(stream=stream) for quirk in quirks]
    async with QuirkServer(wires) as server:
        model = OpenAIModel(MODEL, base_url=server.url, timeout_s=20)
        agent = Agent(tools=tools.all(), model=model, limits=limits)  # pyright: ignore[reportArgumentType]  # tools of several signatures
        async with Hermes("memory://") as app:
            response = await app.run(agent, "go", options=RunOptions(stream=stream))
        await model.aclose()
        return Run(response, tools.ran, server)


@pytest.mark.parametrize(
    "name",
    [
        "R011 two calls in turn without index",
        "R011 two calls in one chunk without index",
        "R011 some fragments with index, some without",
        "R011 Ollama: every call has index 0",
        "R011 the index counts from 1",
        "Mistral: calls whole in the chunk that finishes",
    ],
)
@FORMS
async def test_two_calls_are_two_calls(name: str, stream: bool) -> None:
    run = await play([NAMED[name], DONE], stream=stream)

    assert (run.response.status, run.response.output) == ("succeeded", "Done.")
    assert sorted(run.ran) == [("weather", "Rome"), ("weather", "北京")]
    assert [(call["id"], call["result"]) for call in run.asked(1)] == [
        ("call_a", "cold in 北京"),
        ("call_b", "cold in Rome"),
    ]


@pytest.mark.parametrize("name", ["R010 three calls with empty ids", "R010 the same id twice"])
@FORMS
async def test_ids_are_made_unique_and_results_keep_their_order(name: str, stream: bool) -> None:
    run = await play([NAMED[name], DONE], stream=stream)

    assert run.response.output == "Done."
    ids = [call["id"] for call in run.asked(1)]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [m["tool_call_id"] for m in run.messages(1) if m["role"] == "tool"] == ids


@pytest.mark.parametrize(
    "name", ["R001 arguments null", "R001 arguments missing", "R001 arguments empty"]
)
@FORMS
async def test_no_arguments_are_an_empty_object(name: str, stream: bool) -> None:
    run = await play([NAMED[name], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [("list_rooms", "")])
    function = cast("dict[str, object]", run.asked(1)[0]["function"])
    assert function["arguments"] == "{}"


@FORMS
async def test_arguments_encoded_twice_are_read_once(stream: bool) -> None:
    run = await play([NAMED["R003 arguments encoded twice"], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [("weather", "Rome")])


@FORMS
async def test_arguments_as_an_object_are_read(stream: bool) -> None:
    run = await play([NAMED["llama.cpp: arguments as an object"], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [("weather", "北京")])


@FORMS
async def test_a_reply_cut_in_the_middle_of_a_call_runs_nothing(stream: bool) -> None:
    name = "R008 the output limit in the middle of a call"
    run = await play([NAMED[name], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [])
    assert "limit" in str(run.messages(1)[-1]["content"])


@FORMS
async def test_an_unknown_tool_is_answered_with_the_names_there_are(stream: bool) -> None:
    run = await play([NAMED["R009 a tool that does not exist"], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [])
    assert "read_file" in str(run.asked(1)[0]["result"])


@FORMS
async def test_stop_with_a_call_runs_the_call(stream: bool) -> None:
    run = await play([NAMED["R013 Gemini: stop together with a call"], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [("weather", "北京")])


@FORMS
async def test_tool_calls_without_any_is_an_unfinished_turn(stream: bool) -> None:
    name = "R013 tool_calls with an empty list and no text"
    run = await play([NAMED[name], DONE], stream=stream)

    assert (run.response.status, run.response.output) == ("succeeded", "Done.")
    assert len(run.requests) == 2


@pytest.mark.parametrize(
    "name", ["R013 the finish reason is missing", "R013 the finish reason is an unknown word"]
)
@FORMS
async def test_a_finish_reason_nobody_knows_is_no_matter(name: str, stream: bool) -> None:
    run = await play([NAMED[name]], stream=stream)

    assert (run.response.status, run.response.output) == ("succeeded", "Hi.")


@pytest.mark.parametrize(
    "name",
    ["R013 OpenAI: content_filter", "Zhipu: sensitive", "OpenAI: a refusal in its own field"],
)
@FORMS
async def test_filtered_content_has_a_status_of_its_own(name: str, stream: bool) -> None:
    run = await play([NAMED[name]], stream=stream)

    assert run.response.status in ("failed", "partial")
    assert run.response.error is not None
    assert run.response.error.code == "content_filter"


@pytest.mark.parametrize("dialect", DIALECTS)
@FORMS
async def test_a_call_in_the_text_is_never_the_answer(dialect: str, stream: bool) -> None:
    run = await play([NAMED[f"R014 {dialect}"], DONE], stream=stream)

    assert (run.response.output, run.ran) == ("Done.", [("read_file", "a.md")])


@FORMS
async def test_a_call_in_the_reasoning_is_never_run(stream: bool) -> None:
    run = await play([NAMED["R014 a call inside the reasoning"]], stream=stream)

    assert (run.response.status, run.response.output, run.ran) == ("succeeded", "Empty.", [])


@pytest.mark.parametrize("name", ["R021 an empty final message", "R021 null for a final message"])
@FORMS
async def test_an_empty_message_is_asked_for_once_more(name: str, stream: bool) -> None:
    repaired = await play([NAMED[name], DONE], stream=stream)
    empty = await play([NAMED[name]], stream=stream)

    assert repaired.response.output == "Done."
    assert len(empty.requests) == 2
    assert empty.response.status != "succeeded"
    assert empty.response.error is not None
    assert empty.response.error.code == "no_answer"


@pytest.mark.parametrize(
    "name", ["R015 usage null", "R015 figures null", "R015 no usage at all", "zeros for figures"]
)
@FORMS
async def test_missing_figures_are_estimated_and_the_run_goes_on(name: str, stream: bool) -> None:
    run = await play([NAMED[name]], stream=stream)

    assert run.response.output == "Hi."
    assert run.response.usage.estimated
    assert run.response.usage.prompt_tokens > 0


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": None, "completion_tokens": None}])
@FORMS
async def test_a_token_budget_bites_without_figures(
    usage: dict[str, object] | None, stream: bool
) -> None:
    city = "x" * 4000
    arguments = '{"city":"%s"}'
    calls = [
        Quirk(
            name="",
            source="",
            demand=DONE.demand,
            whole=whole(_call(arguments % (city + str(turn))), "tool_calls", usage=usage),
            stream=told(
                _call(arguments % (city + str(turn)), index=0), finish="tool_calls", usage=usage
            ),
        )
        for turn in range(9)
    ]
    run = await play(calls, stream=stream, limits=Limits(max_tokens=20_000))

    assert run.response.status != "succeeded"
    assert len(run.requests) < 9


def _call(arguments: str, **more: object) -> dict[str, object]:
    function = {"name": "weather", "arguments": arguments}
    return {"tool_calls": [{"id": "c", "type": "function", "function": function, **more}]}


@pytest.mark.parametrize(
    "name", ["R059 an error event, then [DONE]", "R059 an error without data:", "FastAPI: detail"]
)
@FORMS
async def test_an_error_inside_an_answer_fails_the_run_with_its_words(
    name: str, stream: bool
) -> None:
    run = await play([NAMED[name]], stream=stream)

    # What had come is kept, and it is no success.
    assert run.response.status == "failed"
    assert run.response.output == ("two chunks" if stream else None)
    assert run.response.error is not None
    assert "quota exceeded" in run.response.error.message


async def test_no_key_is_asked_for_and_none_is_sent() -> None:
    async with QuirkServer([DONE.whole]) as server:
        async with Hermes("memory://") as app:
            model = OpenAIModel(MODEL, base_url=server.url)
            response = await app.run(Agent(model=model), "go")
            await model.aclose()

        assert response.output == "Done."  # R084
        assert not {"authorization", "x-api-key", "api-key"} & set(server.headers[0])


QUIET = b": keep-alive\n\n" * 4
HI = events(chunk({"role": "assistant", "content": "Hi."}), chunk({}, "stop"))


async def run_quietly(wire: Wire, *, timeout_s: float) -> AgentResponse:
    async with QuirkServer([wire]) as server:
        model = OpenAIModel(MODEL, base_url=server.url, timeout_s=timeout_s)
        async with Hermes("memory://") as app:
            options = RunOptions(stream=True)
            response = await app.run(Agent(model=model), "go", options=options)
        await model.aclose()
        return response


async def test_comments_keep_a_quiet_stream_alive_past_the_timeout() -> None:
    body = QUIET * 2 + HI
    wire = Wire(body=body, kind=EVENTS, size=len(QUIET) // 4, pause_s=0.1)
    begun = time.monotonic()
    response = await run_quietly(wire, timeout_s=0.8)

    assert response.output == "Hi."  # R058
    assert time.monotonic() - begun > 0.8


async def test_a_silence_within_the_timeout_is_no_fault() -> None:
    response = await run_quietly(
        Wire(body=HI, kind=EVENTS, size=len(HI) // 2 + 1, pause_s=0.5), timeout_s=5
    )

    assert response.output == "Hi."


@pytest.mark.parametrize("wire", [{"held": True}, {"cut": True}], ids=["silence", "a cut line"])
async def test_an_idle_line_that_is_cut_is_an_error_and_no_cancel(wire: dict[str, bool]) -> None:
    half = events(chunk({"role": "assistant", "content": "Half"}), done=False)
    response = await run_quietly(
        Wire(body=half, kind=EVENTS, held=wire.get("held", False), cut=wire.get("cut", False)),
        timeout_s=0.3,
    )

    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code != "cancelled"


async def test_a_blocking_tool_holds_up_neither_another_stream_nor_its_own_cancel() -> None:
    began, slept = threading.Event(), 3.0

    @tool(effect="read")
    def sleep() -> str:
        """Sleep."""
        began.set()
        time.sleep(slept)
        return "slept"

    calling = whole({"tool_calls": [{"id": "c", "function": {"name": "sleep", "arguments": "{}"}}]})
    pieces = [chunk({"role": "assistant", "content": "a"}), *[chunk({"content": "b"})] * 4]
    flowing = events(*pieces, chunk({}, "stop"))
    size = len(events(pieces[1], done=False))
    async with (
        QuirkServer([calling]) as blocked,
        QuirkServer([Wire(body=flowing, kind=EVENTS, size=size, pause_s=0.05)]) as other,
        Hermes("memory://") as app,
    ):
        first = OpenAIModel(MODEL, base_url=blocked.url)
        second = OpenAIModel(MODEL, base_url=other.url)
        task_id = await app.submit(Agent(tools=[sleep], model=first), "go")
        begun = time.monotonic()
        async with anyio.create_task_group() as group:

            async def carry() -> None:
                response = await app.resume(task_id, Agent(tools=[sleep], model=first))
                assert response.status == "cancelled"

            group.start_soon(carry)
            await anyio.to_thread.run_sync(began.wait, 10)
            assert began.is_set()
            response = await app.run(Agent(model=second), "hi", options=RunOptions(stream=True))
            assert response.output == "abbbb"
            await app.cancel(task_id)
            assert time.monotonic() - begun < slept
        await first.aclose()
        await second.aclose()
