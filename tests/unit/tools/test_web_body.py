import codecs
import tracemalloc
import zlib

import pytest

from hermes.tools.web.body import Body, decode, is_json, is_text

TEXT = "退货率上升"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (TEXT.encode(), "text/html; charset=utf-8"),
        (TEXT.encode(), "text/html"),
        (TEXT.encode("gbk"), "text/html; charset=GB2312"),
        (TEXT.encode("gb18030"), 'text/html; charset="gb18030"'),
        (TEXT.encode("gbk"), "text/plain"),
        (TEXT.encode("big5", "ignore"), "text/plain; charset=big5"),
        (codecs.BOM_UTF8 + TEXT.encode(), "text/html; charset=gbk"),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "text/plain"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "text/plain"),
    ],
)
def test_a_body_is_read_in_the_encoding_that_it_has(raw: bytes, kind: str) -> None:
    assert decode(raw, kind) in (TEXT, TEXT.encode("big5", "ignore").decode("big5"))


@pytest.mark.parametrize("meta", ['<meta charset="gbk">', "<meta content='x; charset=gb2312'>"])
def test_a_page_may_say_it_itself(meta: str) -> None:
    page = f"<html><head>{meta}</head><body>{TEXT}"
    assert decode(page.encode("gbk"), "text/html") == page


def test_the_header_counts_more_than_the_page() -> None:
    page = f"<meta charset=gbk>{TEXT}"
    assert decode(page.encode(), "text/html; charset=utf-8") == page


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_text_that_ends_within_a_character_keeps_the_rest(encoding: str) -> None:
    assert decode(TEXT.encode(encoding)[:-1], "text/plain").startswith(TEXT[:-1])


@pytest.mark.parametrize("name", ["base64", "idna", "punycode", "unicode_escape", "rot13", "x"])
def test_an_encoding_that_no_page_is_written_in_is_passed_over(name: str) -> None:
    assert decode(TEXT.encode(), f"text/html; charset={name}") == TEXT


def test_bytes_in_no_encoding_are_still_text() -> None:
    assert decode(b"a\xff\xffb", "text/plain") == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        ("text/html; charset=gbk", b"", True),
        ("application/problem+json", b"", True),
        ("image/svg+xml", b"", True),
        ("application/json", b"", True),
        ("", b"words", True),
        ("", b"\x89PNG\0", False),
        ("application/octet-stream", b"words", True),
        ("image/png", b"words", False),
        ("application/pdf", b"%PDF", False),
    ],
)
def test_text_is_told_from_the_rest(kind: str, raw: bytes, expected: bool) -> None:
    assert is_text(kind, raw) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("application/json; charset=x", True), ("a/b+json", True), ("text/plain", False)],
)
def test_json_says_that_it_is(kind: str, expected: bool) -> None:
    assert is_json(kind) is expected


def test_unpacking_takes_no_more_memory_than_is_wanted() -> None:
    bomb = zlib.compress(b"0" * 30_000_000)
    body = Body(10_000, encoding="deflate")
    tracemalloc.start()
    try:
        assert body.add(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert (len(body.content), body.cut) == (10_000, "only the first 10000 bytes were read")


def test_raw_bytes_that_unpack_to_nothing_have_an_end_too() -> None:
    empty_block = b"\0\0\0\xff\xff"
    body = Body(1_000, encoding="deflate")
    body.add(zlib.compress(b"")[:2])
    assert not body.add(empty_block * 190)
    assert body.add(empty_block * 10)
    assert body.content == b""
