"""scores: every metric of every question, one partition a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl

from assets.engine.stage import Built, Need, Resource, Stage, Work
from evals.gold.evidence import gold_of
from evals.measuring import get_metric
from evals.measuring.context import MetricContext
from evals.measuring.contract import Answer, Case, Metric, Ranked, Reading, Score
from evals.measuring.reuse import FILE, METRICS, StoredScores, WaitingScores, identity_of
from evals.pipeline.stage_inputs import budget_of, read_questions, sampled_questions
from evals.study.cells import NO_GENERATOR
from evals.study.grid import Grid
from evals.study.study import Study
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
        "metrics come from the ranking, answer metrics from the answer (ragas without an LLM), costs from "
        "both. Each metric is computed again only where its code, the questions or what it reads has changed."
    )
    code_version = "2"
    upstream = ("rankings", "answers", "questions")
    resumes: ClassVar[bool] = True

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
        metrics = [[name, *get_metric(name).all_versions()] for name in study.metrics]
        return {f"metrics.{study.study}": digest(metrics)}

    def regarded(self, artifact: Artifact) -> list[str]:
        """Return also what was measured: seconds, tokens and reasons are those of the cell that had them."""
        return [*super().regarded(artifact), artifact.measured]

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Measure one cell by the metrics whose scores are not there yet."""
        inputs = self._read(key, work)
        metrics = self._metrics(key)
        wanted = {metric.name: inputs.identity_of(metric) for metric in metrics}
        waiting = WaitingScores(folder)
        found = waiting.find(wanted)
        found |= self._stored(key, metrics, _without(wanted, found), work)
        computed = [metric for metric in metrics if metric.name not in found]
        broken: dict[str, str] = {}
        context = work.resource(ScoreResources).context(self.grid.studies[self.grid.cells[key].study])
        for metric in computed:
            rows, broke = measure(metric, inputs.cases, context)
            found[metric.name] = frame(rows, SCORES)
            if broke:
                broken[metric.name] = broke
            else:
                waiting.add(wanted[metric.name], found[metric.name])
        scores = pl.concat([frame([], SCORES), *(found[name] for name in wanted)])
        write_parquet(scores, folder / FILE)
        waiting.clear()
        meta = {"metrics_computed": [metric.name for metric in computed], METRICS: _without(wanted, broken)}
        return _built(scores, meta, list(broken.values()))

    def _stored(
        self, key: str, metrics: list[Metric], wanted: dict[str, str], work: Work
    ) -> dict[str, pl.DataFrame]:
        """Return the rows of those of the wanted metrics (name -> identity) that were stored before.

        The key itself may hold them, a cell of the same ranking, or any cell of any study.
        """
        stored = work.resource(ScoreResources).stored
        found = stored.of_keys(wanted, [key])
        of_ranking = {m.name for m in metrics if m.reads <= {"ranking", "retrieval_cost"}}
        shared = {name: identity for name, identity in _without(wanted, found).items() if name in of_ranking}
        found |= stored.of_keys(shared, self._cells_of[self.grid.cells[key].ranking])
        return found | stored.anywhere(_without(wanted, found))

    @cached_property
    def _cells_of(self) -> dict[str, list[str]]:
        """The cells of each ranking."""
        found: dict[str, list[str]] = {}
        for key in self.keys():
            found.setdefault(self.grid.cells[key].ranking, []).append(key)
        return found

    def _metrics(self, key: str) -> list[Metric]:
        """Return the metrics that a cell is measured by: those of answers only where there are answers."""
        cell = self.grid.cells[key]
        found = map(get_metric, self.grid.studies[cell.study].metrics)
        return [m for m in found if m.kind != "answer" or cell.generator != NO_GENERATOR]

    def _read(self, key: str, work: Work) -> Inputs:
        cell = self.grid.cells[key]
        artifacts = self.inputs(key, work.store)
        by_stage = {artifact.stage: artifact for artifact in artifacts}
        questions = sampled_questions(self.grid.studies[cell.study], cell, read_questions(artifacts, work))
        sets = [artifact.data_version for artifact in artifacts if artifact.stage == "questions"]
        ids = questions["question_id"].to_list()
        ranking = work.resource(ScoreResources).ranking(by_stage["rankings"])
        answers, answer_digests = _answers(by_stage.get("answers"), work)
        cases = [
            Case(
                question,
                gold_of(question),
                ranking.hits.get(question["question_id"], ()),
                ranking.ranked[question["question_id"]],
                answers.get(question["question_id"]),
            )
            for question in questions.iter_rows(named=True)
        ]
        return Inputs(cases, digest([sets, ids]), {**ranking.digests, **answer_digests})


class Inputs(NamedTuple):
    """What a cell is measured by.

    questions: digest of its questions and their evidence
    digests: of all that metrics may read of its ranking and answers
    """

    cases: list[Case]
    questions: str
    digests: dict[Reading, str]

    def identity_of(self, metric: Metric) -> str:
        """Return the digest of all that the scores of a metric depend on here."""
        return identity_of(metric, self.questions, self.digests)


