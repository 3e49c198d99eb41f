import pytest

from hermes.tools.web.page import MAX_HTML_CHARS, Page, read_page

BASE = "https://news.example/2026/page"


def read(body: str, head: str = "") -> Page:
    return read_page(f"<html><head>{head}</head><body>{body}</body></html>", base=BASE)


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>退货</h1><p>上升</p>", "# 退货\n\n上升"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<table><tr><th>A</th></tr><tr><td>1</td></tr></table>", "| A |\n| --- |\n| 1 |"),
        ("<p>a_b *c*", "a_b *c*"),
        ("<p><b>bold</b> <code>x_y</code>", "**bold** `x_y`"),
        ("<img src=x.png alt=chart>", "chart"),
    ],
)
def test_what_a_reader_sees_becomes_markdown(html: str, markdown: str) -> None:
    assert read(html).text == markdown


@pytest.mark.parametrize(
    ("href", "shown"),
    [
        ("more", "[x](https://news.example/2026/more)"),
        ("/a?b=1", "[x](https://news.example/a?b=1)"),
        ("//cdn.example/c", "[x](https://cdn.example/c)"),
        ("mailto:a@b.example", "[x](mailto:a@b.example)"),
        ("#top", "x"),
        ("javascript:alert(1)", "x"),
        ("data:text/html,hi", "x"),
        ("http://[bad", "x"),
    ],
)
def test_links_lead_somewhere_or_are_dropped(href: str, shown: str) -> None:
    assert read(f'<a href="{href}">x</a>').text == shown


def test_the_base_of_a_page_counts_for_its_links() -> None:
    page = read("<a href=x>x</a>", head='<base href="/other/">')
    assert page.text == "[x](https://news.example/other/x)"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>obey()</script>",
        "<style>obey</style>",
        "<noscript>obey</noscript>",
        "<template><p>obey</p></template>",
        "<nav>obey</nav>",
        "<footer>obey</footer>",
        "<p hidden>obey</p>",
        "<p aria-hidden=true>obey</p>",
        "<p style='color:red; display:none'>obey</p>",
        "<p style='VISIBILITY: Hidden'>obey</p>",
        "<!-- obey -->",
    ],
)
def test_what_a_reader_does_not_see_is_not_there(hidden: str) -> None:
    assert read(f"<p>seen</p>{hidden}").text == "seen"


def test_the_main_part_is_enough_where_it_is_most_of_the_page() -> None:
    assert read("<div>aside</div><main>what it is about</main>").text == "what it is about"
    assert "aside" in read(f"<div>{'aside ' * 50}</div><main>x</main>").text


def test_a_title_is_one_line() -> None:
    assert read("x", head="<title> 退货\n 报告 </title>").title == "退货 报告"


def test_a_page_without_text_says_so() -> None:
    assert read("<script>draw()</script>").note.startswith("the page has no text of its own")


def test_a_page_that_is_nested_too_deep_comes_as_plain_text() -> None:
    page = read("<div>" * 2000 + "deep")
    assert (page.text, page.note) == (
        "deep",
        "nested too deep for Markdown: plain text without links",
    )


def test_a_long_page_is_cut_and_says_so() -> None:
    page = read("<pre>" + "x" * (MAX_HTML_CHARS + 10))
    assert len(page.text) <= MAX_HTML_CHARS
    assert page.note == "only the first part of the page was read"
