"""Blogs: index pages, tags and feeds lead to posts; the posts are stored."""

from __future__ import annotations

from typing import Any

from parsel import Selector
from scrapy.http import HtmlResponse

from rag_assay.crawlers.markup import Node, distinct, first, listed, meta, present, text_of
from rag_assay.crawlers.spiders.news import NewsSpider, authors, is_post
from rag_assay.warehouse.iso_dates import first_iso

# A post's own heading leads nowhere; on an index page it leads to the post.
_POSTS = (
    "//article[not(ancestor::article)][.//time][.//*[self::h1 or self::h2][not(.//a) and not(ancestor::a)]]"
)
_TAGS = "//article//a[contains(concat(' ', @rel, ' '), ' tag ')]"


class BlogSpider(NewsSpider):
    """Stores pages that call themselves an article, are built like a post, or read as one and are dated."""

    name = "blog"

    def is_article(self, page: Selector, article: Node | None) -> bool:
        return super().is_article(page, article) or len(page.xpath(_POSTS)) == 1

    def is_plain(self, response: HtmlResponse) -> bool:
        return is_post(response)

    def fields(self, page: Selector, article: Node) -> dict[str, Any]:
        tags = meta(page, "article:tag") or listed(article.get("keywords"), meta(page, "keywords"))
        return present(
            title=first(
                article.get("headline"),
                meta(page, "og:title"),
                text_of(page.css("article h1, h1")),
                text_of(page.css("title")),
            ),
            description=first(article.get("description"), meta(page, "og:description", "description")),
            tags=distinct(tags or [text_of(link) for link in page.xpath(_TAGS)]),
            authors=authors(page, article),
            published_at=first_iso(
                article.get("datePublished"),
                meta(page, "article:published_time", "date"),
                page.xpath("//article//time/@datetime").get(),
                text_of(page.css("article time")),
            ),
            modified_at=first_iso(
                article.get("dateModified"), meta(page, "article:modified_time", "og:updated_time")
            ),
        )
