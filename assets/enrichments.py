"""enrichments: what a language model says of documents and chunks, one partition a corpus and chunking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from rag_assay.assets.engine.row_checks import WITHIN_BUDGET, within_budget
from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.engine.table import StageTable
from rag_assay.assets.enrichment.llm_enrichment import Enrichment, EnrichmentTask, enrich
from rag_assay.assets.recipes.build_half import Build, may_cost
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import ENRICHMENTS, RETRYABLE


class Enrichments(Stage):
    """Calls a model for summaries and questions, where a chunking says `enrich`; off by default."""

    name = "enrichments"
    group = "corpus"
    description = (
        "Summaries of documents and questions that chunks answer, by a language model; only for chunkings "
        "that ask for it. Every call goes through the cache of calls: an unchanged text costs nothing twice."
    )
    table = StageTable("enrichments.parquet", ENRICHMENTS, ("kind", "status", "text", "reason"))
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "llm", "parquet"})
    upstream = ("chunks", "documents")
    family = "enrichers"
    lineage = ("chunks",)
    checks: ClassVar[dict[str, str]] = {
        "usable": "Every call gave something that can be used.",
        "within_budget": WITHIN_BUDGET,
    }

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        return sorted(key for key in self.build_plan.chunk_sets if self._recipe(key) is not None)

    def needs(self, key: str) -> list[PartitionRef]:
        corpus, _ = self.build_plan.chunk_sets[key]
        sources = self.build_plan.corpora[corpus].sources
        return [PartitionRef("chunks", key), *(PartitionRef("documents", source) for source in sources)]

    def recipes(self, key: str) -> dict[str, str]:
        recipe = self._recipe(key)
        return {f"enrich.{key}": recipe.identity()} if recipe else {}

    def spends(self, key: str) -> bool:
        return may_cost(self._recipe(key))

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        recipe = self._recipe(key)
        if recipe is None:
            raise ValueError(f"{key} asks for no enrichment")
        chunks_of, *documents_of = self.inputs(key, work.store)
        tasks = [*_summaries(recipe, chunks_of, documents_of, work), *_questions(recipe, chunks_of, work)]
        label = f"asking {recipe.model} about {key}"
        purpose = Purpose("enrich", cell=key)

        def heard(done: int) -> None:
            work.progress(label, done, len(tasks))

        from rag_assay.warehouse.inference.gateway import Gateway

        with Gateway(work.home, budget=work.budgets.of(f"enrich {key}", recipe.budget_usd)) as gateway:
            rows = list(enrich(recipe, tasks, gateway, heard, purpose))
        write_parquet(frame(rows, ENRICHMENTS), folder / "enrichments.parquet")
        return _built(rows)

    def _recipe(self, key: str) -> Enrichment | None:
        _, chunking = self.build_plan.chunk_sets[key]
        return self.build_plan.chunkings[chunking].enrich


def _summaries(
    recipe: Enrichment, chunks: Artifact, documents: list[Artifact], work: BuildContext
) -> Iterator[EnrichmentTask]:
    if not recipe.summary:
        return
    known = set(_chunks(chunks, work, ["doc_id"])["doc_id"])
    for artifact in documents:
        path = work.store.folder(artifact.stage, artifact.identity) / "documents.parquet"
        rows = read_parquet(path, ["doc_id", "text"]).filter(pl.col("doc_id").is_in(known)).sort("doc_id")
        yield from (EnrichmentTask(doc_id, None, text) for doc_id, text in rows.iter_rows())


def _questions(recipe: Enrichment, chunks: Artifact, work: BuildContext) -> Iterator[EnrichmentTask]:
    if recipe.questions:
        columns = ["doc_id", "chunk_id", "text"]
        rows = _chunks(chunks, work, columns).select(columns).iter_rows()
        yield from (EnrichmentTask(*row) for row in rows)


def _chunks(artifact: Artifact, work: BuildContext, columns: list[str]) -> pl.DataFrame:
    return read_parquet(work.store.folder(artifact.stage, artifact.identity) / "chunks.parquet", columns)


def _built(rows: list[dict[str, Any]]) -> BuildResult:
    statuses = Counter(str(row["status"]) for row in rows)
    unusable = [row for row in rows if row["text"] is None]
    again = [row for row in rows if row["status"] in RETRYABLE]
    kinds = Counter(row["kind"] for row in rows if row["text"] is not None)
    prices = [row["usd"] for row in rows if row["usd"] is not None]
    meta: dict[str, Any] = {
        "summaries": kinds["summary"],
        "questions": kinds["question"],
        "by_status": dict(statuses),
        "usd": round(sum(prices), 6),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "completion_tokens": sum(row["completion_tokens"] or 0 for row in rows),
    }
    if again:
        first = f"first: {again[0]['status']}: {again[0]['reason']}"
        meta["incomplete"] = f"{len(again)} of {len(rows)} model calls failed, {first}"
    reason = f", first: {unusable[0]['status']}: {unusable[0]['reason']}" if unusable else ""
    numbers = {"count": len(unusable), "of": len(rows), "by_status": dict(statuses)}
    message = f"{len(unusable)} of {len(rows)} gave no text{reason}"
    check = Check("usable", not unusable, message, numbers, severe=False)
    paid = within_budget((str(row["chunk_id"] or row["doc_id"]), row["status"]) for row in rows)
    content = [[row["doc_id"], row["chunk_id"], row["kind"], row["ordinal"], row["text"]] for row in rows]
    return BuildResult(digest(content), meta, (check, paid), complete=not again)
