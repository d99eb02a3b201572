"""The judgements that a card is computed from, put in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from rag_assay.evals.judge_calibration.judge_trials import JudgeTrial
from rag_assay.evals.judging.contract import Judge, JudgedMetric
from rag_assay.evals.judging.judge_metrics import aggregate_replicates
from rag_assay.evals.judging.pairwise import PLACES
from rag_assay.evals.metrics.contract import Score
from rag_assay.warehouse.schemas import Status

Row = dict[str, Any]
Study = Mapping[str, Sequence[Row]]
"""Key of a cell's judgements -> rows of schemas.JUDGEMENTS."""


class CalibrationJudgements:
    """What a judge has said of its trials and of the study.

    Args:
        judge: as the study has it.
        metrics: that the card is about.
        trials: with their judgements, rows of `schemas.JUDGEMENTS` whose question is the trial.
        of_study: the judge's judgements of the study's answers.
        lengths: case id -> characters of the answer, of cases of the study whose answers were read.
        seed: the study's.
    """

    def __init__(
        self,
        judge: Judge,
        metrics: Sequence[JudgedMetric],
        trials: Sequence[JudgeTrial],
        rows: Sequence[Row],
        of_study: Study,
        lengths: Mapping[str, int],
        seed: int,
    ) -> None:
        self.judge = judge
        self.metrics = metrics
        self.trials = {trial.trial_id: trial for trial in trials}
        self.seed = seed
        self.lengths = lengths
        self._of_study = of_study
        self._rows = rows
        self._by_metric: dict[str, list[tuple[str, Row]]] = defaultdict(list)
        for source, found in (("", rows), *of_study.items()):
            for row in found:
                self._by_metric[row["metric"]].append((source, row))

    def score(self, trial: str, metric: JudgedMetric) -> float | None:
        """Return what the replicates of a trial come to, as they do in the study."""
        return self._scores[trial, metric.name].value if (trial, metric.name) in self._scores else None

    @cached_property
    def _scores(self) -> dict[tuple[str, str], Score]:
        found: dict[tuple[str, str], list[Score]] = defaultdict(list)
        for row in self._rows:
            if row["replicate"] <= self.judge.times:
                one = Score(Status(row["status"]), row["value"], row["reason"])
                found[row["question_id"], row["metric"]].append(one)
        return {place: aggregate_replicates(scores, self.judge.vote) for place, scores in found.items()}

    def asked(self, metric: JudgedMetric) -> list[Row]:
        """Return the judgements that the judge was asked for: not those that nothing could be asked for."""
        return [
            row
            for source, row in self._by_metric[metric.name]
            if (_was_asked(row) if source else metric.obstacle(self.trials[row["question_id"]].case) is None)
        ]

    def replicates(self, metric: JudgedMetric) -> Iterator[list[float]]:
        """Yield the values of the replicates of each case that has several."""
        found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for source, row in self._by_metric[metric.name]:
            if row["value"] is not None:
                found[source, row["question_id"], row["case_id"]].append(row["value"])
        yield from (values for values in found.values() if len(values) > 1)

    def preferences(self, metric: JudgedMetric) -> list[float]:
        """Return, of each judgement in both orders, how far what stands first was preferred: -1 to 1."""
        found = []
        for _, row in self._by_metric[metric.name]:
            values = {one["of"]: one["value"] for one in row["statements"] or ()}
            first, second = (values.get(place) for place in PLACES)
            if first is not None and second is not None:
                found.append(first - second)
        return found

    def answer_lengths(self, metric: JudgedMetric) -> list[tuple[float, int]]:
        """Return value and characters of the answer of each case of the study whose answer was read."""
        found: dict[str, list[float]] = defaultdict(list)
        for source, row in self._by_metric[metric.name]:
            if source and row["value"] is not None and row["case_id"] in self.lengths:
                found[row["case_id"]].append(row["value"])
        return [(sum(values) / len(values), self.lengths[case]) for case, values in found.items()]

    def judged_cases(self) -> list[list[Row]]:
        """Return the rows of each case that was judged, a list for each replicate of it."""
        found: dict[tuple[str, str, str, int], list[Row]] = defaultdict(list)
        for source, rows in (("", self._rows), *self._of_study.items()):
            for row in rows:
                if source == "" or _was_asked(row):
                    found[source, row["question_id"], row["case_id"], row["replicate"]].append(row)
        return list(found.values())


def _was_asked(row: Row) -> bool:
    """Return whether a judgement of the study is the judge's, and not the outcome of an answer."""
    return any(row[name] is not None for name in ("value", "raw", "calls"))
