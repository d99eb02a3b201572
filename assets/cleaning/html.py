"""Chooses the cleaner of an HTML page."""

from __future__ import annotations

from datetime import date

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.content import clean_content
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex, is_eurlex, notice_of
from rag_assay.warehouse.pages import decode


def clean_html(
    body: bytes, content_type: str | None, url: str, content: str | None = None, fetched: date | None = None
) -> DocumentDraft:
    """Extract text, title, dates, authors and keywords; of an act of EUR-Lex its structure too.

    content: CSS selector of the elements that hold the text, where the source names them
    fetched: the day in UTC after which no guessed date lies

    Raises:
        Unusable: the page holds no main text, or hardly any, or not what `content` selects.
    """
    if content:
        return clean_content(body, content_type, url, content, fetched)
    html, _encoding = decode(body, content_type)
    if notice := notice_of(html, url):
        raise UnusablePage(f"not the text of the act, but a notice: {notice[:200]!r}")
    if is_eurlex(html, url):
        return clean_eurlex(body, content_type, url)
    return clean_article(body, content_type, url, fetched)
