"""The kinds of sources by their names; each is imported when a source of it is first read or crawled."""

from __future__ import annotations

from typing import Any

from rag_assay.warehouse.registry import Registry

SPIDERS: Registry[Any] = Registry("spiders", "rag_assay.crawlers.spiders.base:SiteSpider", called="name")
SPIDERS.add_places(
    eurlex="rag_assay.crawlers.spiders.eurlex:EurlexSpider",
    news="rag_assay.crawlers.spiders.news:NewsSpider",
    blog="rag_assay.crawlers.spiders.blog:BlogSpider",
    site="rag_assay.crawlers.spiders.site:AnySiteSpider",
)

READERS: Registry[Any] = Registry("readers", "rag_assay.crawlers.readers.contract:Reader")
READERS.add_places(
    beir="rag_assay.crawlers.readers.beir:Beir",
    docx="rag_assay.crawlers.readers.folder:DocxFiles",
    epub="rag_assay.crawlers.readers.folder:EpubFiles",
    folder="rag_assay.crawlers.readers.folder:Folder",
    html="rag_assay.crawlers.readers.folder:HtmlFiles",
    jsonl="rag_assay.crawlers.readers.jsonl:JsonLines",
    pdf="rag_assay.crawlers.readers.folder:PdfFiles",
    pptx="rag_assay.crawlers.readers.folder:PptxFiles",
    rst="rag_assay.crawlers.readers.folder:RstFiles",
    table="rag_assay.crawlers.readers.table:TableReader",
    text="rag_assay.crawlers.readers.text:TextFiles",
    warc="rag_assay.crawlers.readers.warc:WarcFiles",
    xlsx="rag_assay.crawlers.readers.folder:XlsxFiles",
)
