"""The kinds of sources by their names; each is imported when a source of it is first read or crawled."""

from __future__ import annotations

from typing import Any

from rag_assay.warehouse.registry import Registry

SPIDERS: Registry[Any] = Registry("spiders", "rag_assay.crawlers.spiders.base:SiteSpider", called="name")
SPIDERS.add_places(
    "rag_assay.crawlers.spiders",
    eurlex="eurlex:EurlexSpider",
    news="news:NewsSpider",
    blog="blog:BlogSpider",
    site="site:AnySiteSpider",
)

READERS: Registry[Any] = Registry("readers", "rag_assay.crawlers.readers.contract:Reader")
READERS.add_places(
    "rag_assay.crawlers.readers",
    beir="beir:Beir",
    bucket="bucket:Bucket",
    docx="folder:DocxFiles",
    epub="folder:EpubFiles",
    folder="folder:Folder",
    git="git:Git",
    html="folder:HtmlFiles",
    jsonl="jsonl:JsonLines",
    pdf="folder:PdfFiles",
    pptx="folder:PptxFiles",
    rst="folder:RstFiles",
    table="table:TableReader",
    text="text:TextFiles",
    warc="warc:WarcFiles",
    xlsx="folder:XlsxFiles",
)
