"""Laws of the Messages API: no cut changes a reply, no bytes crash, marks are at most four."""

import json
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.errors import ModelError
from hermes.models.anthropic_request import BodyBuilder
from hermes.models.anthropic_stream import AnthropicReader, read_whole
from hermes.models.base import ModelReply, ModelRequest, ReasoningDelta, TextDelta
from hermes.models.faults import Answer, Peer
from tests.providers.anthropic_server import as_stream, events, whole

PEER = Peer(model="m", host="api.example")
Object = dict[str, object]

# A zero byte is replaced on its way back: many servers stop at it.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
inputs = st.dictionaries(texts, texts | st.integers(-(2**53), 2**53), max_size=3)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts, "signature": texts}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": texts}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": texts, "name": texts, "input": inputs}
    ),
)
messages = st.lists(blocks, max_size=5).map(lambda found: whole({"content": found}))


def read(pieces: Sequence[bytes]) -> ModelReply:
    reader = AnthropicReader(PEER)
    parts = [part for piece in pieces for part in reader.feed(piece)]
    parts += reader.close(prompt=b"")
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == reply.text
    thoughts = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    assert "".join(thoughts.split()) == "".join(reply.reasoning.split())
    return reply


@given(
    message=messages,
    size=st.integers(1, 7),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    places=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_any_cut_of_a_stream_gives_the_message_that_was_written(
    message: Object, size: int, line_end: bytes, places: list[int]
) -> None:
    data = as_stream(events(message, size=size), line_end=line_end)
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    got = read([data[start:end] for start, end in zip(edges, edges[1:], strict=False)])

    body = json.dumps(message).encode()
    assert got == read_whole(Answer(status=200, kind="", body=body), PEER, prompt=b"")


@given(message=messages, place=st.integers(0, 10_000))
def test_a_stream_that_is_cut_off_is_never_a_reply(message: Object, place: int) -> None:
    data = as_stream(events(message))
    cut = data[: place % data.rindex(b"event: message_stop")]
    with pytest.raises(ModelError) as caught:
        read([cut])
    assert caught.value.code in {"stream", "bad_reply"}


@given(message=messages)
def test_what_was_read_goes_back_as_it_was(message: Object) -> None:
    content = cast("list[Object]", message["content"])
    for number, block in enumerate(content):
        if block["type"] == "tool_use":
            block |= {"id": f"toolu_{number}", "name": "look"}
    answer = Answer(status=200, kind="", body=json.dumps(message).encode())
    reply = read_whole(answer, PEER, prompt=b"")
    said = AssistantMessage(text=reply.text, calls=reply.calls, opaque=reply.opaque)
    results = [ToolMessage(call_id=call.id, name="look", text="x") for call in reply.calls]
    history: list[ChatMessage] = [UserMessage(text="a"), said, *results, UserMessage(text="b")]
    body = json.loads(BodyBuilder("m").build(ModelRequest(messages=history), stream=False))
    turns = cast("list[Object]", body["messages"])
    sent: object = turns[1]["content"] if turns[1:] else list[object]()

    def thoughts_of(found: object) -> list[Object]:
        kinds = ("thinking", "redacted_thinking")
        return [block for block in cast("list[Object]", found) if block["type"] in kinds]

    if reply.calls or reply.text.strip():
        assert thoughts_of(sent) == thoughts_of(content)
    if reply.opaque:
        written = [b for b in content if b["type"] != "text" or str(b["text"]).strip()]
        assert sent == (written if reply.calls or reply.text.strip() else [])


fragments = st.sampled_from(
    [
        b"data: ",
        b"\n\n",
        b'{"type":"message_start","message":{"content":[{"type":"text","text":7}],"usage":3}}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":4}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta"}}',
        b'{"type":"content_block_delta","index":"0","delta":[]}',
        b'{"type":"message_delta","delta":{"stop_reason":{}},"usage":[]}',
        b'{"type":"error","error":"x"}',
        b'{"type":"message_stop"}',
        b'{"type":[]}',
        b"\xff",
    ]
)


@given(st.lists(fragments | st.binary(max_size=20), max_size=20))
@example([b'data: {"type":"message_start","message":{"usage":{"input_tokens":NaN}}}'])
@example([b"[" * 3000])
def test_no_bytes_do_worse_than_a_model_error(pieces: list[bytes]) -> None:
    reader = AnthropicReader(PEER)
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.close(prompt=b"")
    except ModelError as exc:
        assert exc.code in {"stream", "bad_reply"}


turns = st.lists(
    st.one_of(
        texts.map(lambda text: UserMessage(text=text)),
        texts.map(lambda text: UserMessage(text=text, reminder=True)),
        texts.map(lambda text: SystemMessage(text=text)),
        st.builds(
            AssistantMessage,
            text=texts,
            calls=st.lists(
                st.builds(ToolCall, id=st.sampled_from("abc"), name=texts, arguments=texts),
                max_size=3,
            ).map(tuple),
        ),
        st.builds(ToolMessage, call_id=st.sampled_from("abc"), name=texts, text=texts),
    ),
    max_size=12,
)
TOOLS = (ToolSpec(name="look", description="", parameters={}),)


@given(history=turns, has_tools=st.booleans())
def test_any_history_becomes_a_request_that_the_api_takes(
    history: list[ChatMessage], has_tools: bool
) -> None:
    request = ModelRequest(messages=history, tools=TOOLS if has_tools else ())
    raw = BodyBuilder("m").build(request, stream=True)
    body = cast("dict[str, list[Object]]", json.loads(raw))

    assert raw.count(b'"cache_control":{"type":"ephemeral"}') <= 4
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    due: set[object] = set()
    for turn in body["messages"]:
        content = cast("list[Object]", turn["content"])
        assert content
        answered = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
        assert set(answered) == due
        assert len(answered) == len(due)
        kinds = [block["type"] for block in content]
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        assert all(str(b["text"]).strip() for b in content if b["type"] == "text")
        due = {block["id"] for block in content if block["type"] == "tool_use"}
        assert kinds.count("tool_use") == len(due)
        assert not due or body["tools"]