class RankingRows(NamedTuple):
    """A ranking as metrics read it, by question id."""

    hits: dict[str, tuple[Span, ...]]
    ranked: dict[str, Ranked]
    digests: dict[Reading, str]


def measure(
    metric: Metric, cases: Sequence[Case], context: MetricContext
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows of schemas.SCORES for the questions that a metric applies to, and why it broke, if it did.

    It is given what it says that it reads, and nothing else. A metric that breaks is data (a status and a
    reason on all of its rows), not the end of the other metrics.
    """
    applicable = [case.only(metric.reads) for case in cases if metric.applies(case.question)]
    broke = None
    try:
        scores = metric.measure(applicable, context)
    except Exception as error:
        broke = f"{metric.name}: {type(error).__name__}: {error}"
        scores = [Score(Status.ERROR, reason=broke)] * len(applicable)
    rows = [
        {"question_id": case.question["question_id"], "metric": metric.name, **score._asdict()}
        for case, score in zip(applicable, scores, strict=True)
    ]
    return rows, broke


class ScoreResources(Resource):
    """What the scores of a run share: stored scores, what metrics may use, and rankings that were read."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.stored = StoredScores(work.store, lambda artifact: not work.damage(artifact))
        self._contexts: dict[str, MetricContext] = {}
        self._rankings: dict[tuple[str, str], RankingRows] = {}

    def context(self, study: Study) -> MetricContext:
        """Return what the metrics of a study may use."""
        if study.study not in self._contexts:
            self._contexts[study.study] = MetricContext(self.work.home, budget_of(study, self.work))
        return self._contexts[study.study]

    def ranking(self, artifact: Artifact) -> RankingRows:
        """Return the rows of a ranking, read once."""
        key = (artifact.identity, artifact.data_version)
        if key not in self._rankings:
            folder = self.work.store.folder(artifact.stage, artifact.identity)
            self._rankings[key] = _ranking(folder, artifact.data_version)
        return self._rankings[key]

    def close(self) -> None:
        """Stop what the metrics started."""
        for context in self._contexts.values():
            context.close()


def _ranking(folder: Path, data_version: str) -> RankingRows:
    found: dict[str, list[Span]] = {}
    hits = read_parquet(folder / "hits.parquet").sort("question_id", "rank")
    for question, doc, start, end in hits.select("question_id", "doc_id", "start", "end").iter_rows():
        found.setdefault(question, []).append(Span(doc, start, end))
    rows = read_parquet(folder / "ranked.parquet").select("question_id", "status", "reason", "seconds")
    ended = [[data_version], *map(list, rows.drop("seconds").rows())]
    digests: dict[Reading, str] = {
        "ranking": digest(ended),
        "retrieval_cost": digest([ended, rows["seconds"].to_list()]),
    }
    ranked = {
        question: Ranked(Status(status), reason, seconds)
        for question, status, reason, seconds in rows.iter_rows()
    }
    return RankingRows({question: tuple(spans) for question, spans in found.items()}, ranked, digests)


def _answers(artifact: Artifact | None, work: Work) -> tuple[dict[str, Answer], dict[Reading, str]]:
    if artifact is None:
        return {}, {"answer": "", "answer_cost": ""}
    stored = read_parquet(work.store.folder("answers", artifact.identity) / "answers.parquet")
    texts = ["question_id", "status", "reason", "answer"]
    costs = ["seconds", "prompt_tokens", "completion_tokens"]
    rows = stored.select(*texts, *costs)
    digests: dict[Reading, str] = {
        "answer": digest(list(map(list, rows.select(texts).rows()))),
        "answer_cost": digest(list(map(list, rows.drop("answer").rows()))),
    }
    answers = {question: Answer(Status(status), *rest) for question, status, *rest in rows.iter_rows()}
    return answers, digests


def _without(wanted: dict[str, str], names: Container[str]) -> dict[str, str]:
    return {name: identity for name, identity in wanted.items() if name not in names}


def _built(scores: pl.DataFrame, meta: dict[str, Any], broken: list[str]) -> Built:
    failed = scores.filter((pl.col("status") == Status.ERROR) & pl.col("value").is_null())
    means = scores.group_by("metric").agg(pl.col("value").mean()).drop_nulls().sort("metric")
    meta = {
        "rows": len(scores),
        "by_status": dict(Counter(scores["status"].to_list())),
        "means": {name: round(value, 4) for name, value in means.iter_rows()},
        "failed_rows": len(failed),
        **meta,
    }
    if broken:
        meta["incomplete"] = "; ".join(broken)
    content = list(map(list, scores.select("question_id", "metric", "status", "value").rows()))
    return Built(digest(content), meta, complete=not broken, measured=digest(scores["reason"].to_list()))
