"""Cuts documents into chunks, batch by batch; unchanged documents keep the chunks of an earlier build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.assets.chunking.sections import SectionTree
from rag_assay.assets.enrichment.chunk_facts import document_facts, facts_of
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.schemas import CHUNKS

BATCH_CHARACTERS = 2_000_000  # of documents that are cut together: some 50 MB while they are
BATCH_DOCUMENTS = 1_000


def chunk_documents(documents: pl.DataFrame, chunker: Chunker, tools: Tools) -> pl.DataFrame:
    """Cut every document (schemas.DOCUMENTS); return schemas.CHUNKS, sorted by document and position."""
    return pl.concat([pl.DataFrame(schema=CHUNKS), *chunk_batches(documents, chunker, tools)])


def chunk_batches(
    documents: pl.DataFrame, chunker: Chunker, tools: Tools, earlier: Earlier | None = None
) -> Iterator[pl.DataFrame]:
    """Cut documents as `chunk_documents` does, and yield the chunks of some of them at a time.

    earlier: chunks of the same chunking; those of documents that are as they were are taken from there
    """
    for batch in document_batches(documents):
        known = earlier.of(batch) if earlier else pl.DataFrame(schema=CHUNKS)
        fresh = batch.filter(~pl.col("doc_id").is_in(known["doc_id"].unique().implode()))
        yield pl.concat([known, _cut(fresh, chunker, tools)]).sort("doc_id", "ordinal")


def _cut(documents: pl.DataFrame, chunker: Chunker, tools: Tools) -> pl.DataFrame:
    rows: list[dict[str, object]] = []
    texts = list(documents.iter_rows(named=True))
    materials = [material_of(document) for document in texts]
    for document, material, spans in zip(texts, materials, chunker.split_many(materials, tools), strict=True):
        rows += _rows(document, material, spans)
    return frame(rows, CHUNKS)


class Earlier:
    """Chunks that were cut before, by the same chunking.

    Args:
        path: a file of schemas.CHUNKS, sorted by document.

    Raises:
        CorruptFileError: the file is missing or torn; also when chunks are asked for.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._path = path
        self._versions = read_parquet(path, ["doc_id", "doc_version"]).unique().sort("doc_id")
        self._footer: Any = pyarrow.parquet.read_metadata(path)
        self._groups = [_bounds(self._footer.row_group(n)) for n in range(self._footer.num_row_groups)]

    def of(self, documents: pl.DataFrame) -> pl.DataFrame:
        """Return the chunks of those documents that are in the same version.

        Only the part of the file where they lie is read: the whole file for each batch of documents would
        take time that grows with the square of the corpus.
        """
        if not len(documents):
            return pl.DataFrame(schema=CHUNKS)
        first, last = str(documents["doc_id"].min()), str(documents["doc_id"].max())
        begin = self._versions["doc_id"].search_sorted(first, "left")
        end = self._versions["doc_id"].search_sorted(last, "right")
        same = documents.join(
            self._versions.slice(begin, end - begin),
            left_on=["doc_id", "version"],
            right_on=["doc_id", "doc_version"],
            how="semi",
        )["doc_id"]
        near = [n for n, (low, high) in enumerate(self._groups) if low <= last and first <= high]
        return self._read(near if len(same) else []).filter(pl.col("doc_id").is_in(same.implode()))

    def _read(self, groups: list[int]) -> pl.DataFrame:
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self._path, metadata=self._footer) as file:
                rows = pl.from_arrow(file.read_row_groups(groups, columns=list(CHUNKS)))
        except (OSError, pyarrow.ArrowException) as error:
            raise CorruptFileError(
                f"{self._path}: not a readable Parquet file ({error}). Delete it; `assay run STUDY` makes it "
                "again."
            ) from error
        assert isinstance(rows, pl.DataFrame)  # noqa: S101 -- of a table
        return rows.select(list(CHUNKS))


def _bounds(group: Any) -> tuple[str, str]:
    """Return the least and the greatest document id of a row group, as its statistics say."""
    columns = (group.column(n) for n in range(group.num_columns))
    statistics = next(one.statistics for one in columns if one.path_in_schema == "doc_id")
    known = statistics is not None and statistics.has_min_max
    return (statistics.min, statistics.max) if known else ("", chr(0x10FFFF))


def document_batches(documents: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the documents in the order of their ids, some at a time."""
    facts = (
        documents.select("doc_id", size=pl.col("text").str.len_chars()).with_row_index("row").sort("doc_id")
    )
    rows: list[int] = []
    characters = 0
    for row, _, size in facts.iter_rows():
        if rows and (characters + size > BATCH_CHARACTERS or len(rows) == BATCH_DOCUMENTS):
            yield documents[rows]
            rows, characters = [], 0
        rows.append(row)
        characters += size
    if rows:
        yield documents[rows]


def chunk_id(doc_id: str, start: int, text: str) -> str:
    """Name a chunk by what it is: a text at a place of a document, whatever else of the document changes."""
    return digest([doc_id, start, text])


def material_of(document: dict[str, Any]) -> ChunkerInput:
    """Return what a chunker sees of a row of `schemas.DOCUMENTS`."""
    return ChunkerInput(document["text"], tuple(Section(**section) for section in document["sections"] or ()))


def _rows(
    document: dict[str, Any], material: ChunkerInput, spans: list[ChunkSpan]
) -> Iterator[dict[str, object]]:
    text = material.text
    known = document_facts(document, len(spans))
    outline = SectionTree(material.sections, len(text))
    for ordinal, (span, gap) in enumerate(zip(spans, _gaps(text, spans), strict=True)):
        chunk = text[span.start : span.end]
        context = span.context or (span.start, span.end)
        yield {
            "chunk_id": chunk_id(document["doc_id"], span.start, chunk),
            "doc_id": document["doc_id"],
            "doc_version": document["version"],
            "ordinal": ordinal,
            "start": span.start,
            "end": span.end,
            "text": chunk,
            "gap": gap,
            "context_start": context[0],
            "context_end": context[1],
            "prefix": span.prefix,
            "n_tokens": span.n_tokens,
            "heading_path": outline.headings(span.start),
            **facts_of(known, span.start, ordinal, chunk),
        }


def _gaps(text: str, spans: list[ChunkSpan]) -> list[str]:
    """Return what follows each span up to where the next one begins: white space, or nothing."""
    begins = [*(span.start for span in spans), len(text)][1:]
    return [text[span.end : begin] for span, begin in zip(spans, begins, strict=True)]
