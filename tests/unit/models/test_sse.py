import pytest

from hermes.models.sse import Event, EventReader


def read(data: bytes, *, size: int | None = None) -> list[Event]:
    reader = EventReader()
    step = size or len(data)
    events = [
        event for start in range(0, len(data), step) for event in reader.feed(data[start:][:step])
    ]
    return events + reader.close()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\ndata:b\n\n", [b"a", b"b"], id="with and without space"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="several lines"),
        pytest.param(b": ping\n\n:\n\ndata: a\n\n", [b"a"], id="comments"),
        pytest.param(b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b"data: a\n", [b"a"], id="no blank line at the end"),
        pytest.param(b"data: a", [b"a"], id="no line end at the end"),
        pytest.param(b"data\n\n", [b""], id="no colon"),
        pytest.param("data: 霜\u2028é\n\n".encode(), ["霜\u2028é".encode()], id="odd separators"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_events_come_out_however_the_bytes_are_cut(stream: bytes, expected: list[bytes]) -> None:
    for size in range(1, len(stream) + 1):
        assert [event.data for event in read(stream, size=size)] == expected


def test_lines_without_a_field_are_a_body_of_their_own() -> None:
    events = read(b'{\n "error": {\n  "message": "no"\n }\n}\n')
    assert events == [Event(data=b'{\n "error": {\n  "message": "no"\n }\n}', is_bare=True)]


def test_a_bare_body_ends_where_data_begins() -> None:
    events = read(b'data: 1\n\n{"error": 2}\ndata: [DONE]\n\n')
    assert [(event.data, event.is_bare) for event in events] == [
        (b"1", False),
        (b'{"error": 2}', True),
        (b"[DONE]", False),
    ]
