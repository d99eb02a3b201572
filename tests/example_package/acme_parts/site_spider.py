"""A spider."""

from __future__ import annotations

from typing import Any, ClassVar

from parsel import Selector

from rag_assay.crawlers.markup import Node
from rag_assay.crawlers.spiders.site import AnySiteSpider
from rag_assay.warehouse.recipe import Strict


class Motto(Strict):
    """Parameters of the spider.

    motto: kept with each page
    """

    motto: str


class SiteWithMotto(AnySiteSpider):
    """Stores each page of a site, with a motto."""

    name = "acme_site"
    Options: ClassVar[type[Strict]] = Motto

    def fields(self, page: Selector, article: Node) -> dict[str, Any]:
        """Return what a page says of itself, and the motto."""
        return super().fields(page, article) | {"motto": self.options.motto}
