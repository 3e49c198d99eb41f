import pytest

from hermes.errors import ModelError
from hermes.models.openai_calls import CallReader

Item = dict[str, object]


def item(
    arguments: object = None,
    *,
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
) -> Item:
    """One fragment with only the fields that are given."""
    function = {"name": name, "arguments": arguments}
    known = {"index": index, "id": id}
    return {
        **{key: value for key, value in known.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


def read(*chunks: list[Item] | Item) -> list[tuple[str, str, str]]:
    reader = CallReader()
    for chunk in chunks:
        reader.feed(chunk if isinstance(chunk, list) else [chunk])
    return [(call.id, call.name, call.arguments) for call in reader.close()]


TWO = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                item("", index=0, id="a", name="f"),
                item('{"x"', index=0),
                item("", index=1, id="b", name="g"),
                item(":1}", index=0),
                item('{"y":2}', index=1),
            ],
            id="as documented, interleaved",
        ),
        pytest.param(
            [
                item("", index=1, id="a", name="f"),
                item('{"x":1}', index=1),
                item("", index=2, id="b", name="g"),
                item('{"y":2}', index=2),
            ],
            id="counted from 1",
        ),
        pytest.param(
            [
                item('{"x":1}', index=0, id="a", name="f"),
                item('{"y"', index=0, id="b", name="g"),
                item(":2}", index=0),
            ],
            id="every call is number 0",
        ),
        pytest.param(
            [
                item(id="a", name="f"),
                item(id="b", name="g"),
                item('{"x"', id="a"),
                item('{"y":2}', id="b"),
                item(":1}", id="a"),
            ],
            id="no index, ids repeated",
        ),
        pytest.param(
            [
                item(id="a", name="f"),
                item(id="b", name="g"),
                item('{"x":1}', index=0),
                item('{"y"', index=1),
                item(":2}"),
            ],
            id="index only later, and the last piece has none",
        ),
        pytest.param(
            [item(id="a", name="f"), item('{"x"'), item(":1}"), item('{"y":2}', id="b", name="g")],
            id="one after the other, without index and id",
        ),
        pytest.param(
            [
                item('{"x"', index=0, id="a", name="f"),
                item(":1}", index=0, id="a", name="f"),
                item('{"y"', index=1, id="b", name="g"),
                item(":2}", index=1, id="b", name="g"),
            ],
            id="id and name in each chunk",
        ),
        pytest.param(
            [
                item('{"x"', index=0, id="a", name="f"),
                item(":1}", index=0, id="a2"),
                item('{"y"', index=1, id="b", name="g"),
                item(":2}", index=1, id="b2"),
            ],
            id="a new id for each chunk",
        ),
        pytest.param(
            [[item('{"x":1}', id="a", name="f"), item('{"y":2}', id="b", name="g")]],
            id="both whole in one chunk",
        ),
        pytest.param(
            [item({"x": 1}, id="a", name="f"), item({"y": 2}, id="b", name="g")],
            id="arguments as objects",
        ),
        pytest.param(
            [
                item("", index=0, id="a", name="f"),
                item('{"x":1}', index=0, id=""),
                item(index=0, id=""),
                item("", index=1, id="b", name="g"),
                item('{"y":2}', index=1, id=""),
                item(index=1, id=""),
            ],
            id="empty ids and an empty end, as Qwen sends them",
        ),
        pytest.param(
            [
                item("", index=3, id="a", name="f"),
                item('{"x"', index=0),
                item(":1}", index=0),
                item("", index=5, id="b", name="g"),
                item('{"y":2}', index=1),
            ],
            id="first the number of the tool, then that of the call, as SGLang sends them",
        ),
    ],
)
def test_two_calls_stay_two_calls(chunks: list[list[Item] | Item]) -> None:
    assert read(*chunks) == TWO


def test_calls_without_id_and_index_are_told_apart_by_name() -> None:
    assert read(item('{"x":1}', name="f"), item('{"y":2}', name="g")) == [
        ("", "f", '{"x":1}'),
        ("", "g", '{"y":2}'),
    ]


def test_the_same_tool_twice_without_id_and_index_is_two_calls() -> None:
    whole = read(item('{"x":1}', name="f"), item('{"x":2}', name="f"))
    assert whole == [("", "f", '{"x":1}'), ("", "f", '{"x":2}')]
    assert read([item("", name="f"), item("", name="f")]) == [("", "f", ""), ("", "f", "")]


def test_repeated_empty_ids_are_left_to_the_loop() -> None:
    calls = read([item("{}", index=n, id="", name="f") for n in range(3)])
    assert calls == [("", "f", "{}")] * 3


@pytest.mark.parametrize(
    ("pieces", "name"),
    [
        (["read", "_file"], "read_file"),
        (["read_file", "read_file"], "read_file"),
        (["read", "read_file"], "read_file"),
        (["read_file", ""], "read_file"),
    ],
)
def test_a_name_is_glued_only_where_it_was_cut(pieces: list[str], name: str) -> None:
    chunks = [item(index=0, name=piece) for piece in pieces]
    assert read(*chunks, item("{}", index=0)) == [("", name, "{}")]


def test_an_id_may_come_after_the_name() -> None:
    assert read(item(index=0, name="f"), item("{}", index=0, id="a")) == [("a", "f", "{}")]
    assert read(item(id="a"), item("{}", id="a", name="f")) == [("a", "f", "{}")]


def test_a_piece_that_fits_two_calls_is_an_error_that_names_them() -> None:
    with pytest.raises(ModelError, match="open are: 'f', 'g'; the piece is '{\"x\":1}'") as caught:
        read(item(id="a", name="f"), item(id="b", name="g"), item('{"x":1}'))
    assert (caught.value.code, caught.value.retryable) == ("stream", True)


def test_a_piece_without_any_call_is_an_error() -> None:
    with pytest.raises(ModelError, match="open are: none"):
        read(item('{"x":1}'))


def test_empty_items_are_nothing() -> None:
    assert read(item(), {"type": "function"}) == []


def test_a_begun_call_is_told_once() -> None:
    reader = CallReader()
    begun = [
        delta.name
        for chunk in (item(index=0, id="a", name="f"), item("{}", index=0, id="a", name="f"))
        for delta in reader.feed([chunk])
    ]
    assert begun == ["f"]
