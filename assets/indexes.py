"""indexes: chunks and vectors made searchable, one partition a corpus, chunking and embedder."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.indexing.index_recipe import IndexFacts, IndexRecipe
from rag_assay.assets.indexing.index_rows import QUESTIONS, StoredRows
from rag_assay.assets.indexing.index_table import RECALL, open_table
from rag_assay.assets.indexing.index_table import build as build_table
from rag_assay.assets.indexing.upsert import link_or_copy
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest

NOTE_FROM = 20_000  # chunks from which on a build takes so long that each of its steps is told


class Indexes(Stage):
    """Writes a LanceDB table and the lexical index beside it; where few chunks changed, by an upsert."""

    name = "indexes"
    group = "corpus"
    description = (
        "A LanceDB table with the vectors, a full-text index and indexed columns for filters (date, "
        "keywords, language, document); the postings of its words for BM25 beside it, memory-mapped. Where "
        "few chunks changed, only those are written. Readers open the finished version, tagged with its "
        "data version, and no other."
    )
    counted = "chunks"
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "lancedb"})
    code_version = "3"
    upstream = ("chunks", "embeddings")
    family = "index_settings"
    lineage = ("embeddings",)
    blocking: ClassVar[frozenset[str]] = frozenset({"all_rows", "recall"})
    checks: ClassVar[dict[str, str]] = {
        "all_rows": "The table that readers open holds every chunk.",
        "recall": f"Search by vectors finds at least {RECALL:.0%} of the 10 nearest chunks, of sampled "
        "questions; below that, retrievers would be measured by what the index misses.",
    }

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        return sorted(self.build_plan.indexes)

    def needs(self, key: str) -> list[PartitionRef]:
        return [PartitionRef("chunks", key.rpartition(".")[0]), PartitionRef("embeddings", key)]

    def recipes(self, key: str) -> dict[str, str]:
        return {f"index.{self.build_plan.indexes[key][0]}": self._recipe(key).identity()}

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        chunk_artifact, embedding_artifact = self.inputs(key, work.store)
        if not embedding_artifact.complete:
            reason = embedding_artifact.meta.get("incomplete", "some chunks have no vector")
            raise AssayError(f"indexes of {key}: the embeddings are not complete: {reason}")
        rows = StoredRows(
            work.store.folder("chunks", chunk_artifact.identity) / "chunks.parquet",
            work.store.folder("embeddings", embedding_artifact.identity) / "embeddings.parquet",
        )
        recipe = self._recipe(key)
        inputs = [chunk_artifact.data_version, embedding_artifact.data_version]
        version = digest([*inputs, self.code_version, recipe.identity()])
        previous = work.store.current(self.name, key)
        if previous and previous.identity == folder.parent.name:
            previous = None  # the one that is built again
        begin = time.perf_counter()
        facts = build_table(
            folder,
            rows,
            recipe=recipe,
            tag=version,
            previous=work.store.folder(self.name, previous.identity) if previous else None,
            note=lambda text: work.progress(f"{text} of {key}", 0, 0) if rows.count >= NOTE_FROM else None,
        )
        questions = work.store.folder("embeddings", embedding_artifact.identity) / QUESTIONS
        if questions.exists():
            link_or_copy(questions, folder / QUESTIONS)
        meta = {**_meta(facts), "seconds": round(time.perf_counter() - begin, 2)}
        held = open_table(folder).count_rows()
        counts = {"rows": held, "chunks": rows.count}
        all_rows = Check("all_rows", held == rows.count, f"{held} rows for {rows.count} chunks", counts)
        return BuildResult(version, meta, (all_rows, _recall(facts)))

    def _recipe(self, key: str) -> IndexRecipe:
        return self.build_plan.corpora[self.build_plan.indexes[key][0]].index


def _meta(facts: IndexFacts) -> dict[str, Any]:
    search = {name: value for name, value in asdict(facts.search).items() if value is not None}
    recall = search.pop("recall")
    return {
        "chunks": facts.chunks,
        "dimensions": facts.dimensions,
        "search": search,
        "recall_at_10": recall,
        "made": facts.made,
        "rows": {"added": facts.added, "changed": facts.changed, "removed": facts.removed},
    }


def _recall(facts: IndexFacts) -> Check:
    search = facts.search
    numbers = {"recall": search.recall, "threshold": RECALL, "search": search.kind}
    if search.kind == "exact":
        return Check("recall", True, "search is exact", numbers)
    good = search.recall >= RECALL
    hint = "" if good else "; raise ef, nprobes or refine_factor of the corpus' index, or search exactly"
    return Check(
        "recall",
        good,
        f"recall@10 of {search.kind} is {search.recall:.3f} on sampled questions{hint}",
        numbers,
    )
