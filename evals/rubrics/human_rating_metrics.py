"""What people say as a metric of a study: their scores of an answer, come to one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.metrics.contract import Case, Metric, Score
from rag_assay.evals.rubrics.rubric import PEOPLE, Criterion, Rubric, metric_name
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.contract import MetricContext

UNDECIDED = "could not say"
UNRATED = "not rated yet"


class PeopleScores(Metric):
    """One criterion of one rubric of a study, `people.RUBRIC[.CRITERION]`.

    Its value is the mean over annotators of the mean over their showings, in the rubric's own scale. What
    no annotator has scored has no value.
    """

    stem = "people"
    reads = frozenset({"annotations"})
    kind = "answer"
    sees = "answers"

    def __init__(self, name: str, rubric: Rubric, criterion: Criterion) -> None:
        self.rubric = name
        self.criterion = criterion.name
        self.against = rubric.against
        self.name = metric_name(name, criterion.name)
        said = " ".join([name, *([criterion.name] if criterion.name else [])])
        self.title = f"{said.replace('_', ' ').capitalize()} by people"
        self.bounds = criterion.bounds
        anchors = "; ".join(f"{value:g}: {text.rstrip('.')}" for value, text in criterion.anchors.items())
        beside = f", beside the answer of `{rubric.against}`" if rubric.against else ""
        self.explanation = f"{criterion.ask} As people say by the rubric `{name}`{beside}. {anchors}."
        self._rubric = rubric

    def versions(self) -> list[str]:
        return [self.code_version, self._rubric.version]

    def applies(self, question: dict[str, Any]) -> bool:
        return True

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        unknown = Score(Status.NOT_RUN, reason=UNRATED)
        return [case.annotated.get(self.name, unknown) for case in cases]


def people_metrics(rubrics: Mapping[str, Rubric]) -> dict[str, PeopleScores]:
    found = [PeopleScores(name, rubric, one) for name, rubric in rubrics.items() for one in rubric.criteria]
    return {metric.name: metric for metric in found}


def is_unrated() -> pl.Expr:
    of_people = pl.col("metric").str.starts_with(f"{PEOPLE}.") & (pl.col("status") == Status.NOT_RUN)
    waits = (pl.col("reason") == UNRATED) | pl.col("reason").str.ends_with(UNDECIDED)
    return of_people & waits.fill_null(False)


def said(row: dict[str, Any]) -> Score:
    if row["value"] is not None:
        tie = "both answers are the same; they were not rated" if not row["annotators"] else None
        return Score(Status.OK, row["value"], tie)
    skipped = row["skipped"]
    reason = f"{skipped} {'annotators' if skipped > 1 else 'annotator'} {UNDECIDED}" if skipped else UNRATED
    return Score(Status.NOT_RUN, reason=reason)
