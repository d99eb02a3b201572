"""scores: every metric of every question, one partition a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from assets.engine.stage import Built, Need, Stage, Work
from evals.measuring import get_metric
from evals.measuring.contract import OF_RANKING, Metric
from evals.measuring.reuse import FILE, METRICS, WaitingScores
from evals.measuring.score_rows import score_rows
from evals.pipeline.cell_cases import ScoreResources, read_cases
from evals.study.cells import NO_GENERATOR
from evals.study.grid import Grid
from warehouse.artifacts import Artifact
from warehouse.identity import digest
from warehouse.parquet import frame, write_parquet
from warehouse.schemas import SCORES, Status


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
    upstream = ("rankings", "answers", "questions", "documents")
    resumes: ClassVar[bool] = True

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return the keys of the cells."""
        return sorted(self.grid.cells)

    def needs(self, key: str) -> list[Need]:
        """Return ranking (where it is read), answers (where there is a generator), questions, and documents.

        Documents are needed only where a metric reads their titles or days.
        """
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        reads = any("documents" in get_metric(name).reads for name in study.metrics)
        documents = [Need("documents", source) for source in study.corpus.sources] if reads else []
        answers = [] if cell.generator == NO_GENERATOR else [Need("answers", key)]
        sets = [Need("questions", name) for name in self.grid.set_keys(cell.study)]
        rankings = [Need("rankings", cell.ranking)] if cell.reads_ranking else []
        return [*rankings, *answers, *sets, *documents]

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
        cell = self.grid.cells[key]
        study = self.grid.studies[cell.study]
        read = read_cases(study, cell, self.inputs(key, work.store), work)
        metrics = self._metrics(key)
        wanted = {metric.name: read.identity_of(metric) for metric in metrics}
        waiting = WaitingScores(folder)
        found = waiting.find(wanted)
        found |= self._stored(key, metrics, _without(wanted, found), work)
        computed = [metric for metric in metrics if metric.name not in found]
        broken: dict[str, str] = {}
        context = work.resource(ScoreResources).context(study)
        for metric in computed:
            rows, broke = score_rows(metric, read.cases, context)
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
        of_ranking = {m.name for m in metrics if m.reads <= OF_RANKING}
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
