"""rankings: what each retriever returns for each question, one partition a study's index and retriever."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from assets.embedding.cached import CachedEmbedder
from assets.stage import Built, Need, Stage, Work
from evals.grid import Grid
from evals.retrieving.contract import Clock, Kit, Memory, Query, Ranking, Trace
from evals.retrieving.index import OpenIndex
from evals.retrieving.kits import Made, TextEmbedder
from evals.retrieving.queries import QueryVector, embed_queries
from evals.understanding.notes import NOTES
from warehouse.artifacts import Artifact
from warehouse.identity import digest
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import HITS, RANKED, TRACES, Status


class Rankings(Stage):
    """Asks every question of every retriever of every index."""

    name = "rankings"
    group = "grid"
    description = (
        "The ranked chunks of every question, for one chunking, embedder and retriever; with the seconds "
        "that each question took, and the candidates of each step of the retriever. A question that fails is "
        "a row with its status and reason."
    )
    code_version = "2"
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
        found = {
            f"retriever.{cell.retriever}": recipe.identity(),
            f"trace.{cell.study}": digest(study.trace),
        }
        if recipe.recipe.needs_vector:
            embedder = study.embedders[cell.embedder]
            found[f"queries.{cell.embedder}"] = digest([embedder.revision(), embedder.query_prefix])
        return found

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Rank for every question."""
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        recipe = study.retrievers[cell.retriever]
        index_artifact, *set_artifacts = self.inputs(key, work.store)
        questions = read_questions(set_artifacts, work)
        index = open_index(index_artifact, work)
        embedder = CachedEmbedder(study.embedders[cell.embedder], work.home)
        vectors = _vectors(questions, embedder, work) if recipe.recipe.needs_vector else {}
        asker = Asker(recipe, index, vectors, _kit(index_artifact, embedder, work), study.trace)
        len(index)  # opened before the clock runs
        warm_up(asker, questions)
        asker.kit.made.pop(NOTES, None)  # what was said before is not of this retriever
        asked: list[Asked] = []
        for number, question in enumerate(questions.iter_rows(named=True), 1):
            asked.append(asker.ask(question))
            if number % 25 == 0 or number == len(questions):
                work.progress(f"ranking {key}", number, len(questions))
        hits = [hit for one in asked for hit in one.hits]
        ranked = [one.ranked for one in asked]
        write_parquet(frame(hits, HITS), folder / "hits.parquet")
        write_parquet(frame(ranked, RANKED), folder / "ranked.parquet")
        steps = frame([step for one in asked for step in one.steps], TRACES)
        write_parquet(steps, folder / "trace.parquet")
        built = _built(hits, ranked)
        noted = asker.kit.made.pop(NOTES, ())
        if noted:
            counts = Counter(f"{note.kind}: {note.status}" for note in noted)
            built.meta["understanding"] = dict(sorted(counts.items()))
        return built


class Asked(NamedTuple):
    """What one question came to: its row, its hits, and the candidates of each step."""

    ranked: dict[str, Any]
    hits: list[dict[str, Any]]
    steps: list[dict[str, Any]]


@dataclass(frozen=True)
class Asker:
    """Asks one retriever questions, one by one.

    recipe: a retriever as its study writes it
    vectors: of the questions, where it needs them
    depth: how many candidates of each step are kept
    """

    recipe: Any
    index: OpenIndex
    vectors: dict[str, QueryVector]
    kit: Kit
    depth: int

    def ask(self, question: dict[str, Any]) -> Asked:
        """Rank for a question, a row of `schemas.QUESTIONS`.

        Its seconds are those of understanding, embedding and searching it by itself: what another retriever
        or question of the run had computed before is counted as if it were computed now.
        """
        vector = self.vectors.get(question["question"])
        trace = Trace(depth=self.depth)
        query = Query(
            question["question"],
            vector.vector if vector else None,
            question.get("asked_at"),
            tuple(question.get("conversation") or ()),
            kit=self.kit,
            trace=trace,
        )
        own = {"question_id": question["question_id"]}
        saved, begin = self.kit.clock.saved, time.perf_counter()
        try:
            ranking = self.recipe.ranked(query, self.index)
        except Exception as error:  # one question's failure is a row; the others go on
            reason = f"{type(error).__name__}: {error}"
            failed = {"status": Status.ERROR, "reason": reason, "seconds": None, "n_hits": None}
            return Asked({**own, **failed}, [], [])
        seconds = time.perf_counter() - begin + self.kit.clock.saved - saved
        seconds += vector.seconds if vector else 0.0
        hits = [{**own, **hit} for hit in _hits(ranking, self.index)]
        row = {"status": Status.OK, "reason": None, "seconds": seconds, "n_hits": len(hits)}
        ids = self.index.chunks["chunk_id"]
        steps = [
            {**own, "step": note.step, "kind": note.kind, "chunk_ids": ids.gather(note.rows).to_list()}
            for note in trace.steps
        ]
        return Asked({**own, **row}, hits, steps)


def warm_up(asker: Asker, questions: pl.DataFrame) -> None:
    """Rank one question without a clock: what an index makes at first use is no question's latency."""
    cold = replace(asker, kit=replace(asker.kit, memory=None))
    for question in questions.head(1).iter_rows(named=True):
        cold.ask(question)


def _kit(index: Artifact, embedder: CachedEmbedder, work: Work) -> Kit:
    """Return what retrievers share: rankings of an index's arms, vectors of an embedder, loaded models."""
    clock = work.once("clock of cached results", Clock)
    return Kit(
        work.once(("embed", embedder.recipe), lambda: TextEmbedder(embedder, clock)),
        work.once("made by retrievers", Made),
        work.home,
        work.once(("arms", index.identity), Memory),
        clock,
    )


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
