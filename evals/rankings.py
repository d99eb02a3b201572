"""rankings: what each retriever returns for each question, one partition a study's index and retriever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from assets.embedding.cached import CachedEmbedder
from assets.stage import Built, Need, Stage, Work
from evals.gold import gold_of
from evals.grid import Grid
from evals.losses import losses_of
from evals.measuring.contract import Span
from evals.retrieving.asking import Asked, Asker, warm_up
from evals.retrieving.contract import Clock, Kit, Memory, Query, TrainCase
from evals.retrieving.index import OpenIndex
from evals.retrieving.kits import Made, TextEmbedder
from evals.retrieving.queries import QueryVector, embed_queries
from evals.retrieving.tuning import TUNED
from evals.study import Budget, Cell
from evals.understanding.notes import NOTES
from warehouse.artifacts import Artifact
from warehouse.errors import InputError
from warehouse.identity import digest
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import HITS, LOSSES, RANKED, TRACES, Status


class Rankings(Stage):
    """Asks every question of every retriever of every index."""

    name = "rankings"
    group = "grid"
    description = (
        "The ranked chunks of every question, for one chunking, embedder and retriever; with the seconds "
        "that each question took, the candidates of each step of the retriever, and where evidence was lost. "
        "A question that fails is a row with its status and reason."
    )
    code_version = "3"
    upstream = ("indexes", "questions")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return `study.chunking.embedder.retriever` keys."""
        return sorted(self.grid.rankings)

    def needs(self, key: str) -> list[Need]:
        """Return the index, the study's question sets and, where something is tuned, its train sets."""
        cell = self.grid.rankings[key]
        return [
            Need("indexes", self.grid.index_key(cell)),
            *(Need("questions", name) for name in self.grid.set_keys(cell.study)),
            *(Need("questions", name) for name in self._train_keys(cell)),
        ]

    def _train_keys(self, cell: Cell) -> list[str]:
        recipe = self.grid.studies[cell.study].retrievers[cell.retriever].recipe
        return self.grid.train_keys(cell.study) if recipe.needs_tuning else []

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
            found[f"queries.{cell.embedder}"] = embedder.query_revision()
        if recipe.recipe.needs_tuning:
            found[f"tuning.{cell.study}"] = digest(study.tuning_metric)
        return found

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Rank for every question."""
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        recipe = study.retrievers[cell.retriever]
        index_artifact, *set_artifacts = self.inputs(key, work.store)
        n_train = len(self._train_keys(cell))
        asked_sets = set_artifacts[: len(set_artifacts) - n_train]
        questions = read_questions(asked_sets, work)
        index = open_index(index_artifact, work)
        embedder = CachedEmbedder(study.embedders[cell.embedder], work.home)
        vectors = _vectors(questions, embedder, work) if recipe.recipe.needs_vector else {}
        kit = _kit(index_artifact, embedder, study.budget, work)
        if n_train:
            train = read_questions(set_artifacts[len(asked_sets) :], work)
            work.progress(f"tuning {key} on {len(train)} train questions", 0, 0)
            recipe = recipe.tuned(_cases(recipe, train, embedder, kit), index, study.tuning_metric)
        asker = Asker(recipe, index, vectors, kit, study.trace)
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
        write_parquet(frame(_losses(questions, asked, index), LOSSES), folder / "losses.parquet")
        built = _built(hits, ranked)
        chosen = kit.made.pop(TUNED, ())
        if chosen:
            built.meta["tuned"] = [one._asdict() for one in chosen]
        noted = asker.kit.made.pop(NOTES, ())
        if noted:
            counts = Counter(f"{note.kind}: {note.status}" for note in noted)
            built.meta["understanding"] = dict(sorted(counts.items()))
        return built


def _cases(recipe: Any, questions: pl.DataFrame, embedder: CachedEmbedder, kit: Kit) -> list[TrainCase]:
    """Return the train questions that have evidence, each with what it should find."""
    answerable = questions.filter(pl.col("gold") != "none")
    if not len(answerable):
        raise InputError("no train question has evidence: there is nothing to tune on")
    texts = answerable["question"].to_list()
    vectors = embedder.queries(texts).vectors if recipe.recipe.needs_vector else [None] * len(texts)
    return [
        TrainCase(
            Query(
                row["question"],
                vector,
                row["asked_at"],
                tuple(row["conversation"] or ()),
                kit=kit,
            ),
            gold_of(row).documents,
        )
        for row, vector in zip(answerable.iter_rows(named=True), vectors, strict=True)
    ]


def _losses(questions: pl.DataFrame, asked: list[Asked], index: OpenIndex) -> list[dict[str, Any]]:
    """Say of each piece of evidence where it was lost (schemas.LOSSES)."""
    ranked = [one for one in asked if one.ranked["status"] == Status.OK]
    ids = [one.ranked["question_id"] for one in ranked]
    passages = [[Span(hit["doc_id"], hit["start"], hit["end"]) for hit in one.hits] for one in ranked]
    return losses_of(
        questions,
        dict(zip(ids, (one.trace for one in ranked), strict=True)),
        dict(zip(ids, passages, strict=True)),
        index,
        dict(zip(ids, (one.trace.allowed for one in ranked), strict=True)),
    )


def _kit(index: Artifact, embedder: CachedEmbedder, budget: Budget | None, work: Work) -> Kit:
    """Return what retrievers share: rankings of an index's arms, vectors of an embedder, loaded models."""
    clock = work.once("clock of cached results", Clock)
    return Kit(
        work.once(("embed", embedder.recipe), lambda: TextEmbedder(embedder, clock)),
        work.once("made by retrievers", Made),
        work.home,
        work.once(("arms", index.identity), Memory),
        clock,
        budget.usd if budget else None,
    )


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
