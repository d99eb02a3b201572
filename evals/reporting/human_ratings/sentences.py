"""Says in sentences what people scored, how far they agree, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rag_assay.evals.judge_calibration.agreement import FEW
from rag_assay.evals.reporting.display import count, interval, listed, number, percent, several, with_sign
from rag_assay.evals.reporting.human_ratings.axes import AxisSaid
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, written
from rag_assay.evals.statistics.alpha import RELIABLE, TENTATIVE

NAMED, NAMED_LEVELS = 4, 6  # of annotators, and of levels that differ; the rest are counted
_Row = Mapping[str, Any]


def scored_words(answers: ScoredAnswers) -> str:
    """Say who scored how many answers, and how many of the study's those are."""
    people = sorted(answers.scores["annotator"].unique())
    n, of, ties = answers.given, answers.of, len(answers.rows) - answers.given
    items = of_all(answers, "items")
    scale = " / ".join(written(value) for value in answers.anchors)
    share = "all answers of the study" if n == of else f"{percent(n / of)} of the study's {count(of)}"
    alike = ""
    if items is not None and items["n"] and items["n"] < n:
        alike = f"; equal answers with equal passages were scored once, {several(items['n'], 'item')} in all"
    if ties:
        alike += f"; {several(ties, 'pair')} of equal answers count as a tie, and nobody was asked"
    return (
        f"{listed(people, NAMED)} gave {several(len(answers.scores), 'score')} ({scale}) to "
        f"{several(n, 'answer')}, {share}{alike}."
    )


def agreement_words(answers: ScoredAnswers) -> str:
    """Say how far people agree, and what that allows to conclude."""
    alpha, equal = of_all(answers, "alpha"), of_all(answers, "equal")
    if alpha is None:
        return "How far people agree was not computed."
    n = alpha["n"] or 0
    if alpha["value"] is None:
        return f"How far people would agree is not known: {alpha['reason']}."
    ends = interval(alpha["low"], alpha["high"])
    known = f" [{ends}]" if alpha["low"] is not None else ""
    on = f"on the {several(n, 'item')} that two or more scored"
    words = f"Krippendorff's alpha is {number(alpha['value'])}{known} {on}"
    if equal is not None and equal["value"] is not None:
        words += f"; {percent(equal['value'])} of their scores of one item are equal"
    return f"{words}: {_worth(alpha['value'], n)}."


def short_words(answers: ScoredAnswers) -> str:
    """Say on one line for the terminal who scored what and how far they agree."""
    people = sorted(answers.scores["annotator"].unique())
    who = f"{listed(people, NAMED)} scored {count(answers.given)} of {several(answers.of, 'answer')}"
    mean = f"mean {number(float(answers.values.mean()))}"
    return f"People by {answers.title}: {who}, {mean}. {agreement_words(answers)}"


def differences_words(axes: Sequence[AxisSaid]) -> str:
    """Say which levels differ significantly from the best of their axis."""
    compared = sum(axis.compared for axis in axes)
    if not compared:
        return "No two levels of an axis could be compared."
    apart = [f"{name} ({axis.axis}, {with_sign(value)})" for axis in axes for name, value in axis.apart]
    of = several(compared, "level")
    if not apart:
        return f"No level is significantly below the best of its axis ({of} compared)."
    verb, named = "is" if len(apart) == 1 else "are", listed(apart, NAMED_LEVELS)
    return f"{len(apart)} of {of} {verb} significantly below the best of the axis: {named}."


def of_all(answers: ScoredAnswers, measure: str) -> _Row | None:
    """Return a measure of all annotators together; None: it was not taken."""
    rows = answers.agreement.filter((pl.col("measure") == measure) & pl.col("annotator").is_null())
    return rows.row(0, named=True) if len(rows) else None


def _worth(alpha: float, n: int) -> str:
    if n < FEW:
        return f"too few items to say more; {FEW} or more tell how far people agree"
    if alpha >= RELIABLE:
        return f"enough to draw conclusions ({RELIABLE} or more)"
    if alpha >= TENTATIVE:
        return f"enough for tentative conclusions ({TENTATIVE} to {RELIABLE})"
    return f"too little for conclusions, tentative ones included (below {TENTATIVE})"
