"""Laws of reading replies: no way of cutting a stream changes the reply, and no bytes crash it."""

import json
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from hermes.core.chat import ToolCall, Usage
from hermes.errors import ModelError
from hermes.models.base import ModelReply, ReasoningDelta, TextDelta
from hermes.models.faults import Answer, Peer
from hermes.models.openai_stream import OpenAIReader, read_whole
from tests.providers.shapes import SHAPES, Reply

PEER = Peer(model="m", host="api.example")

texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.text("abc_", min_size=1, max_size=8)
arguments = st.dictionaries(texts, texts | st.integers(), max_size=3).map(json.dumps)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    wanted = draw(st.lists(st.tuples(names, arguments), max_size=3))
    return Reply(
        text=draw(texts.filter(lambda text: not text.lstrip().startswith("<"))),
        reasoning=draw(texts).strip(),
        calls=tuple((f"call_{n}", name, text) for n, (name, text) in enumerate(wanted)),
        finish="tool_calls" if wanted else "stop",
        prompt_tokens=draw(st.integers(1, 9999)),
        completion_tokens=draw(st.integers(1, 9999)),
        cached_tokens=0,
        model="m",
    )


def as_bytes(shape: str, reply: Reply, *, line_end: bytes) -> bytes:
    chunks = [json.dumps(chunk, ensure_ascii=False) for chunk in SHAPES[shape].chunks(reply)]
    stream = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()
    return (SHAPES[shape].before_chunks + stream).replace(b"\n", line_end)


def read(pieces: Sequence[bytes]) -> ModelReply:
    reader = OpenAIReader(PEER)
    parts = [part for piece in pieces for part in reader.feed(piece)]
    parts += reader.close(prompt=b"")
    reply = parts[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == reply.text
    thoughts = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    assert thoughts.strip() == reply.reasoning
    return reply


def cut_at(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    reply=replies(),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    places=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_any_cut_of_a_stream_gives_the_reply_that_was_written(
    shape: str, reply: Reply, line_end: bytes, places: list[int]
) -> None:
    got = read(cut_at(as_bytes(shape, reply, line_end=line_end), places))

    shows_reasoning = shape != "openai"
    assert got == ModelReply(
        text=reply.text,
        reasoning=reply.reasoning if shows_reasoning else "",
        calls=tuple(ToolCall(id=i, name=name, arguments=text) for i, name, text in reply.calls),
        finish_reason="tool_calls" if reply.calls else "stop",
        usage=Usage(prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens),
        model="m",
    )


@given(shape=st.sampled_from(sorted(SHAPES)), reply=replies())
def test_a_stream_and_a_whole_body_say_the_same(shape: str, reply: Reply) -> None:
    body = json.dumps(SHAPES[shape].whole(reply)).encode()
    whole = read_whole(Answer(status=200, kind="application/json", body=body), PEER, prompt=b"")

    assert whole == read([as_bytes(shape, reply, line_end=b"\n")])


def test_every_single_byte_may_come_alone() -> None:
    reply = Reply(
        text="霜 é 🥶",
        reasoning="想",
        calls=(("call_1", "f", '{"where": "霜é🥶"}'),),
        finish="tool_calls",
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        model="m",
    )
    for shape in SHAPES:
        data = as_bytes(shape, reply, line_end=b"\r\n")
        alone = read([data[place : place + 1] for place in range(len(data))])
        assert alone == read([data])
        assert (alone.text, alone.calls[0].arguments) == ("霜 é 🥶", '{"where": "霜é🥶"}')


fragments = st.sampled_from(
    [
        b"data: ",
        b"\n",
        b"\r\n",
        b"[DONE]",
        b'{"choices":[{"index":0,"delta":{"content":"a"}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"x"}}]}}]}',
        b'{"choices":[{"message":{"tool_calls":[3,null,{}]}}]}',
        b'{"choices":7,"usage":[],"error":0}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"error":[]}',
        b"\xff",
    ]
)


@given(st.lists(fragments | st.binary(max_size=20), max_size=20))
@example([b'data: {"choices":[{"delta":{"content":NaN}}]}'])
@example([b"[" * 3000])
@example([b'data: {"a":"\\ud800"' + b"[" * 3000])
def test_no_bytes_do_worse_than_a_model_error(pieces: list[bytes]) -> None:
    reader = OpenAIReader(PEER)
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.close(prompt=b"")
    except ModelError as exc:
        assert exc.code in {"stream", "bad_reply"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "delta", "content", "tool_calls", "function", "name", "id"]
                + ["arguments", "index", "usage", "prompt_tokens", "finish_reason", "type", "text"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(json_values)
def test_no_json_does_worse_than_a_model_error(value: object) -> None:
    body = json.dumps(value).encode()
    try:
        read_whole(Answer(status=200, kind="", body=body), PEER, prompt=b"")
    except ModelError as exc:
        assert exc.code in {"bad_reply", "server"}
