"""An HTML page as Markdown: what a reader would see of it.

As a program it reads `{"html", "base"}` on stdin and writes `{"title", "text", "note"}`: some pages
keep a parser busy for minutes or take gigabytes, and a process can be ended.
"""

from __future__ import annotations

import re
import resource
import sys
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from markdownify import markdownify
from selectolax.lexbor import LexborHTMLParser, LexborNode

from hermes.core import json

MAX_HTML_CHARS = 300_000
"""Of a page without what is dropped: beyond, turning it into Markdown would take too long."""

_MAX_TEXT_CHARS = 300_000
_MAX_MEMORY_BYTES = 2 * 1024**3

_DROPPED = (
    "script, style, noscript, template, iframe, object, embed, svg, canvas, nav, footer, form, "
    "button, dialog, [hidden], [aria-hidden=true], [role=navigation]"
)
_MAIN = ("main", "[role=main]", "article")
_MAIN_SHARE = 0.3  # of the page's text; less than that is not what the page is about
_LINKS = ("http", "https", "mailto")
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_FIRST_PART = "only the first part of the page was read"
_TOO_DEEP = "nested too deep for Markdown: plain text without links"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page says.

    Attributes:
        note: What the text lacks; "" if nothing.
    """

    title: str
    text: str
    note: str = ""


def read_page(html: str, *, base: str) -> Page:
    """Read a page.

    Args:
        html: Whole or cut.
        base: Its address, for the links in it.
    """
    tree = LexborHTMLParser(html)
    title = _line(tree.css_first("title"))
    own_base = tree.css_first("base[href]")
    if own_base is not None:
        base = _joined(base, own_base.attributes.get("href") or "") or base
    for node in tree.css(_DROPPED):
        node.remove()
    for node in tree.css("[style]"):
        if _UNSEEN.search(node.attributes.get("style") or ""):
            node.remove()
    body = _main(tree)
    if body is None:
        return Page(title=title, text="", note="the page is empty")
    _mend_links(body, base)
    whole = body.html or ""
    note = _FIRST_PART if len(whole) > MAX_HTML_CHARS else ""
    try:
        text = markdownify(
            whole[:MAX_HTML_CHARS],
            heading_style="ATX",
            bullets="-",
            escape_asterisks=False,
            escape_underscores=False,
        )
    except RecursionError:
        text, note = body.text(separator="\n", strip=True), _TOO_DEEP
    text = _BLANK.sub("\n\n", text).strip()
    if len(text) > _MAX_TEXT_CHARS:
        text, note = text[:_MAX_TEXT_CHARS], _FIRST_PART
    if not text:
        note = "the page has no text of its own; scripts may draw it"
    return Page(title=title, text=text, note=note)


def _main(tree: LexborHTMLParser) -> LexborNode | None:
    """The part that the page is about, if it says so and has most of the text."""
    body = tree.body
    if body is None:
        return None
    whole = len(body.text())
    for selector in _MAIN:
        found = tree.css(selector)
        if len(found) == 1 and len(found[0].text()) >= whole * _MAIN_SHARE:
            return found[0]
    return body


def _mend_links(body: LexborNode, base: str) -> None:
    """Make links absolute; drop those that lead nowhere, and pictures, of which the text stays."""
    for link in body.css("a[href]"):
        target = _joined(base, link.attributes.get("href") or "")
        if target:
            link.attrs["href"] = target
        else:
            del link.attrs["href"]
    for image in body.css("img"):
        image.replace_with(image.attributes.get("alt") or "")


def _joined(base: str, href: str) -> str:
    href = href.strip()
    if href.startswith("#"):
        return ""
    try:
        target = urljoin(base, href)
        return target if urlsplit(target).scheme in _LINKS else ""
    except ValueError:
        return ""


def _line(node: LexborNode | None) -> str:
    return " ".join(node.text().split())[:300] if node is not None else ""


def main() -> None:
    """Read one page, within bounds of memory."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    given = json.as_object(json.loads(sys.stdin.buffer.read())) or {}
    page = read_page(str(given["html"]), base=str(given["base"]))
    told = {"title": page.title, "text": page.text, "note": page.note}
    sys.stdout.buffer.write(json.encode(told))


if __name__ == "__main__":
    main()
