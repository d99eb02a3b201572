"""The kinds of sources by their names; each is imported when a source of it is first read or crawled."""

from __future__ import annotations

from typing import Any

from warehouse.registry import Registry

SPIDERS: Registry[Any] = Registry("spiders", "crawlers.spiders.base:SiteSpider", called="name")
SPIDERS.add_places(
    eurlex="crawlers.spiders.eurlex:EurlexSpider",
    news="crawlers.spiders.news:NewsSpider",
    blog="crawlers.spiders.blog:BlogSpider",
    site="crawlers.spiders.site:AnySiteSpider",
)

READERS: Registry[Any] = Registry("readers", "crawlers.reading.contract:Reader")
READERS.add_places(
    beir="crawlers.reading.beir:Beir",
    docx="crawlers.reading.folder:DocxFiles",
    epub="crawlers.reading.folder:EpubFiles",
    folder="crawlers.reading.folder:Folder",
    html="crawlers.reading.folder:HtmlFiles",
    jsonl="crawlers.reading.jsonl:JsonLines",
    pdf="crawlers.reading.pdf:PdfFiles",
    pptx="crawlers.reading.folder:PptxFiles",
    rst="crawlers.reading.folder:RstFiles",
    table="crawlers.reading.table:Tables",
    text="crawlers.reading.text:TextFiles",
    warc="crawlers.reading.warc:WarcFiles",
    xlsx="crawlers.reading.folder:XlsxFiles",
)
