"""XML: the text of its elements; titles begin sections, and HTML within a feed is read as blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.blocks import code_of, paragraphs, read_blocks
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.tree import Element, parse_page, parse_xml
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy

_TITLES = frozenset({"title", "head", "heading", "bridgehead"})  # of RSS, Atom and DocBook; of TEI
_CODE = frozenset({"code", "literallayout", "pre", "programlisting", "screen"})
_FEEDS = frozenset({"RDF", "feed", "rss"})
_NO_TEXT = frozenset({"docs", "generator", "guid", "id", "language", "link", "ttl", "url"})  # of a feed
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_TITLE = 300  # characters


def clean_xml(body: bytes, content_type: str | None) -> DocumentDraft:
    """Return a paragraph for each element with text of its own. Entities are not expanded, and nothing is
    fetched; XHTML is cleaned as a web page.
    """
    root = parse_xml(body)
    if _name(root) == "html":
        return clean_article(body, content_type, "")
    no_text = _NO_TEXT if _name(root) in _FEEDS else frozenset[str]()
    outline = OutlineBuilder.of(list(_parts(root, 1, no_text)))
    if not outline.text:
        raise UnusablePage("no text in the file")
    title = next((section["heading"] for section in outline.sections), "")
    language = str(root.get(_LANGUAGE) or root.findtext("channel/language") or "")
    return DocumentDraft(
        text=outline.text,
        title=title[:_TITLE] or None,
        language=language[:2].lower() or None,
        sections=tuple(outline.sections),
        repaired=True,
    )


def _parts(node: Element, depth: int, no_text: frozenset[str]) -> Iterator[tuple[int | None, str]]:
    name = _name(node)
    is_text = any(text and not text.isspace() for text in (node.text, *(child.tail for child in node)))
    if not name or name in no_text:  # no name: a comment or an entity
        return
    if name in _CODE and is_text:
        yield None, tidy(repair_encoding(code_of(node)))
    elif name in _TITLES and (words := _words(node)):
        yield depth, words
    elif not is_text:
        for child in node:
            yield from _parts(child, depth + 1, no_text)
    elif len(node) == 0 and len(_MARKUP.findall(node.text)) > 1:
        yield from ((None, text) for _, text in paragraphs(read_blocks(parse_page(node.text))))
    elif words := _words(node):
        yield None, words


def _words(node: Element) -> str:
    return tidy(repair_encoding(collapse_whitespace("".join(node.itertext()))))


def _name(node: Element) -> str:
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""
