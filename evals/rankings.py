"""rankings: what each retriever returns for each question, one partition a study's index and retriever."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import polars as pl

from assets.embedding.cached import CachedEmbedder
from assets.stage import Built, Need, Stage, Work
from evals.grid import Grid
from evals.retrieving import Query, Ranking, Retriever
from evals.retrieving.index import OpenIndex
from evals.retrieving.queries import QueryVector, embed_queries
from warehouse.artifacts import Artifact
from warehouse.identity import digest
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import HITS, RANKED, Status


class Rankings(Stage):
    """Asks every question of every retriever of every index."""

    name = "rankings"
    group = "grid"
    description = (
        "The ranked chunks of every question, for one chunking, embedder and retriever; with the seconds "
        "that each question took. A question that fails is a row with its status and reason."
    )
    upstream = ("indexes", "questions")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return `study.chunking.embedder.retriever` keys."""
        return sorted(self.grid.rankings)

    def needs(self, key: str) -> list[Need]:
        """Return the index and the study's question sets."""
        cell = self.grid.rankings[key]
        sets = [Need("questions", name) for name in self.grid.set_keys(cell.study)]
        return [Need("indexes", self.grid.index_key(cell)), *sets]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of the retriever and, where it embeds questions, of how."""
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        recipe = study.retrievers[cell.retriever]
        found = {f"retriever.{cell.retriever}": recipe.identity()}
        if recipe.recipe.needs_vector:
            embedder = study.embedders[cell.embedder]
            found[f"queries.{cell.embedder}"] = digest([embedder.revision(), embedder.query_prefix])
        return found

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Rank for every question."""
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        retriever: Retriever = study.retrievers[cell.retriever].recipe
        index_artifact, *set_artifacts = self.inputs(key, work.store)
        questions = read_questions(set_artifacts, work)
        index = open_index(index_artifact, work)
        vectors: dict[str, QueryVector] = {}
        if retriever.needs_vector:
            vectors = _vectors(questions, CachedEmbedder(study.embedders[cell.embedder], work.home), work)
        hits: list[dict[str, Any]] = []
        ranked: list[dict[str, Any]] = []
        len(index)  # opened before the clock runs
        warm_up(retriever, questions, vectors, index)
        for number, (question_id, text) in enumerate(
            questions.select("question_id", "question").iter_rows(), 1
        ):
            row, found = _rank(retriever, text, vectors.get(text), index)
            ranked.append({"question_id": question_id, **row})
            hits += [{"question_id": question_id, **hit} for hit in found]
            if number % 25 == 0 or number == len(questions):
                work.progress(f"ranking {key}", number, len(questions))
        write_parquet(frame(hits, HITS), folder / "hits.parquet")
        write_parquet(frame(ranked, RANKED), folder / "ranked.parquet")
        return _built(hits, ranked)


def warm_up(
    retriever: Retriever, questions: pl.DataFrame, vectors: dict[str, QueryVector], index: OpenIndex
) -> None:
    """Rank one question without a clock: what an index makes at first use is no question's latency."""
    for text in questions["question"].head(1):
        _rank(retriever, text, vectors.get(text), index)


def _rank(
    retriever: Retriever, text: str, vector: QueryVector | None, index: OpenIndex
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    begin = time.perf_counter()
    try:
        ranking = retriever.rank(Query(text, vector.vector if vector else None), index)
    except Exception as error:  # one question's failure is a row; the others go on
        reason = f"{type(error).__name__}: {error}"
        return {"status": Status.ERROR, "reason": reason, "seconds": None, "n_hits": None}, []
    seconds = time.perf_counter() - begin + (vector.seconds if vector else 0.0)
    found = _hits(ranking, index)
    return {"status": Status.OK, "reason": None, "seconds": seconds, "n_hits": len(found)}, found


def _hits(ranking: Ranking, index: OpenIndex) -> list[dict[str, Any]]:
    """Return what is delivered, best first; a stretch that two chunks share is delivered once."""
    columns = ("chunk_id", "doc_id", "context_start", "context_end")
    places = index.made("places", lambda: index.chunks.select(columns).rows())
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for position, (row, score) in enumerate(zip(ranking.rows, ranking.scores, strict=True)):
        chunk_id, doc_id, start, end = places[row]
        if ranking.stretches is not None:
            start, end = (int(at) for at in ranking.stretches[position])
        hit = {"chunk_id": chunk_id, "doc_id": doc_id, "start": start, "end": end, "score": float(score)}
        found.setdefault((doc_id, start, end), hit)
    return [{"rank": rank, **hit} for rank, hit in enumerate(found.values(), 1)]


def _built(hits: list[dict[str, Any]], ranked: list[dict[str, Any]]) -> Built:
    failed = [row for row in ranked if row["status"] != Status.OK]
    seconds = pl.Series([row["seconds"] for row in ranked], dtype=pl.Float64).drop_nulls()
    content = [
        [h["question_id"], h["rank"], h["chunk_id"], h["start"], h["end"], round(h["score"], 6)] for h in hits
    ]
    meta: dict[str, Any] = {
        "questions": len(ranked),
        "failed": len(failed),
        "empty": sum(row["n_hits"] == 0 for row in ranked),
        "latency_p50_ms": _milliseconds(seconds, 0.5),
        "latency_p95_ms": _milliseconds(seconds, 0.95),
    }
    if failed:
        meta["incomplete"] = f"{len(failed)} of {len(ranked)} questions failed, first: {failed[0]['reason']}"
    version = digest([content, [[row["question_id"], row["status"]] for row in ranked]])
    return Built(version, meta, complete=not failed)


def _milliseconds(seconds: pl.Series, share: float) -> float | None:
    value = seconds.quantile(share, interpolation="linear") if len(seconds) else None
    return round(1000 * float(value), 2) if value is not None else None


def _vectors(questions: pl.DataFrame, embedder: CachedEmbedder, work: Work) -> dict[str, QueryVector]:
    texts = questions["question"].to_list()
    key = ("query vectors", embedder.recipe, digest(texts))
    return work.once(
        key,
        lambda: embed_queries(
            texts, embedder, lambda done, of: work.progress("embedding questions", done, of)
        ),
    )


def read_questions(artifacts: list[Artifact], work: Work) -> pl.DataFrame:
    """Read question sets as one frame (schemas.QUESTIONS), in their order."""
    frames = [
        read_parquet(work.store.folder(a.stage, a.identity) / "questions.parquet")
        for a in artifacts
        if a.stage == "questions"
    ]
    return pl.concat(frames)


def open_index(artifact: Artifact, work: Work) -> OpenIndex:
    """Open an index, once for each run."""
    folder = work.store.folder("indexes", artifact.identity)
    return work.once(("index", artifact.identity), lambda: OpenIndex(folder))
