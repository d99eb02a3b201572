"""Cleans a page of EUR-Lex: recognises acts and notices, and makes a draft of an act."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.eurlex.act_facts import draft_of
from rag_assay.assets.cleaning.eurlex.act_lines import lines_of
from rag_assay.assets.cleaning.eurlex.act_structure import assemble
from rag_assay.assets.cleaning.tree import by_id, parse_page
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.eurlex_notice import notice_in, says_absent
from rag_assay.warehouse.pages import decode

_ACT = re.compile(
    r"""
      class\s*=\s*["'][^"'>]*\b(?:oj-(?:doc-ti|ti-art|normal)|eli-container|eli-main-title|ti-art|doc-ti)\b
    | class\s*=\s*["'][^"'>]*\b(?:title-article-norm|title-doc-first|title-annex-1|Titrearticle)\b
    | id\s*=\s*["']?(?:TexteOnly|TXT_TE)\b
    | <txt_te\b
    """,
    re.X | re.I,
)
_ACT_TITLE = re.compile(r"<title>[^<]*\b(?:TEXT|TEXTE|TESTO)\b:\s*\d{4,5}[A-Z]{1,2}\d{4}\b", re.I)
# One of these stands in every page that the pattern fits; looking for them first takes a tenth of the time.
_MARKS = (
    *("oj-normal", "ti-art", "doc-ti", "eli-container", "eli-main-title"),
    *("title-article-norm", "title-doc-first", "title-annex-1", "titrearticle", "texteonly", "txt_te"),
)
_NOTICE = 200  # characters that a notice has at most
_RESULTS = re.compile(r"""class\s*=\s*["'](?:[^"']*\s)?SearchResult["'\s]""")


def is_eurlex(html: str, url: str) -> bool:
    """Return whether a page holds the text of an act of EUR-Lex, or of a site built like it.

    The markup decides, for acts are served from many places; search results, help pages and notices are not
    acts.

    >>> is_eurlex('<div class="eli-container"><p class="oj-ti-art">Article 1</p></div>', "")
    True
    >>> is_eurlex("<p>Legal notice</p>", "https://eur-lex.europa.eu/content/legal-notice.html")
    False
    """
    if "SearchResult" in html and _RESULTS.search(html):
        return False
    return _has_act_markup(html) or ("/legal-content/" in urlsplit(url).path and 'id="text"' in html)


def _has_act_markup(html: str) -> bool:
    small = html.lower()
    return (any(mark in small for mark in _MARKS) and bool(_ACT.search(html))) or bool(
        _ACT_TITLE.search(html)
    )


def notice_of(html: str, url: str) -> str | None:
    if "alert" not in html or not ("/legal-content/" in url or "EUR-Lex" in html or "PubFormat" in html):
        return None  # without parsing it
    return notice_in(parse_page(html), url)


def clean_eurlex(body: bytes, content_type: str | None, url: str) -> DocumentDraft:
    """Parse an act: title, preamble with its recitals, divisions, articles, annexes, notes.

    `sections` nest by level. `metadata["structure"]` has an entry for each: `kind` (preamble, recital, part,
    title, chapter, section, subsection, article, annex, annex part, statement, final, notes), `number` ("5a"
    or None) and, within an annex, `annex`. `metadata` also holds `celex`, `document_date` and their sources.
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    named = by_id(root)
    lines = lines_of(root, named)
    if not lines:
        raise UnusablePage("the page of an act holds no text of it")
    shown = " ".join(line.text for line in lines)
    if len(shown) < _NOTICE and says_absent(shown):
        raise UnusablePage(f"not the text of the act, but a notice: {shown!r}")
    act = assemble(lines)
    # Line by line, which takes longer: offsets are counted after it
    if repair_encoding(act.text) != act.text:
        act = assemble([line._replace(text=tidy(repair_encoding(line.text))) for line in lines])
    return draft_of(root, named, url, act)
