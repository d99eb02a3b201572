"""A rung as a study of its own: cells that are left, asked more questions, measured by what ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import OF_RANKING, Metric
from rag_assay.evals.study.cells import MARK, NO_GENERATOR, Cell, Slice
from rag_assay.evals.study.study import Study


class Field(NamedTuple):
    """Who races, and by what.

    metric: the first of the study's that applies to a question
    racing: the cells that race; exempt: the others, and why each of them stays
    """

    metric: Metric
    racing: list[Cell]
    exempt: dict[Cell, str]
    questions: list[str]


def field_of(study: Study, questions: Sequence[dict[str, Any]]) -> Field:
    metrics = [study.metric(name) for name in study.metrics]
    metric = next((one for one in metrics if any(map(one.applies, questions))), metrics[0])
    exempt = {cell: why for cell in study.cells() if (why := _exempt(study, cell, metric))}
    racing = [cell for cell in study.cells() if cell not in exempt]
    return Field(metric, racing, exempt, [one["question_id"] for one in questions if metric.applies(one)])


def _exempt(study: Study, cell: Cell, metric: Metric) -> str | None:
    compare = {one.against for one in study.judges.values()} | {one.against for one in study.rubrics.values()}
    if cell.short in compare:
        return "others are compared with it"
    if cell.sample is not None:
        return "it is asked a sample only"
    if study.reads(cell.generator) == "evidence":
        return "it answers from the reference passages, so it cannot be chosen"
    if metric.name not in {one.name for one in study.metrics_of(cell)} or (
        not cell.reads_ranking and is_of_rankings(metric)
    ):
        return f"{metric.name} does not measure it"
    return None


def is_of_rankings(metric: Metric) -> bool:
    """Return whether a metric looks at rankings alone, so that nothing need be answered to know it."""
    return not isinstance(metric, JudgedScores) and metric.reads <= OF_RANKING


class Rung(NamedTuple):
    """One rung: the study that it is, and the cell of the whole that each of its cells stands for."""

    study: Study
    stands_for: dict[str, list[str]]


def rung_of(
    study: Study, number: int, cells: Sequence[Cell], questions: Sequence[str], metric: Metric
) -> Rung:
    """Return a rung: a slice of a study that measures nothing but the metric by which cells race.

    Where that looks at rankings alone, nothing is answered: the cells of one ranking are one cell here.
    """
    only: dict[str, Any] = {"metrics": (metric.name,), "rubrics": {}, "judges": {}, "judge_cards": {}}
    stands_for: dict[str, list[str]] = {}
    if isinstance(metric, JudgedScores):
        only["judges"] = {metric.judge: study.judges[metric.judge]}
    for cell in cells:
        name = f"{cell.ranking.partition('.')[2]}.{NO_GENERATOR}" if is_of_rankings(metric) else cell.short
        stands_for.setdefault(name, []).append(cell.short)
    if is_of_rankings(metric):
        only["generators"] = {}
    n_cells, n_questions = len(stands_for), len(questions)
    part = Slice(
        *(study.whole, frozenset(stands_for), frozenset(questions)),
        *(n_cells, len(study.cells()), n_questions, n_questions),
    )
    name = f"{study.study}{MARK}rung{number}"
    return Rung(study.model_copy(update=only).sliced(name, part), stands_for)
