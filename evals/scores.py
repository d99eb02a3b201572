"""scores: every metric of every question, one partition a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from rag_assay.assets.engine.row_checks import FIRST, WITHIN_BUDGET, at_most, within_budget
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import Plot, StageTable, bars
from rag_assay.assets.recipes.build_half import may_cost
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import OF_RANKING, Case, Metric, Score, score_rows
from rag_assay.evals.metrics.reuse import FILE, METRICS, NOT_ANNOTATED, NOT_JUDGED, WAITING
from rag_assay.evals.pipeline.stage_inputs import GridStage
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores, is_unrated
from rag_assay.evals.rubrics.rubric import PEOPLE
from rag_assay.evals.study.cells import NO_GENERATOR, Cell, JudgedCell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.attempts import Pieces
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import RETRYABLE, SCORES, Status

FAILED_AT_MOST = 0.02  # of the rows, without a warning
FAILURES = RETRYABLE - {Status.NOT_RUN} | {Status.PARSE_FAILED, Status.TRUNCATED}


def _means(rows: pl.DataFrame) -> str | None:
    by_metric = rows.drop_nulls("value").group_by("metric", maintain_order=True)
    found = by_metric.agg(pl.col("value").mean(), most=pl.col("value").max(), least=pl.col("value").min())
    unit = found.filter((pl.col("least") >= 0) & (pl.col("most") <= 1))
    return bars(dict(unit.select("metric", "value").rows()))


class Scores(GridStage):
    """Measures every cell by every metric of its study."""

    name = "scores"
    description = (
        "One row a question and metric: a value, or a typed status and reason and no value. Retrieval "
        "metrics come from the ranking, answer metrics from the answer (ragas without an LLM), costs from "
        "both, a judge's from its judgements, which vote, and people's from what they say. Each metric is "
        "computed again only where its code, the questions or what it reads has changed."
    )
    table = StageTable(
        FILE,
        SCORES,
        ("question_id", "metric", "status", "value", "reason"),
        (Plot("means of metrics from 0 to 1", ("metric", "value"), _means, most=100_000),),
    )
    code_version = "2"
    upstream = ("rankings", "answers", "judgements", "annotations", "questions", "documents")
    family = "metrics"
    lineage = ("rankings", "answers", "judgements", "annotations", "questions")
    checks: ClassVar[dict[str, str]] = {
        "few_failed": f"At most {FAILED_AT_MOST:.0%} of the scores failed: by a call, a reply or the code.",
        "within_budget": WITHIN_BUDGET,
    }
    tolerates_gaps = True
    resumes: ClassVar[bool] = True

    def keys(self) -> list[str]:
        return sorted(self.grid.cells)

    def needs(self, key: str) -> list[PartitionRef]:
        """Judgements and annotations that could not be made are left out: all else is measured."""
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        reads = study.study in self._reading_documents
        documents = [PartitionRef("documents", source) for source in study.corpus.sources] if reads else []
        answers = [] if cell.generator == NO_GENERATOR else [PartitionRef("answers", key)]
        sets = [PartitionRef("questions", name) for name in self.grid.set_keys(cell.study)]
        rankings = [PartitionRef("rankings", cell.ranking)] if cell.reads_ranking else []
        judgements = [PartitionRef("judgements", one.key) for one in self._judgements(key)]
        return [*rankings, *answers, *sets, *documents, *judgements, *self._annotations(cell)]

    @cached_property
    def _reading_documents(self) -> frozenset[str]:
        return frozenset(
            name
            for name, study in self.grid.studies.items()
            if any("documents" in study.metric(one).reads for one in study.metrics)
        )

    @cached_property
    def _computed(self) -> dict[str, str]:
        """By study, the digest of its metrics that neither judges nor people give."""
        return {
            name: digest(
                [
                    [metric.name, *metric.all_versions()]
                    for metric in map(study.metric, study.metrics)
                    if not isinstance(metric, JudgedScores | PeopleScores)
                ]
            )
            for name, study in self.grid.studies.items()
        }

    @cached_property
    def _spending(self) -> frozenset[str]:
        return frozenset(
            name for name, study in self.grid.studies.items() if may_cost(*map(study.metric, study.metrics))
        )

    def _annotations(self, cell: Cell) -> list[PartitionRef]:
        asked = self.grid.studies[cell.study].rubrics and cell.generator != NO_GENERATOR
        need = PartitionRef("annotations", cell.study)
        return [need] if asked and need not in self.without else []

    def _judgements(self, key: str) -> list[JudgedCell]:
        found = self.grid.judgements_of(self.grid.cells[key])
        return [one for one in found if PartitionRef("judgements", one.key) not in self.without]

    def recipes(self, key: str) -> dict[str, str]:
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        measured = study.metrics_of(cell) if study.judges or study.rubrics else []
        people = [m for m in measured if isinstance(m, PeopleScores)]
        judged: dict[str, list[list[str]]] = {}
        for metric in measured:
            if isinstance(metric, JudgedScores):
                judged.setdefault(metric.judge, []).append([metric.name, *metric.all_versions()])
        gaps = {one.judge for one in self.grid.judgements_of(cell)} - {
            one.judge for one in self._judgements(key)
        }
        if people and not self._annotations(cell):
            gaps.add(PEOPLE)
        return {
            f"metrics.{study.study}": self._computed[study.study],
            **{f"judged.{study.study}.{judge}": digest(found) for judge, found in judged.items()},
            **(
                {f"people.{study.study}": digest([[m.name, *m.all_versions()] for m in people])}
                if people
                else {}
            ),
            **({f"gaps.{key}": digest(sorted(gaps))} if gaps else {}),
        }

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        return [*super().cache_key_of(artifact), artifact.measured]

    def project_input(self, key: str, artifact: Artifact) -> Artifact:
        if artifact.stage != "annotations":
            return artifact
        return replace(artifact, data_version=artifact.meta["by_cell"].get(key, ""), measured="")

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        return self.grid.cells[key].study in self._spending

    def on_computed(self, keys: Sequence[str], work: BuildContext) -> None:
        from rag_assay.evals.pipeline.traces import trace_cells

        trace_cells(self.grid, keys, work)

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.pipeline.cell_cases import ScoreResources, read_cases

        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        inputs = dict(zip(self.needs(key), self.inputs(key, work.store), strict=True))
        judgements = {one.judge: inputs[PartitionRef("judgements", one.key)] for one in self._judgements(key)}
        read = read_cases(study, cell, list(inputs.values()), judgements, work)
        metrics = study.metrics_of(cell)
        annotated = bool(self._annotations(cell))
        there = [m for m in metrics if _is_there(m, judgements, annotated=annotated)]
        wanted = {metric.name: read.identity_of(metric) for metric in there}
        waiting = Pieces(folder, WAITING)
        found = waiting.find(wanted)
        found |= self._stored(key, there, _without(wanted, found), work)
        computed = [metric for metric in there if metric.name not in found]
        broken: dict[str, str] = {}
        context = work.resource(ScoreResources).context(study)
        for metric in computed:
            rows, broke = score_rows(metric, self._cases_of(metric, read.cases, study), context)
            found[metric.name] = frame(rows, SCORES)
            if broke:
                broken[metric.name] = broke
            else:
                waiting.add(wanted[metric.name], found[metric.name])
        gaps = [metric for metric in metrics if metric not in there]
        for metric in gaps:
            found[metric.name] = frame(_not_said(metric, self._cases_of(metric, read.cases, study)), SCORES)
        scores = pl.concat([frame([], SCORES), *(found[metric.name] for metric in metrics)])
        write_parquet(scores, folder / FILE)
        waiting.clear()
        missing = [one.key for one in self.grid.judgements_of(cell) if one.judge not in judgements]
        meta: dict[str, Any] = {
            "metrics_computed": [metric.name for metric in computed],
            METRICS: _without(wanted, broken),
        }
        meta |= {NOT_JUDGED: missing} if missing else {}
        if any(isinstance(metric, PeopleScores) for metric in gaps):
            meta[NOT_ANNOTATED] = True
        return _built(scores, meta, list(broken.values()))

    def _stored(
        self, key: str, metrics: list[Metric], wanted: dict[str, str], work: BuildContext
    ) -> dict[str, pl.DataFrame]:
        """Return the rows of those of the wanted metrics (name -> identity) that were stored before.

        The key itself may hold them, a cell of the same ranking, or any cell of any study.
        """
        from rag_assay.evals.pipeline.cell_cases import ScoreResources

        stored = work.resource(ScoreResources).stored
        found = stored.of_keys(wanted, [key])
        of_ranking = {m.name for m in metrics if m.reads <= OF_RANKING}
        shared = {name: identity for name, identity in _without(wanted, found).items() if name in of_ranking}
        found |= stored.of_keys(shared, self._cells_of[self.grid.cells[key].ranking])
        return found | stored.anywhere(_without(wanted, found))

    @cached_property
    def _cells_of(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self.keys():
            found.setdefault(self.grid.cells[key].ranking, []).append(key)
        return found

    def _cases_of(self, metric: Metric, cases: list[Case], study: Study) -> list[Case]:
        """Return the cases of a metric: of a judge's its sample, of a pair's what both cells were asked."""
        if isinstance(metric, JudgedScores):
            size = study.judged_sample(metric.judge)
        elif isinstance(metric, PeopleScores):
            size = study.scored_sample(metric.rubric)
        else:
            return cases
        ids = [case.question["question_id"] for case in cases]
        chosen = set(study.sampled(ids, size))
        return [case for case in cases if case.question["question_id"] in chosen]


def _is_there(metric: Metric, judgements: Container[str], *, annotated: bool) -> bool:
    if isinstance(metric, JudgedScores):
        return metric.judge in judgements
    return annotated or not isinstance(metric, PeopleScores)


def _not_said(metric: Metric, cases: list[Case]) -> list[dict[str, Any]]:
    who = "the judge needs" if isinstance(metric, JudgedScores) else "human ratings need"
    score = Score(Status.NOT_RUN, reason=f"what {who} failed")
    return [
        {"question_id": case.question["question_id"], "metric": metric.name, **score._asdict()}
        for case in cases
        if metric.applies(case.question)
    ]


def _without(wanted: dict[str, str], names: Container[str]) -> dict[str, str]:
    return {name: identity for name, identity in wanted.items() if name not in names}


def _built(scores: pl.DataFrame, meta: dict[str, Any], broken: list[str]) -> BuildResult:
    failed = scores.filter((pl.col("status") == Status.ERROR) & pl.col("value").is_null())
    means = scores.group_by("metric").agg(pl.col("value").mean()).drop_nulls().sort("metric")
    meta = {
        "rows": len(scores),
        "by_status": dict(Counter(scores.filter(~is_unrated())["status"].to_list())),
        "not_rated_yet": scores.filter(is_unrated()).height,
        "means": {name: round(value, 4) for name, value in means.iter_rows()},
        "failed_rows": len(failed),
        **meta,
    }
    if broken:
        meta["incomplete"] = "; ".join(broken)
    content = list(map(list, scores.select("question_id", "metric", "status", "value").rows()))
    measured = digest(scores["reason"].to_list())
    return BuildResult(digest(content), meta, _checks(scores), complete=not broken, measured=measured)


def _checks(scores: pl.DataFrame) -> tuple[Check, ...]:
    failed = scores.filter(pl.col("status").is_in(FAILURES))
    rows = failed.select("question_id", "metric", "status", "reason").head(FIRST).rows()
    names = [f"{question}, {metric}: {status}: {reason}" for question, metric, status, reason in rows]
    names += [""] * (len(failed) - len(names))
    by_metric = dict(Counter(failed["metric"].to_list()))
    what = "scores failed"
    few = at_most("few_failed", FAILED_AT_MOST, names, len(scores), what, numbers={"by_metric": by_metric})
    return few, within_budget(scores.select("question_id", "status").iter_rows())
