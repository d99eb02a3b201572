"""scores: every metric of every question, one partition a cell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from assets.engine.stage import Built, Need, Stage, Work
from evals.answers import sampled_questions
from evals.gold.evidence import gold_of
from evals.measuring import get_metric
from evals.measuring.contract import Case, Metric, Score
from evals.rankings import read_questions
from evals.study.cells import NO_GENERATOR, Cell
from evals.study.grid import Grid
from warehouse.artifacts import Artifact
from warehouse.identity import digest
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import SCORES, Status
from warehouse.spans import Span


class Scores(Stage):
    """Measures every cell by every metric of its study."""

    name = "scores"
    group = "grid"
    description = (
        "One row a question and metric: a value, or a typed status and reason and no value. Retrieval "
        "metrics come from the ranking, "
        "answer metrics from the answer (ragas without an LLM), costs from both."
    )
    code_version = "2"
    upstream = ("rankings", "answers", "questions")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return the keys of the cells."""
        return sorted(self.grid.cells)

    def needs(self, key: str) -> list[Need]:
        """Return ranking, answers (where there is a generator) and questions."""
        cell = self.grid.cells[key]
        answers = [] if cell.generator == NO_GENERATOR else [Need("answers", key)]
        sets = [Need("questions", name) for name in self.grid.set_keys(cell.study)]
        return [Need("rankings", cell.ranking), *answers, *sets]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of the metrics; what is sampled shows in the answers."""
        study = self.grid.studies[self.grid.cells[key].study]
        metrics = [[name, *get_metric(name).versions()] for name in study.metrics]
        return {f"metrics.{study.study}": digest(metrics)}

    def regarded(self, artifact: Artifact) -> list[str]:
        """Return also what was measured: seconds, tokens and reasons are those of the cell that had them."""
        return [*super().regarded(artifact), artifact.measured]

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Measure one cell."""
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        cases = self._cases(key, cell, work)
        rows: list[dict[str, Any]] = []
        broken: list[str] = []
        for name in study.metrics:
            metric = get_metric(name)
            if metric.kind == "answer" and cell.generator == NO_GENERATOR:
                continue
            measured, broke = measure(metric, cases)
            rows += measured
            broken += [broke] if broke else []
        write_parquet(frame(rows, SCORES), folder / "scores.parquet")
        return _built(rows, broken)

    def _cases(self, key: str, cell: Cell, work: Work) -> list[Case]:
        artifacts = self.inputs(key, work.store)
        by_stage = {artifact.stage: artifact for artifact in artifacts}
        questions = sampled_questions(self.grid.studies[cell.study], cell, read_questions(artifacts, work))
        hits, ranked = _ranking(by_stage["rankings"], work)
        answers = _answers(by_stage.get("answers"), work)
        return [
            Case(question, gold_of(question), hits.get(qid, ()), ranked[qid], answers.get(qid))
            for question in questions.iter_rows(named=True)
            for qid in [question["question_id"]]
        ]


def measure(metric: Metric, cases: list[Case]) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows of schemas.SCORES for the questions that a metric applies to, and why it broke, if it did.

    A metric that breaks is data (a status and reason on all of its rows), not the end of the other metrics.
    """
    applicable = [case for case in cases if metric.applies(case.question)]
    broke = None
    try:
        scores = metric.measure(applicable)
    except Exception as error:
        broke = f"{metric.name}: {type(error).__name__}: {error}"
        scores = [Score(Status.ERROR, reason=broke)] * len(applicable)
    rows = [
        {"question_id": case.question["question_id"], "metric": metric.name, **score._asdict()}
        for case, score in zip(applicable, scores, strict=True)
    ]
    return rows, broke


def _ranking(artifact: Artifact, work: Work) -> tuple[dict[str, tuple[Span, ...]], dict[str, dict[str, Any]]]:
    def read() -> tuple[dict[str, tuple[Span, ...]], dict[str, dict[str, Any]]]:
        folder = work.store.folder("rankings", artifact.identity)
        found: dict[str, list[Span]] = {}
        hits = read_parquet(folder / "hits.parquet").sort("question_id", "rank")
        for question, doc, start, end in hits.select("question_id", "doc_id", "start", "end").iter_rows():
            found.setdefault(question, []).append(Span(doc, start, end))
        ranked = {
            row["question_id"]: row for row in read_parquet(folder / "ranked.parquet").iter_rows(named=True)
        }
        return {question: tuple(spans) for question, spans in found.items()}, ranked

    return work.once(("ranking", artifact.identity, artifact.data_version), read)


def _answers(artifact: Artifact | None, work: Work) -> dict[str, dict[str, Any]]:
    if artifact is None:
        return {}
    rows = read_parquet(work.store.folder("answers", artifact.identity) / "answers.parquet")
    return {row["question_id"]: row for row in rows.iter_rows(named=True)}


def _built(rows: list[dict[str, Any]], broken: list[str]) -> Built:
    statuses = Counter(str(row["status"]) for row in rows)
    errors = [row for row in rows if row["status"] == Status.ERROR and row["value"] is None]
    means = {
        str(name): round(float(value), 4)
        for name, value in frame(rows, SCORES)
        .group_by("metric")
        .agg(pl.col("value").mean())
        .sort("metric")
        .iter_rows()
        if value is not None
    }
    meta: dict[str, Any] = {
        "rows": len(rows),
        "by_status": dict(statuses),
        "means": means,
        "failed_rows": len(errors),
    }
    if broken:
        meta["incomplete"] = "; ".join(broken)
    content = [[row["question_id"], row["metric"], str(row["status"]), row["value"]] for row in rows]
    reasons = digest([row["reason"] for row in rows])
    return Built(digest(content), meta, complete=not broken, measured=reasons)
