"""News sites: sections, sitemaps and feeds lead to articles; the articles are stored."""

from __future__ import annotations

from typing import Any

from parsel import Selector
from scrapy.http import HtmlResponse

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.links import base_of, clean_url
from rag_assay.crawlers.markup import (
    Node,
    article_of,
    distinct,
    first,
    has_prose,
    is_dated,
    json_ld,
    listed,
    meta,
    names,
    present,
    reads_as_text,
    text_of,
)
from rag_assay.crawlers.spiders.base import Output, SiteSpider, facts_of
from rag_assay.warehouse.iso_dates import first_iso

NEXT = "//link[@rel='next']/@href | //a[contains(concat(' ', @rel, ' '), ' next ')]/@href"
_LOWER = "translate(@class, 'TEASR', 'teasr')"
# A teaser of the article itself: not a link to another one, nor in a box beside it.
_TEASER = (
    f"//*[contains({_LOWER}, 'teaser')][not(.//a[@href])]"
    "[not(ancestor-or-self::a or ancestor-or-self::aside or ancestor-or-self::nav or ancestor::footer)]"
)


LINKS = "read, not stored: a third of its words or more are links, as on a list of pages"


def is_post(response: HtmlResponse) -> bool:
    return reads_as_text(response.selector) and is_dated(response)


class NewsSpider(SiteSpider):
    """Stores pages that call themselves an article; all others are followed only."""

    name = "news"
    unmarked = "read, not stored: it does not call itself an article (`spider: site` stores any page)"

    def visit(self, response: HtmlResponse) -> Output:
        page = response.selector
        article = article_of(json_ld(page))
        if self.is_article(page, article) or self.is_plain(response):
            fields = {**self.fields(page, article or {}), "encoding": response.encoding}
            yield self.page(
                response, fields, canonical=first(page.xpath("//link[@rel='canonical']/@href").getall())
            )
        else:
            self.settle(response)
            if has_prose(page):
                reason = self.unmarked if reads_as_text(page) else LINKS
                fields = {"stored_by": "blog" if self.name == "news" and is_post(response) else "site"}
                yield Page(reason=reason, fields=fields, **facts_of(response, response.url))
        yield from self.discover(response)
        base = base_of(response)
        onward = [clean_url(base, href) for href in page.xpath(NEXT).getall()]
        links = [clean_url(base, href) for href in page.xpath("//a/@href | //area/@href").getall()]
        found = list(self.follow(response, [url for url in links if url not in onward]))
        yield from found
        yield from self.turn(response, onward, fruitful=bool(found))

    def is_article(self, page: Selector, article: Node | None) -> bool:
        return article is not None or "article" in meta(page, "og:type")

    def is_plain(self, response: HtmlResponse) -> bool:
        return False

    def fields(self, page: Selector, article: Node) -> dict[str, Any]:
        description = first(article.get("description"), meta(page, "og:description", "description"))
        teaser = next((text for text in map(text_of, page.xpath(_TEASER)) if len(text) >= 20), None)
        headline = first(article.get("headline"), meta(page, "og:title"), text_of(page.css("h1")))
        return present(
            headline=headline,
            title=first(text_of(page.css("title")), headline),
            teaser=teaser or description,
            description=description,
            news_keywords=listed(meta(page, "news_keywords")),
            keywords=listed(article.get("keywords"), meta(page, "keywords")),
            authors=authors(page, article),
            published_at=first_iso(
                article.get("datePublished"),
                meta(page, "article:published_time", "date", "datePublished"),
                page.xpath("//article//time/@datetime").get(),
            ),
            modified_at=first_iso(
                article.get("dateModified"),
                meta(page, "article:modified_time", "og:updated_time", "last-modified", "dateModified"),
            ),
            section=first(article.get("articleSection"), meta(page, "article:section")),
        )


def authors(page: Selector, article: Node) -> list[str]:
    shown = page.xpath("//article//*[contains(concat(' ', @rel, ' '), ' author ')]")
    return names(
        article.get("author"),
        meta(page, "author", "article:author"),
        distinct([text_of(link) for link in shown]),
        distinct([text_of(part) for part in page.css("article .author")[:1]]),
    )
