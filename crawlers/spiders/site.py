"""Any site: stores all pages that the source allows, with their metadata."""

from __future__ import annotations

from typing import Any

from parsel import Selector
from scrapy.http import Response

from rag_assay.crawlers.markup import Node, content_type_of
from rag_assay.crawlers.spiders.base import HTML, Output
from rag_assay.crawlers.spiders.news import NewsSpider
from rag_assay.warehouse.pages import decode

PDF = "application/pdf"


class AnySiteSpider(NewsSpider):
    """Stores each page; with a `content` selector, those only that have such an element.

    The selector itself is kept in the pages' fields.
    """

    name = "site"
    unmarked = "read, not stored: it has nothing that `content` selects"
    readable = HTML | {PDF, "text/plain", "text/markdown"}

    def is_article(self, page: Selector, article: Node | None) -> bool:
        content = self._content(page)
        return content is None or bool(page.css(content))

    def fields(self, page: Selector, article: Node) -> dict[str, Any]:
        content = self._content(page)
        return super().fields(page, article) | ({"content": content} if content else {})

    def _content(self, page: Selector) -> str | None:
        response = getattr(page, "response", None)  # Scrapy's selectors know their page
        return self.source.content_of(response.url if response is not None else "")

    def visit_file(self, response: Response, kind: str) -> Output:
        if kind == PDF and not response.body.startswith(b"%PDF-"):
            yield self.failure(response, f"not text: {kind}")
        elif kind == PDF:
            yield self.page(response, {})
        else:
            content_type = content_type_of(response.headers)
            yield self.page(response, {"encoding": decode(response.body, content_type)[1]})
