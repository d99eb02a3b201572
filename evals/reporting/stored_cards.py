"""What is stored of a study's judges: their cards, what nobody has calibrated, and estimates by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.annotation_schemas import HUMAN_ESTIMATES
from rag_assay.warehouse.schemas import JUDGE_CARDS

if TYPE_CHECKING:
    import duckdb

UNCALIBRATED = "uncalibrated"
AGREEMENT = ("auc", "kappa", "tau")
"""What tells whether people agree with a judge: a metric that has none of these is uncalibrated."""


def cards_of(connection: duckdb.DuckDBPyConnection, study: Study) -> pl.DataFrame:
    """Return the current cards of a study's judges (schemas.JUDGE_CARDS)."""
    sql = "SELECT * FROM current_judge_cards WHERE study = ? AND list_contains(?, judge)"
    found = pl.DataFrame(connection.sql(sql, params=[study.study, list(study.judges)]).to_arrow_table())
    return found.select([pl.col(name).cast(kind) for name, kind in JUDGE_CARDS.items()])


def estimates_of(connection: duckdb.DuckDBPyConnection, study: Study) -> pl.DataFrame | None:
    """Return the current estimates of people's scores (HUMAN_ESTIMATES); None where people score nothing."""
    if not study.rubrics:
        return None
    sql = "SELECT * FROM current_human_estimates WHERE study = ? AND list_contains(?, rubric)"
    rows = connection.sql(sql, params=[study.study, list(study.rubrics)])
    found = pl.DataFrame(rows.to_arrow_table())
    return found.select([pl.col(name).cast(kind) for name, kind in HUMAN_ESTIMATES.items()])


def calibrated_metrics(cards: pl.DataFrame) -> set[str]:
    """Return the metrics of judges, `JUDGE.METRIC`, of which it is known how people agree with them."""
    known = cards.filter(pl.col("measure").is_in(AGREEMENT) & pl.col("value").is_not_null())
    return {f"{judge}.{metric}" for judge, metric in known.select("judge", "metric").iter_rows()}


def no_better_than_coins(cards: pl.DataFrame) -> set[str]:
    """Return the metrics of judges that people have labelled and that no AUC shows to be above 0.5."""
    areas = cards.filter((pl.col("measure") == "auc") & pl.col("value").is_not_null())
    shown = areas.group_by("judge", "metric").agg((pl.col("low") > 0.5).fill_null(value=False).any())
    return {f"{judge}.{metric}" for judge, metric, is_better in shown.iter_rows() if not is_better}


def uncalibrated_metrics(study: Study, cards: pl.DataFrame) -> frozenset[str]:
    """Return the metrics of a study that are a judge's, and of which that is not known."""
    known = calibrated_metrics(cards)
    judged: list[Metric] = [
        metric for name in study.measured if isinstance(metric := study.metric(name), JudgedScores)
    ]
    return frozenset(metric.name for metric in judged if metric.name not in known)
