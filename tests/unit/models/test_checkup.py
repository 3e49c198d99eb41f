import json
from collections.abc import AsyncGenerator, Mapping

import pytest

from hermes.core.chat import FinishReason, ToolCall, ToolMessage, UserMessage
from hermes.errors import ModelError
from hermes.models.base import ModelReply, ModelRequest, StreamPart, TextDelta
from hermes.models.checkup import Checkup, Finding
from hermes.models.profiles import JsonMode, Profile

ALL = frozenset(
    {"tools", "streamed tools", "demand", "json", "schema", "beside", "images", "pieces"}
)
CLEVER = Profile(
    name="m",
    tool_choice=True,
    json_mode="schema",
    json_with_tools=True,
    images=True,
    is_known=True,
)


class Able:
    """A model that can do what its abilities say, and whose server takes any request."""

    def __init__(self, changes: Mapping[str, object], abilities: frozenset[str]) -> None:
        self._changes, self._abilities = changes, abilities
        self.name = "m"

    async def reply(self, request: ModelRequest) -> ModelReply:
        return self._reply(request, "tools")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        reply = self._reply(request, "streamed tools")
        half = len(reply.text) // 2 if "pieces" in self._abilities else 0
        for text in filter(None, (reply.text[:half], reply.text[half:])):
            yield TextDelta(text=text)
        yield reply

    async def aclose(self) -> None:
        pass

    def _reply(self, request: ModelRequest, ability: str) -> ModelReply:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return _text("it is 42")
        assert isinstance(last, UserMessage)
        if request.tools and ability in self._abilities:
            asked = "17" in last.text or (not request.may_finish and "demand" in self._abilities)
            if asked and (request.output_schema is None or "beside" in self._abilities):
                call = ToolCall(id="", name="add", arguments='{"a": 17, "b": 25}')
                return _text("", call, finish="tool_calls")
        if request.output_schema is not None:
            return _text(self._structured(request))
        if last.images:
            return _text("Red." if "images" in self._abilities else "I see nothing.")
        return _text("hello")

    def _structured(self, request: ModelRequest) -> str:
        mode = self._changes.get("json_mode")
        if mode == "schema" and "schema" in self._abilities:
            properties = (request.output_schema or {})["properties"]
            held = {"colour": "red", "count": 1} if "colour" in str(properties) else {"answer": 5}
            return json.dumps(held)
        return '{"answer": 5}' if "json" in self._abilities else "Five."


def _text(text: str, *calls: ToolCall, finish: FinishReason = "stop") -> ModelReply:
    return ModelReply(text=text, calls=calls, finish_reason=finish, model="m-1")


async def check(profile: Profile, abilities: frozenset[str]) -> dict[str, Finding]:
    checkup = Checkup(profile, lambda changes: Able(changes, abilities))
    return {finding.name: finding async for finding in checkup.run()}


async def test_a_model_that_can_all_its_profile_claims_has_no_fault() -> None:
    found = await check(CLEVER, ALL)

    assert {finding.status for finding in found.values()} == {"works"}
    assert list(found) == [
        "plain",
        "stream",
        "tool call",
        "streamed tool call",
        "tool demanded",
        "JSON",
        "JSON schema",
        "JSON beside tools",
        "image",
    ]


@pytest.mark.parametrize(
    ("lacks", "fails", "hint"),
    [
        ("tools", "tool call", "native_tools = false"),
        ("streamed tools", "streamed tool call", "--no-stream"),
        ("demand", "tool demanded", "tool_choice = false"),
        ("schema", "JSON schema", "json_mode"),
        ("beside", "JSON beside tools", "json_with_tools = false"),
        ("images", "image", "images = false"),
    ],
)
async def test_what_is_claimed_and_fails_is_told_with_what_to_set(
    lacks: str, fails: str, hint: str
) -> None:
    found = await check(CLEVER, ALL - {lacks})

    faults = [finding for finding in found.values() if finding.is_fault]
    assert [finding.name for finding in faults] == [fails]
    assert hint in faults[0].hint


async def test_a_template_that_ignores_tools_is_recognised() -> None:
    found = await check(Profile(name="m"), frozenset())

    assert found["tool call"].text == "answers in text, does not call tools"
    assert "native_tools = false" in found["tool call"].hint
    assert found["streamed tool call"].status == "skipped"


async def test_what_fails_without_being_claimed_is_no_fault() -> None:
    found = await check(Profile(name="m", native_tools=False), frozenset())

    assert [finding.name for finding in found.values() if finding.is_fault] == []
    assert found["tool call"].status == "fails"


async def test_what_works_without_being_claimed_says_how_to_use_it() -> None:
    found = await check(Profile(name="m", native_tools=False), ALL)

    assert "native_tools = true" in found["tool call"].hint
    assert 'json_mode = "schema"' in found["JSON schema"].hint
    assert "images = true" in found["image"].hint


async def test_a_stream_in_one_piece_works_and_is_told() -> None:
    found = await check(CLEVER, ALL - {"pieces"})

    assert found["stream"].status == "works"
    assert "one piece" in found["stream"].text


@pytest.mark.parametrize("mode", ["none", "object"])
async def test_a_json_mode_is_asked_for_even_if_the_profile_knows_none(mode: JsonMode) -> None:
    found = await check(Profile(name="m", json_mode=mode), ALL - {"json"})

    assert found["JSON"].status == "fails"
    assert found["JSON"].is_fault == (mode == "object")


async def test_a_refused_plain_question_ends_the_checkup() -> None:
    asked: list[str] = []

    class Refusing(Able):
        async def reply(self, request: ModelRequest) -> ModelReply:
            asked.append("once")
            raise ModelError("host refused the key (401)", code="auth", hint="set API_KEY")

    checkup = Checkup(CLEVER, lambda changes: Refusing(changes, ALL))
    found = [finding async for finding in checkup.run()]

    assert (found[0].status, found[0].hint) == ("fails", "set API_KEY")
    assert {finding.status for finding in found[1:]} == {"skipped"}
    assert asked == ["once"]


async def test_an_error_in_one_check_is_that_check_s_alone() -> None:
    class Picky(Able):
        async def reply(self, request: ModelRequest) -> ModelReply:
            if request.tools:
                raise ModelError("tools are not supported (400)", code="bad_request")
            return await super().reply(request)

    checkup = Checkup(CLEVER, lambda changes: Picky(changes, ALL))
    found = {finding.name: finding async for finding in checkup.run()}

    assert found["tool call"].text == "tools are not supported (400)"
    assert "native_tools = false" in found["tool call"].hint
    assert found["JSON schema"].status == "works"


@pytest.mark.parametrize(("failures", "status"), [(1, "works"), (2, "fails")])
async def test_a_passing_failure_is_tried_once_more(failures: int, status: str) -> None:
    left = failures

    class Shaky(Able):
        async def reply(self, request: ModelRequest) -> ModelReply:
            nonlocal left
            if request.tools and left:
                left -= 1
                raise ModelError("the server hung up", code="unreachable", retryable=True)
            return await super().reply(request)

    checkup = Checkup(CLEVER, lambda changes: Shaky(changes, ALL), pause_s=0)
    found = {finding.name: finding async for finding in checkup.run()}

    assert found["tool call"].status == status
