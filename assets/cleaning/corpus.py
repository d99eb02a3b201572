"""The documents of a corpus: those of its sources together, and which of them are copies of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rag_assay.assets.cleaning.duplicates import CODE_VERSION, find_duplicates
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import DOCUMENTS

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.warehouse.artifacts import Artifact

CORPUS_COLUMNS = (
    *("doc_id", "version", "source", "url", "title", "text"),
    *("published_at", "language", "keywords", "sections", "metadata"),
)


def corpus_documents(artifacts: list[Artifact], work: BuildContext) -> pl.DataFrame:
    frames = [
        read_parquet(work.store.folder(a.stage, a.identity) / "documents.parquet", list(CORPUS_COLUMNS))
        for a in artifacts
        if a.stage == "documents"
    ]
    documents = pl.concat(frames) if frames else frame([], DOCUMENTS).select(CORPUS_COLUMNS)
    doubled = documents.filter(documents["doc_id"].is_duplicated())
    if len(doubled):
        first = doubled.row(0, named=True)
        raise AssayError(f"the document id {first['doc_id']} ({first['url']}) comes twice in the corpus")
    return documents


def corpus_duplicates(
    artifacts: list[Artifact], documents: pl.DataFrame, threshold: float | None, work: BuildContext
) -> pl.DataFrame:
    """Return a corpus' copies (`schemas.DUPLICATES`), cached by data versions; threshold None: exact only."""
    versions = sorted(a.data_version for a in artifacts if a.stage == "documents")
    kept = work.home.cache("duplicates") / f"{digest([CODE_VERSION, threshold, versions])}.parquet"
    try:
        return read_parquet(kept)
    except CorruptFileError:  # not there yet, or torn
        kept.parent.mkdir(parents=True, exist_ok=True)
        duplicates = find_duplicates(documents, threshold, kept.parent)
        write_parquet(duplicates, kept)
        return duplicates
