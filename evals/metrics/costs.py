"""Cost metrics of a cell: latency and tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.metrics.contract import Case, Metric, Score, no_answer
from rag_assay.warehouse.status import MIN_COVERAGE, RETRYABLE, Status

PER = 1_000  # questions


@dataclass(frozen=True)
class RunningCost:
    """usd: for 1,000 questions; p50, p95: seconds; tokens: mean of a question; None: not known"""

    usd: float | None = None
    p50: float | None = None
    p95: float | None = None
    tokens: float | None = None


def running_costs(
    scores: pl.DataFrame, answers: pl.DataFrame, seconds: Collection[str], unpriced: Collection[str] = ()
) -> Mapping[str, RunningCost]:
    """Return cell -> what it costs; every cell that has scores is there.

    A cell without answers costs nothing beyond its seconds. The dollars of a cell are not known where fewer
    than 98 % of its answers that were asked for have a price, and those of `unpriced` ones never.

    Args:
        scores: schemas.SCORES with `cell` and `replicate`.
        answers: schemas.ANSWERS with `cell`.

    >>> scores = pl.DataFrame({"cell": ["c"] * 4, "replicate": [1] * 4, "question_id": ["a", "a", "b", "b"],
    ...     "metric": ["find", "write"] * 2, "status": ["ok"] * 4, "value": [1.0, 2.0, 3.0, 4.0]})
    >>> answers = pl.DataFrame({"cell": ["c", "c"], "usd": [0.001, 0.003], "prompt_tokens": [9, 9],
    ...     "completion_tokens": [1, 3]})
    >>> running_costs(scores, answers, ["find", "write"])["c"]
    RunningCost(usd=2.0, p50=5.0, p95=6.8, tokens=11.0)
    """
    timed, paid = _seconds(scores, seconds), _prices(answers)
    found = {}
    for cell in scores["cell"].unique().sort():
        p50, p95 = timed.get(cell, (None, None))
        usd, tokens = paid.get(cell, (0.0, None))
        found[cell] = RunningCost(None if cell in unpriced else usd, p50, p95, tokens)
    return found


def _seconds(scores: pl.DataFrame, names: Collection[str]) -> dict[str, tuple[float, float]]:
    good = scores.filter(
        pl.col("metric").is_in(list(names)) & (pl.col("status") == "ok") & pl.col("value").is_not_null()
    )
    each = good.group_by("cell", "replicate", "question_id").agg(pl.col("value").sum(), n=pl.len())
    whole = each.filter(pl.col("n") == pl.col("n").max().over("cell"))
    value = pl.col("value")
    rows = whole.group_by("cell").agg(value.quantile(0.5, "linear"), p95=value.quantile(0.95, "linear"))
    return {cell: (p50, p95) for cell, p50, p95 in rows.select("cell", "value", "p95").iter_rows()}


def _prices(answers: pl.DataFrame) -> dict[str, tuple[float | None, float | None]]:
    asked = pl.col("prompt_tokens").is_not_null() | pl.col("usd").is_not_null()
    rows = answers.group_by("cell").agg(
        known=pl.col("usd").count() / asked.sum(),
        usd=pl.col("usd").mean(),
        tokens=(pl.col("prompt_tokens") + pl.col("completion_tokens")).mean(),
    )
    return {
        cell: (usd * PER if usd is not None and known >= MIN_COVERAGE else None, tokens)
        for cell, known, usd, tokens in rows.select("cell", "known", "usd", "tokens").iter_rows()
    }


class _Cost(Metric):
    kind = "cost"
    sees = "costs"
    higher_is_better = False
    bounds = (0.0, None)

    def applies(self, question: dict[str, Any]) -> bool:
        return True


class RetrievalLatency(_Cost):
    """Wall seconds to rank one question, its embedding included, one question at a time. The embedding is
    timed on a sample of 50 questions; the others count the median of those.
    """

    stem, title, unit = "retrieval_latency", "Retrieval latency", "s"
    reads = frozenset({"retrieval_cost"})

    def score(self, case: Case) -> Score:
        if case.ranked.status is not Status.OK:
            return Score(case.ranked.status, reason=case.ranked.reason or "the ranking failed")
        if case.ranked.seconds is None:
            return Score(Status.NOT_RUN, reason="retrieval was not timed apart from the answer")
        return Score(Status.OK, case.ranked.seconds)


class AnswerLatency(_Cost):
    """Wall seconds of the generator for one answer, when it was computed, not when it came from the cache;
    sentences of the extractive generator are embedded beforehand.
    """

    stem, title, unit = "answer_latency", "Answer latency", "s"
    reads = frozenset({"answer_cost"})

    def score(self, case: Case) -> Score:
        return _cost(case, "seconds", case.answer and case.answer.seconds)


class Tokens(_Cost):
    """Tokens read plus tokens written by the generator for one answer."""

    stem, title, unit = "tokens", "Tokens", "tokens"
    reads = frozenset({"answer_cost"})

    def score(self, case: Case) -> Score:
        counts = (case.answer.prompt_tokens, case.answer.completion_tokens) if case.answer else (None,)
        known = [count for count in counts if count is not None]
        total = sum(known) if len(known) == len(counts) else None
        return _cost(case, "prompt_tokens and completion_tokens", total)


def _cost(case: Case, what: str, value: float | None) -> Score:
    if case.answer is None or case.answer.status in RETRYABLE:
        return no_answer(case)
    if value is not None:
        return Score(Status.OK, float(value))
    if case.answer.status is not Status.OK:
        return no_answer(case)  # it was not asked at all
    return Score(Status.NOT_RUN, reason=f"the generator did not say its {what}")
