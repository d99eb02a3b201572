"""What a judge said of cases that people have labelled, as its card was made of it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from rag_assay.evals.judge_calibration.judgements import CalibrationJudgements
from rag_assay.evals.judging.contract import Judge, JudgedMetric
from rag_assay.evals.judging.judge_runner import kept_rows


def labelled_pairs(
    judge: Judge, trials: pl.DataFrame, judged: pl.DataFrame
) -> Iterator[tuple[JudgedMetric, bool, float]]:
    """Yield metric, whether people call the case good, and the judge's value of each that has one.

    Of a metric of which less is better, the value is turned round.

    Args:
        judge: as the study has it.
        trials: rows of `schemas.JUDGE_TRIALS`.
        judged: the judge's judgements of them, rows of `schemas.JUDGEMENTS`.
    """
    said = CalibrationJudgements(judge, judge.judged_metrics, (), kept_rows(judged), {}, {}, 0)
    for trial, labels in trials.filter(pl.col("labels").list.len() > 0).select("trial", "labels").iter_rows():
        given = {one["metric"]: one["good"] for one in labels if one["good"] is not None}
        for metric in judge.judged_metrics:
            value = said.score(trial, metric) if metric.name in given else None
            if value is not None:
                yield metric, given[metric.name], value if metric.higher_is_better else -value
