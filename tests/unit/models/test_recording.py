"""What was recorded is played again without a network, and no secret gets onto a cassette."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.config import Settings
from hermes.core.chat import AssistantMessage, Image, ToolCall, ToolMessage, ToolSpec, UserMessage
from hermes.errors import ConfigError, ModelError
from hermes.models import ModelReply, ModelRequest
from hermes.models.recording import Cassette, RecordingModel, ReplayingModel, difference

from .wrapping import HELLO, Server, raising, streamed

KEY = "cr0ss-my-heart-2718"
FULL = ModelReply(
    text="see",
    reasoning="hm",
    calls=(ToolCall(id="c1", name="look", arguments='{"where":"霜"}'),),
    finish_reason="tool_calls",
    model="m-1",
    opaque={"anthropic": [{"signature": "abc"}]},
)


def asking(*texts: str) -> ModelRequest:
    return ModelRequest(messages=[UserMessage(text=text) for text in texts])


async def record(path: Path, *requests: ModelRequest, secrets: tuple[str, ...] = ()) -> None:
    """Each is answered by its number."""
    server = Server(lambda number: ModelReply(text=f"answer {number}"))
    model = RecordingModel(server, cassette=Cassette(path, secrets=secrets))
    for request in requests:
        await model.reply(request)


def replaying(path: Path) -> ReplayingModel:
    return ReplayingModel(Server(raising(ModelError("asked", code="x"))), cassette=Cassette(path))


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_reply_comes_back_whole(tmp_path: Path, *, is_streamed: bool) -> None:
    path = tmp_path / "new" / "c.jsonl"
    recorder = RecordingModel(Server(lambda _: FULL), cassette=Cassette(path))
    if is_streamed:
        await streamed(recorder)
        assert (await streamed(replaying(path)))[-1] == FULL
    else:
        assert await recorder.reply(HELLO) == FULL
        assert await replaying(path).reply(HELLO) == FULL


async def test_the_same_request_gets_its_replies_in_order(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await record(path, asking("a"), asking("b"), asking("a"))
    model = replaying(path)
    said = [(await model.reply(asking(text))).text for text in "baa"]
    assert said == ["answer 2", "answer 1", "answer 3"]
    with pytest.raises(ModelError, match="all its 3 replies were played"):
        await model.reply(asking("a"))


async def test_what_is_asked_otherwise_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await record(path, asking("one"), asking("one", "two of them"))
    model = replaying(path)
    await model.reply(asking("one"))
    with pytest.raises(ModelError) as caught:
        await model.reply(asking("one", "two or more"))
    assert caught.value.message == (
        f"cassette {path} has no reply to request 2 of model 'served': "
        "`messages[1].text` is 'two or more', recorded was 'two of them'"
    )
    assert (caught.value.code, caught.value.retryable) == ("cassette", False)


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "`b` is 2, recorded was null"),
        ({"a": [1]}, {"a": [1, 2]}, "`a` has 2 items, 1 were recorded"),
        ({"a": "x" * 200 + "y"}, {"a": "x" * 200 + "z"}, "'xxxxxxxxxxxxxxxxxxxxz', recorded"),
        ({"a": 1}, {"a": 1}, ""),
    ],
)
def test_the_first_difference_is_named(then: object, now: object, said: str) -> None:
    assert said in difference(then, now)


@pytest.mark.parametrize(
    "other",
    [
        ModelRequest(
            messages=HELLO.messages, tools=(ToolSpec(name="t", description="", parameters={}),)
        ),
        ModelRequest(messages=HELLO.messages, output_schema={"type": "object"}),
        ModelRequest(messages=HELLO.messages, may_finish=False),
        ModelRequest(
            messages=[UserMessage(text="hello", images=(Image(media_type="image/png", data=b"1"),))]
        ),
        ModelRequest(messages=[*HELLO.messages, AssistantMessage(text="hm")]),
        ModelRequest(messages=[*HELLO.messages, ToolMessage(call_id="1", name="t", text="x")]),
    ],
    ids=["tools", "schema", "may finish", "image", "assistant", "result"],
)
async def test_all_that_is_sent_counts(tmp_path: Path, other: ModelRequest) -> None:
    path = tmp_path / "c.jsonl"
    await record(path, HELLO)
    with pytest.raises(ModelError, match="has no reply"):
        await replaying(path).reply(other)


async def test_no_secret_gets_onto_a_cassette(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "api_key": KEY,
            "smtp_url": "smtp://me:mail-passw0rd@mail.test:25",
            "tool_databases": {"shop": "postgresql://u:db-passw0rd@db/shop"},
            "notify_channels": {"ops": {"kind": "webhook", "url": "https://h.test/T0KEN-IN-URL"}},
            "model_cassette": str(tmp_path / "c.jsonl"),
        }
    )
    options = settings.chain_options
    leaks = [
        KEY,
        "mail-passw0rd",
        "db-passw0rd",
        "https://h.test/T0KEN-IN-URL",
        "sk-abcdefgh12345678",
        "eyJhbGciOiJIUzI1NiJ9.x",
    ]
    said = [
        *(f"it is {leak}" for leak in leaks[:5]),
        f"Authorization: Bearer {leaks[5]}",
    ]
    reply = ModelReply(
        text=f"I use {KEY}", calls=(ToolCall(id="1", name="t", arguments=f'"{KEY}"'),)
    )
    assert options.cassette is not None
    cassette = Cassette(options.cassette, secrets=options.secrets)
    await RecordingModel(Server(lambda _: reply), cassette=cassette).reply(asking(*said))
    written = options.cassette.read_text()
    assert [leak for leak in leaks if leak in written] == []
    assert options.cassette.stat().st_mode & 0o077 == 0
    assert KEY not in repr(options)
    player = ReplayingModel(Server(), cassette=Cassette(options.cassette, secrets=options.secrets))
    assert (await player.reply(asking(*said))).text == "I use ***"


async def test_a_request_differs_not_by_the_key(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    await record(path, asking(f"key {KEY}"), secrets=(KEY,))
    another = Cassette(path, secrets=("another-key",))
    model = ReplayingModel(Server(), cassette=another)
    assert (await model.reply(asking("key another-key"))).text == "answer 1"


def test_prose_is_no_key() -> None:
    cassette = Cassette(Path("c"))
    text = "basic understanding, a key-value-oriented-storage, bearer of bad news 42"
    assert cassette._scrubber.clean(text) == text  # pyright: ignore[reportPrivateUsage]  # its one door writes files


async def test_a_missing_or_broken_cassette_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        await replaying(tmp_path / "none.jsonl").reply(HELLO)
    path = tmp_path / "c.jsonl"
    await record(path, HELLO)
    path.write_bytes(path.read_bytes() + b'{"asked": {}}\n')
    with pytest.raises(ConfigError, match=r"line 2: no reply of a model: .*record anew"):
        await replaying(path).reply(HELLO)
    path.write_bytes(b"no JSON \xff\n" + path.read_bytes())
    with pytest.raises(ConfigError, match=r"c\.jsonl, line 1: not JSON.* \(take that line out"):
        await replaying(path).reply(HELLO)


async def test_a_last_line_that_was_not_written_to_its_end_is_left_out_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "talk.jsonl"
    await record(path, asking("one"), asking("two"), asking("three"))
    path.write_bytes(path.read_bytes()[:-40])
    model = replaying(path)
    assert (await model.reply(asking("one"))).text == "answer 1"
    assert (await model.reply(asking("two"))).text == "answer 2"
    with pytest.raises(ModelError, match="all its 2 replies were played"):
        await model.reply(asking("three"))
    [told] = caplog.records
    assert (told.levelname, str(path) in told.message) == ("WARNING", True)
    assert "line 3, the last, was not written to its end" in told.message


async def test_a_last_line_that_only_lacks_its_newline_is_played(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    await record(path, asking("one"))
    path.write_bytes(path.read_bytes().rstrip())
    assert (await replaying(path).reply(asking("one"))).text == "answer 1"


async def test_a_line_that_a_dying_process_left_half_written_spoils_no_later_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "talk.jsonl"
    await record(path, asking("one"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    await record(path, asking("two"))

    model = replaying(path)
    assert (await model.reply(asking("one"))).text
    assert (await model.reply(asking("two"))).text
