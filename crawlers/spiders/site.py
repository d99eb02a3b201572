"""Any site: stores all pages that the source allows, with their metadata."""

from __future__ import annotations

from typing import Any

from parsel import Selector
from scrapy.http import Response

from rag_assay.crawlers.markup import Node
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
        return self.source.content is None or bool(page.css(self.source.content))

    def fields(self, page: Selector, article: Node) -> dict[str, Any]:
        fields = super().fields(page, article)
        return fields | ({"content": self.source.content} if self.source.content else {})

    def visit_file(self, response: Response, kind: str) -> Output:
        if kind == PDF and not response.body.startswith(b"%PDF-"):
            yield self.failure(response, f"not text: {kind}")
        elif kind == PDF:
            yield self.page(response, {})
        else:
            content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
            yield self.page(response, {"encoding": decode(response.body, content_type)[1]})
