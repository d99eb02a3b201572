"""Pages whose main element a source names by a CSS selector (`content`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from rag_assay.assets.cleaning.article import date_guess_options, find_date, page_metadata
from rag_assay.assets.cleaning.code_blocks import code_of, without_numbers
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.page_facts import page_facts
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy
from rag_assay.warehouse.pages import decode

_SKIPPED = frozenset(
    "button canvas head iframe input nav noscript object script select style svg template textarea".split()  # noqa: SIM905 -- readable
)
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure "  # noqa: SIM905 -- readable
    "footer header hgroup hr html li main ol p pre section summary table tbody td tfoot th thead tr "
    "ul".split()
)
_HEADING = re.compile(r"h([1-6])")
_BREAK = "\x1f"  # a line break that the page asks for; its own white space is none
_DEEPEST = 150  # elements within elements: below that, a page is a trap and its text is taken as one block

Block = tuple[int | None, str]


def clean_content(
    body: bytes, content_type: str | None, url: str, selector: str, fetched: date | None = None
) -> DocumentDraft:
    """Take the text of the elements that a CSS selector names; facts are read as for an article.

    Nested matches are taken once. Headings (h1 to h6) begin sections whose levels are closed up: the highest
    in the page is level 1. List items begin with "- ", cells of a table are separated by " | ".
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    named = _named(root, selector)
    if not named:
        raise UnusablePage(f"`content` names nothing in this page: {selector!r}")
    for element in named:
        if not isinstance(element, str):
            without_numbers(element)
    blocks = [
        (level, text)
        for element in named
        for level, raw in _Walker().blocks(element)
        if (text := _clean(raw))
    ]
    if not blocks:
        raise UnusablePage(f"what `content` names in this page has no text: {selector!r}")
    blocks[0] = (blocks[0][0], blocks[0][1].lstrip())  # a document's text begins with a word
    outline = OutlineBuilder.of(blocks)
    facts = page_facts(root, url)
    guessed = None if facts.published_at and facts.title else _guessed(html, url, fetched)
    published, source = find_date(facts, guessed.date if guessed else None, url, html)
    metadata = page_metadata(facts) | {"teaser": facts.description, "date_source": source}
    return DocumentDraft(
        text=outline.text,
        title=facts.title or (guessed.title if guessed else None),
        published_at=published,
        language=facts.language,
        authors=facts.authors,
        keywords=facts.keywords,
        sections=tuple(outline.sections),
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
    )


def blocks_in(html: str) -> list[Block]:
    """Return the paragraphs (None, text) and headings (1 to 6, text) of a page, or a book's chapter."""
    root = parse_page(html)
    body = root.find("body")
    found = _Walker().blocks(root if body is None else body)
    return [(level, text) for level, raw in found if (text := _clean(raw))]


def _guessed(html: str, url: str, fetched: date | None) -> Any:
    from trafilatura import extract_metadata

    return extract_metadata(html, default_url=url or None, date_config=date_guess_options(fetched))


def _named(root: Element, selector: str) -> list[Element | str]:
    from parsel.csstranslator import HTMLTranslator

    found = root.xpath(HTMLTranslator().css_to_xpath(selector))
    elements = {node for node in found if not isinstance(node, str)}
    return [
        node if not isinstance(node, str) else str(node)
        for node in found
        if isinstance(node, str) or not any(above in elements for above in node.iterancestors())
    ]


def _clean(text: str) -> str:
    """Repair a block; blanks at its beginning, which only code has, are kept."""
    return text[: len(text) - len(text.lstrip(" \t"))] + tidy(repair_encoding(text))


class _Walker:
    """Walks an element once; text gathers until a block begins or ends."""

    def __init__(self) -> None:
        self._found: list[Block] = []
        self._gathered: list[str] = []
        self._mark = ""

    def blocks(self, node: Element | str) -> Iterator[Block]:
        if isinstance(node, str):
            self._gathered.append(node)
        else:
            self._walk(node, 0)
        self._flush()
        yield from self._found

    def _walk(self, node: Element, depth: int) -> None:
        tag = node.tag if isinstance(node.tag, str) else "script"  # a comment
        if tag in _SKIPPED:
            return
        heading = _HEADING.fullmatch(tag)
        if depth > _DEEPEST:
            self._gathered.append(" ".join(node.itertext()))
        elif heading:
            self._take(int(heading[1]), collapse_whitespace(" ".join(node.itertext())))
        elif tag == "tr":
            self._row(node, depth)
        elif tag == "pre":
            self._take(None, code_of(node))
        elif tag == "br":
            self._gathered.append(_BREAK)
        elif tag in _BLOCKS:
            self._flush()
            if tag == "li":
                self._mark = "- "
            self._inside(node, depth)
            self._flush()
            self._mark = ""
        else:
            self._inside(node, depth)

    def _take(self, level: int | None, text: str) -> None:
        self._flush()
        if text.strip():
            self._found.append((level, text))

    def _row(self, row: Element, depth: int) -> None:
        """Take a row of data as one line; one that lays out the page as what it holds."""
        if len(row) < 2 or row.xpath("boolean(.//table | .//pre | .//h1 | .//h2 | .//h3 | .//h4)"):
            self._flush()
            self._inside(row, depth)
            self._flush()
            return
        cells = [collapse_whitespace(" ".join(cell.itertext())) for cell in row if cell.tag in ("td", "th")]
        self._take(None, " | ".join(cells) if any(cells) else "")

    def _inside(self, node: Element, depth: int) -> None:
        self._gathered.append(node.text or "")
        for child in node:
            self._walk(child, depth + 1)
            self._gathered.append(child.tail or "")

    def _flush(self) -> None:
        lines = (collapse_whitespace(line) for line in "".join(self._gathered).split(_BREAK))
        text = "\n".join(line for line in lines if line)
        self._gathered.clear()
        if text:
            self._found.append((None, f"{self._mark}{text}"))
            self._mark = ""
