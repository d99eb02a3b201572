"""What a judge is tried with: answers of the study, the same made worse, controls, and labelled cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import polars as pl

from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.judging.cards.labels import Label, LabelledCase
from rag_assay.evals.judging.cards.mutations import MUTATIONS, Role, mutate_case
from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgedMetric
from rag_assay.evals.judging.judge_metrics import aggregate_replicates
from rag_assay.evals.judging.pairwise import PLACES
from rag_assay.evals.metrics.contract import Score
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

MOST_OTHERS = 60  # other questions that a mutation may take something from


class JudgeTrial(NamedTuple):
    """A case that a judge judges for its card; ``kind``: of the mutation, None: an original or labelled;
    ``note``: what changed or its source.
    """

    role: Literal["original", "labelled"] | Role
    case: JudgeCase
    kind: str | None = None
    of: str | None = None
    note: str = ""
    labels: Mapping[str, Label] = {}

    @property
    def trial_id(self) -> str:
        return self.case.question_id or ""


class Trials(NamedTuple):
    """All trials of a judge, and why what could not be made was not: kind -> reasons."""

    trials: list[JudgeTrial]
    unmade: dict[str, list[str]]


def trials_of(
    cases: Sequence[JudgeCase],
    labelled: Sequence[LabelledCase],
    metrics: Sequence[JudgedMetric],
    n_mutated: int,
    seed: int,
) -> Trials:
    tried = []
    for number, one in enumerate(labelled, start=1):
        case = replace(one.case, question_id=f"labelled.{number}")
        tried.append(JudgeTrial("labelled", case, note=one.place, labels=one.labels))
    unmade: dict[str, list[str]] = {}
    by_question: dict[str, JudgeCase] = {}
    for case in (*_drawn(cases, seed), *_good(labelled)):
        by_question.setdefault(case.question.casefold(), case)
    pool = list(by_question.values())
    others = pool[:MOST_OTHERS]
    for number, answered in enumerate(pool[:n_mutated], start=1):
        original = JudgeTrial("original", replace(answered, question_id=f"answer.{number}"))
        tried.append(original)
        able = [metric for metric in metrics if metric.can_judge(answered)]
        for mutation in MUTATIONS.values():
            if not any(map(mutation.moves, able)):
                continue
            found = mutate_case(original.case, others, mutation, seed)
            if found.case is None:
                unmade.setdefault(mutation.kind, []).append(found.note)
                continue
            case = replace(found.case, question_id=f"{original.trial_id}.{mutation.kind}")
            tried.append(JudgeTrial(mutation.role, case, mutation.kind, original.trial_id, found.note))
    return Trials(tried, unmade)


def _drawn(cases: Sequence[JudgeCase], seed: int) -> list[JudgeCase]:
    good = [one for one in cases if one.status is Status.OK and (one.answer or "").strip()]
    answered = [one for one in good if not is_refusal(one.answer or "")]
    if not answered and not any(one.answer for one in cases):
        answered = [one for one in cases if one.passages]
    return sorted(answered, key=lambda one: digest([seed, one.question, one.answer]))


def _good(labelled: Iterable[LabelledCase]) -> list[JudgeCase]:
    return [
        one.case
        for one in labelled
        if all(label.good for label in one.labels.values()) and not is_refusal(one.case.answer or "")
    ]


Row = dict[str, Any]
Study = Mapping[str, Sequence[Row]]  # key of a cell's judgements -> rows of schemas.JUDGEMENTS


class CalibrationJudgements:
    """What a judge has said of its trials and of the study."""

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
        return [
            row
            for source, row in self._by_metric[metric.name]
            if (_was_asked(row) if source else metric.obstacle(self.trials[row["question_id"]].case) is None)
        ]

    def replicates(self, metric: JudgedMetric) -> Iterator[list[float]]:
        found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for source, row in self._by_metric[metric.name]:
            if row["value"] is not None:
                found[source, row["question_id"], row["case_id"]].append(row["value"])
        yield from (values for values in found.values() if len(values) > 1)

    def preferences(self, metric: JudgedMetric) -> list[float]:
        found = []
        for _, row in self._by_metric[metric.name]:
            values = {one["of"]: one["value"] for one in row["statements"] or ()}
            first, second = (values.get(place) for place in PLACES)
            if first is not None and second is not None:
                found.append(first - second)
        return found

    def answer_lengths(self, metric: JudgedMetric) -> list[tuple[float, int]]:
        found: dict[str, list[float]] = defaultdict(list)
        for source, row in self._by_metric[metric.name]:
            if source and row["value"] is not None and row["case_id"] in self.lengths:
                found[row["case_id"]].append(row["value"])
        return [(sum(values) / len(values), self.lengths[case]) for case, values in found.items()]

    def judged_cases(self) -> list[list[Row]]:
        found: dict[tuple[str, str, str, int], list[Row]] = defaultdict(list)
        for source, rows in (("", self._rows), *self._of_study.items()):
            for row in rows:
                if source == "" or _was_asked(row):
                    found[source, row["question_id"], row["case_id"], row["replicate"]].append(row)
        return list(found.values())


def _was_asked(row: Row) -> bool:
    return any(row[name] is not None for name in ("value", "raw", "calls"))


def labelled_pairs(
    judge: Judge, trials: pl.DataFrame, judged: pl.DataFrame
) -> Iterator[tuple[JudgedMetric, bool, float]]:
    """Yield metric, whether people call the case good, and the judge's value of each that has one. Of a
    metric of which less is better, the value is turned round.
    """
    said = CalibrationJudgements(judge, judge.judged_metrics, (), judged.rows(named=True), {}, {}, 0)
    for trial, labels in trials.filter(pl.col("labels").list.len() > 0).select("trial", "labels").iter_rows():
        given = {one["metric"]: one["good"] for one in labels if one["good"] is not None}
        for metric in judge.judged_metrics:
            value = said.score(trial, metric) if metric.name in given else None
            if value is not None:
                yield metric, given[metric.name], value if metric.higher_is_better else -value
