"""Cuts documents into chunks, batch by batch; unchanged documents keep the chunks of an earlier build."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.assets.chunking.sections import SectionTree
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.schemas import CHUNKS


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a Parquet file is read in parts into a `CorruptFileError` that names it."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"{path}: not a readable Parquet file ({error}). Delete it; `assay run STUDY` rebuilds it."
        ) from error


def facts_of(document: dict[str, Any], n_chunks: int, start: int, ordinal: int, text: str) -> dict[str, Any]:
    """Return the columns of `schemas.CHUNKS` that describe a chunk beside its place and text."""
    keywords = document.get("keywords") or []
    shared = {name: document.get(name) for name in ("title", "url", "published_at", "language")}
    tags = tags_in(text, keywords)
    return {
        "n_chunks": n_chunks,
        "position": ordinal / max(1, n_chunks - 1),
        "words": len(text.split()),
        "characters": len(text),
        "tags": tags,
        "n_tags": len(tags),
        "content_hash": digest([text, shared["title"], shared["url"]]),
        "page": bisect_right(document["page_starts"], start) or None,
        **shared,
        "keywords": keywords,
    }


def tags_in(text: str, tags: Sequence[str]) -> list[str]:
    """Return the tags of a document that stand in a text as whole words, in their order.

    >>> tags_in("Ein Tor für Bochum", ("VfL Bochum", "Bochum", "Tore"))
    ['Bochum']
    """
    folded = text.casefold()
    return [tag for tag in dict.fromkeys(tags) if _stands_in(tag.casefold().strip(), folded)]


def _stands_in(tag: str, text: str) -> bool:
    if not tag or tag not in text:  # the quick look spares most regular expressions
        return False
    return re.search(rf"(?<!\w){re.escape(tag)}(?!\w)", text) is not None


BATCH_CHARACTERS = 2_000_000  # of documents that are cut together: some 50 MB while they are
BATCH_DOCUMENTS = 1_000


def chunk_documents(documents: pl.DataFrame, chunker: Chunker, tools: Tools) -> pl.DataFrame:
    """Cut every document (schemas.DOCUMENTS); return schemas.CHUNKS, sorted by document and position."""
    return pl.concat([pl.DataFrame(schema=CHUNKS), *chunk_batches(documents, chunker, tools)])


def chunk_batches(
    documents: pl.DataFrame, chunker: Chunker, tools: Tools, earlier: Earlier | None = None
) -> Iterator[pl.DataFrame]:
    """Cut documents batch by batch; unchanged documents keep their chunks of ``earlier``."""
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
    """Chunks that the same chunking cut before: a file of schemas.CHUNKS, sorted by document."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._path = path
        self._versions = read_parquet(path, ["doc_id", "doc_version"]).unique().sort("doc_id")
        self._footer: Any = pyarrow.parquet.read_metadata(path)
        self._groups = [_bounds(self._footer.row_group(n)) for n in range(self._footer.num_row_groups)]

    def of(self, documents: pl.DataFrame) -> pl.DataFrame:
        """Return the chunks of those documents that are in the same version."""
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

        with (
            naming_damage(self._path),
            pyarrow.parquet.ParquetFile(self._path, metadata=self._footer) as file,
        ):
            rows = file.read_row_groups(groups, columns=list(CHUNKS))
        return pl.DataFrame(pl.from_arrow(rows)).select(list(CHUNKS))


def _bounds(group: Any) -> tuple[str, str]:
    columns = (group.column(n) for n in range(group.num_columns))
    statistics = next(one.statistics for one in columns if one.path_in_schema == "doc_id")
    known = statistics is not None and statistics.has_min_max
    return (statistics.min, statistics.max) if known else ("", chr(0x10FFFF))


def document_batches(documents: pl.DataFrame) -> Iterator[pl.DataFrame]:
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
    return digest([doc_id, start, text])


def material_of(document: dict[str, Any]) -> ChunkerInput:
    return ChunkerInput(document["text"], tuple(Section(**section) for section in document["sections"] or ()))


def _rows(
    document: dict[str, Any], material: ChunkerInput, spans: list[ChunkSpan]
) -> Iterator[dict[str, object]]:
    text = material.text
    page_starts = json.loads(document.get("metadata") or "{}").get("page_starts") or []
    document = {**document, "page_starts": page_starts}
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
            **facts_of(document, len(spans), span.start, ordinal, chunk),
        }


def _gaps(text: str, spans: list[ChunkSpan]) -> list[str]:
    begins = [*(span.start for span in spans), len(text)][1:]
    return [text[span.end : begin] for span, begin in zip(spans, begins, strict=True)]
