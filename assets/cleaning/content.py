"""Pages whose main element a source names by a CSS selector (`content`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from rag_assay.assets.cleaning.article import date_guess_options, find_date, page_metadata
from rag_assay.assets.cleaning.blocks import paragraphs, read_blocks
from rag_assay.assets.cleaning.code_blocks import without_numbers
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.page_facts import page_facts
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy
from rag_assay.warehouse.pages import decode


def clean_content(
    body: bytes, content_type: str | None, url: str, selector: str, fetched: date | None = None
) -> DocumentDraft:
    """Take the text of the elements that a CSS selector names; facts are read as for an article.

    Nested matches are taken once. Headings begin sections whose levels are closed up: the highest in the page
    is level 1. Blocks are those of `read_blocks`.
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    named = _named(root, selector)
    if not named:
        raise UnusablePage(f"`content` names nothing in this page: {selector!r}")
    for element in named:
        if not isinstance(element, str):
            without_numbers(element)
    blocks = [block for element in named for block in _blocks(element)]
    if not blocks:
        raise UnusablePage(f"what `content` names in this page has no text: {selector!r}")
    blocks[0] = (blocks[0][0], blocks[0][1].lstrip())  # a document's text begins with a word
    outline = OutlineBuilder.of(blocks)
    facts = page_facts(root, url)
    guessed = None if facts.published_at and facts.title else _guessed(html, url, fetched)
    blocks_of_page = read_blocks(root)
    published, source = find_date(
        facts, blocks_of_page, guessed.date if guessed else None, url, html, fetched
    )
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


def _blocks(node: Element | str) -> Iterator[tuple[int | None, str]]:
    if not isinstance(node, str):
        yield from paragraphs(read_blocks(node))
    elif text := tidy(repair_encoding(collapse_whitespace(node))):
        yield None, text


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
