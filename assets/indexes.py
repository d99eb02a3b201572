"""indexes: chunks and vectors made searchable, one partition a corpus, chunking and embedder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from assets.indexing.table import build as build_table
from assets.indexing.table import open_table
from assets.merging import Build
from assets.stage import Built, Check, Need, Stage, Work
from warehouse.identity import digest
from warehouse.parquet import read_parquet


class Indexes(Stage):
    """Writes a LanceDB table (vectors and full text) and the lexical index beside it."""

    name = "indexes"
    group = "corpus"
    description = (
        "A LanceDB table with the vectors and a full-text index; the tokenised corpus for BM25 beside it. "
        "Readers open the finished, tagged version only."
    )
    upstream = ("chunks", "embeddings")
    checks: ClassVar[dict[str, str]] = {"all_rows": "The table that readers open holds every chunk."}

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        """Return `corpus.chunking.embedder` keys."""
        return sorted(self.build_plan.indexes)

    def needs(self, key: str) -> list[Need]:
        """Return the chunks and their embeddings."""
        return [Need("chunks", key.rpartition(".")[0]), Need("embeddings", key)]

    def recipes(self, key: str) -> dict[str, str]:
        """Return nothing: an index has no parameters yet."""
        return {}

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Write the index."""
        chunk_artifact, embedding_artifact = self.inputs(key, work.store)
        chunks = read_parquet(work.store.folder("chunks", chunk_artifact.identity) / "chunks.parquet")
        embeddings = read_parquet(
            work.store.folder("embeddings", embedding_artifact.identity) / "embeddings.parquet"
        )
        begin = time.perf_counter()
        facts = build_table(folder, chunks, embeddings["vector"].to_numpy())
        rows = open_table(folder).count_rows()
        check = Check("all_rows", rows == len(chunks), f"{rows} rows for {len(chunks)} chunks")
        meta = {
            "chunks": facts.chunks,
            "dimensions": facts.dimensions,
            "seconds": round(time.perf_counter() - begin, 2),
        }
        return Built(
            digest([chunk_artifact.data_version, embedding_artifact.data_version, self.code_version]),
            meta,
            (check,),
        )
