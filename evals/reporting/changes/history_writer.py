"""Writes a line into a study's history when its result has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice, product

import polars as pl

from rag_assay.assets.chunks import Chunks
from rag_assay.assets.documents import Documents
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.stage import Stage
from rag_assay.assets.enrichments import Enrichments
from rag_assay.assets.indexes import Indexes
from rag_assay.assets.pages import Pages
from rag_assay.evals.annotations import Annotations
from rag_assay.evals.answers import Answers
from rag_assay.evals.human_estimates import HumanEstimates
from rag_assay.evals.judge_cards import JudgeCards
from rag_assay.evals.judgements import Judgements
from rag_assay.evals.leaderboard import Leaderboard
from rag_assay.evals.questions import Questions
from rag_assay.evals.rankings import Rankings
from rag_assay.evals.reporting.study_facts import study_facts, weight_digests
from rag_assay.evals.scores import Scores
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.history import Record, add_record, history_records
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home

_OPENED = ("questions", "rankings", "answers", "judgements", "scores")
"""Stages whose previous results are opened again, beside chunks and documents."""
_EARLIER = 30  # documents of a source among which those are looked for that were cut
_TRIES = 1_000


def is_recorded(study: str, home: Home) -> bool:
    """Return whether the history ends with the current result, or there is none."""
    current = ArtifactStore(home).current("leaderboard", study)
    if current is None:
        return True
    lines = history_records(home, study)
    return bool(lines) and lines[-1]["leaderboard"] == current.identity


def record_result(grid: Grid, name: str, home: Home, run: str = "") -> bool:
    """Add the current result to the history unless it is its last line; return whether it was added.

    The report must be up to date, so that all artifacts belong together. run: id of the Dagster run, if any
    """
    if is_recorded(name, home):
        return False
    store = ArtifactStore(home)
    board = store.current("leaderboard", name)
    lines = history_records(home, name)
    assert board is not None  # noqa: S101 -- `is_recorded` has seen it
    before = lines[-1] if lines else None
    record = {
        **_identity(name, board, before, store),
        "run": run,
        **_standing(grid.studies[name], board, store),
        **_made_of(grid, name, before, store),
    }
    return add_record(home, record)


def _identity(study: str, board: Artifact, before: Record | None, store: ArtifactStore) -> Record:
    pointed = store.pointed_at("leaderboard", study)
    at = datetime.fromtimestamp(pointed, UTC) if pointed else datetime.now(UTC)
    if before:  # clocks go back
        at = max(at, datetime.fromisoformat(before["since"]))
    entry = digest([study, board.identity, before["entry"] if before else None])
    stored = {"leaderboard": board.identity, "data_version": board.data_version}
    return {"entry": entry, "study": study, "since": at.isoformat(), **stored}


def _standing(study: Study, board: Artifact, store: ArtifactStore) -> Record:
    folder = store.folder("leaderboard", board.identity)
    verdict = Verdict.of_row(read_parquet(folder / "verdicts.parquet").row(0, named=True))
    mine = read_parquet(folder / "leaderboard.parquet").filter(
        (pl.col("metric") == verdict.metric) & (pl.col("subset") == verdict.subset)
    )
    standing = mine.sort(["rank", "cell"], nulls_last=True).select(
        "cell", "value", "low", "high", "rank", "tied", "within_margin", "coverage"
    )
    leader = verdict.leader
    ends = {name: getattr(leader, name) for name in ("value", "low", "high")} if leader else {}
    return {
        "metric": verdict.metric,
        "metrics": [
            {"name": one.name, "title": one.title, "higher_is_better": one.higher_is_better, "unit": one.unit}
            for one in map(study.metric, study.measured)
        ],
        "subset": verdict.subset,
        "leader": leader.cell if leader else None,
        "recommended": verdict.recommended.cell if verdict.recommended else None,
        "verdict": list(verdict.sentences),
        **ends,
        "tied": len(verdict.tied) + 1 if leader else 0,
        "cells": verdict.cells,
        "questions": verdict.questions,
        "standing": standing.to_dicts(),
    }


def _made_of(grid: Grid, name: str, before: Record | None, store: ArtifactStore) -> Record:
    study = grid.studies[name]
    stages = _stages(grid)
    documents = _documents(study, before, store)
    sizes = {source: one.meta.get("documents", 0) for source, one in documents.items()}
    facts = study_facts(study, store)
    written = {**{one.name: one.recipe for one in facts.chunkings}, **facts.recipes}
    keys = {
        "chunks": study.chunk_sets(),
        "questions": grid.set_keys(name),
        "rankings": study.rankings(),
        **{stage: [cell.key for cell in study.runs()] for stage in ("answers", "scores")},
        "judgements": [one.key for cell in study.runs() for one in grid.judgements_of(cell)],
    }
    current = {
        stage: {key: artifact for key in keys[stage] if (artifact := store.current(stage, key))}
        for stage in ("chunks", *_OPENED)
    }
    found = {stage: {key: one.identity for key, one in those.items()} for stage, those in current.items()}
    return {
        "documents": sum(sizes.values()),
        "seed": study.seed,
        "clusters": study.clusters,
        "sources": {
            source: {"identity": one.identity, "data_version": one.data_version, "documents": sizes[source]}
            for source, one in documents.items()
        },
        "sets": {key: one.data_version for key, one in current["questions"].items()},
        "recipes": dict(_recipes(stages)),
        "written": written,
        "code": {stage.name: stage.code_version for stage in stages} | {"rag-assay": version("rag-assay")},
        "weights": weight_digests(study),
        "artifacts": {stage: named for stage, named in found.items() if named},
    }


def _stages(grid: Grid) -> list[Stage]:
    build = grid.build
    building: list[Stage] = [
        one(build) for one in (Pages, Documents, Chunks, Enrichments, Embeddings, Indexes)
    ]
    comparing: list[Stage] = [
        one(grid)
        for one in (Questions, Rankings, Answers, Annotations, Judgements, JudgeCards, Scores, HumanEstimates)
    ]
    return [*building, *comparing, Leaderboard(grid)]


def _recipes(stages: list[Stage]) -> Iterator[tuple[str, str]]:
    for stage in stages:
        for key in stage.keys():
            try:
                yield from stage.recipes(key).items()
            except AssayError:
                continue  # a file that is not there now: what was made of it is


def _documents(study: Study, before: Record | None, store: ArtifactStore) -> dict[str, Artifact]:
    """Return source -> the documents that were chunked, by their contents' digest; else the current ones."""
    current = {one: found for one in study.corpus.sources if (found := store.current("documents", one))}
    cut = [found for key in study.chunk_sets() if (found := store.current("chunks", key))]
    made_of = cut[0].meta.get("made_of") if cut else None
    if not current or made_of is None or len(current) < len(study.corpus.sources):
        return current
    candidates = []
    for source in study.corpus.sources:
        known = ((before or {}).get("sources", {}).get(source) or {}).get("identity")
        earlier = sorted(
            (one for one in store.all("documents") if one.key == source),
            key=lambda one: (one.identity == known, one.created_at),
            reverse=True,
        )
        candidates.append([current[source], *(one for one in earlier if one != current[source])][:_EARLIER])
    for those in islice(product(*candidates), _TRIES):
        if digest([["documents", one.data_version] for one in those]) == made_of:
            return dict(zip(study.corpus.sources, those, strict=True))
    return current
