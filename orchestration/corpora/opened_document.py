"""Opens one document beside its stored page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.assets.cleaning.page_source import PageSource, page_source
from rag_assay.orchestration.corpora.document_list import ListedDocument
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.pages import read_body, read_manifest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class OpenedDocument:
    """A document beside its page.

    sections: of `schemas.DOCUMENTS`
    page: None where its body cannot be read, and `why` says why not
    """

    listed: ListedDocument
    text: str
    sections: Sequence[Mapping[str, Any]]
    authors: Sequence[str]
    page: PageSource | None
    why: str = ""


def open_document(listed: ListedDocument, home: Home) -> OpenedDocument:
    text, sections, authors, sha256 = "", [], [], None
    store = ArtifactStore(home)
    artifact = store.current("documents", listed.source)
    if artifact is not None and not listed.reason:
        columns = ["text", "sections", "authors", "page_sha256"]
        path = store.files_of(artifact) / "documents.parquet"
        for row in read_parquet(path, columns, pl.col("doc_id") == listed.doc_id).rows():
            text, sections, authors, sha256 = row
    pages = read_manifest(home, listed.source, gone=True).filter(pl.col("url") == listed.url)
    whole = (listed, text, sections or (), authors or ())
    if pages.is_empty() or (sha256 or pages["sha256"][0]) is None:
        return OpenedDocument(*whole, None, f"{listed.url}: no page is stored")
    page = pages.row(0, named=True)
    try:
        return OpenedDocument(*whole, page_source(page, read_body(home, sha256 or page["sha256"]), text))
    except CorruptFileError as damage:
        return OpenedDocument(*whole, None, str(damage))
