"""What is disputed: answers on which judges disagree, and questions whose answers differ most."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.rubrics.rubric import PEOPLE
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.parquet import read_parquet

Place = tuple[str, str]  # key of a cell, id of a question


def disputes(study: Study, cells: Iterable[Cell], store: ArtifactStore) -> dict[Place, float]:
    """Return how disputed the answers of cells are, 0 to 1, by the scores that are stored.

    They are those of the study's judges, or of its other metrics of answers where no judge looks at answers;
    scores of people are not looked at. What none of them has a value for is left out.
    """
    metrics = _metrics(study)
    names = [metric.name for metric in metrics]
    frames = []
    for cell in cells:
        artifact = store.current("scores", cell.key)
        if artifact is not None and names:
            rows = read_parquet(store.folder("scores", artifact.identity) / "scores.parquet")
            kept = rows.filter(pl.col("metric").is_in(names), pl.col("value").is_not_null())
            frames.append(kept.select(pl.lit(cell.key).alias("cell"), "question_id", "metric", "value"))
    if not frames:
        return {}
    lower = [metric.name for metric in metrics if not metric.higher_is_better]
    return {
        (cell, question): value
        for cell, question, value in dispute_scores(pl.concat(frames), lower).iter_rows()
    }


def dispute_scores(scores: pl.DataFrame, lower_is_better: Iterable[str] = ()) -> pl.DataFrame:
    """Return (cell, question_id, disputed), the latter 0 to 1.

    Values are compared as their ranks among all values of their metric, as shares from 0 to 1. An answer is
    disputed by twice the standard deviation of its ranks by several metrics, or of the mean ranks of all
    answers to its question, whatever is more.

    scores: cell, question_id, metric, value
    """
    share = (pl.col("value").rank("average").over("metric") - 0.5) / pl.len().over("metric")
    turned = pl.when(pl.col("metric").is_in(list(lower_is_better))).then(1 - share).otherwise(share)
    answers = (
        scores.with_columns(turned.alias("share"))
        .group_by("cell", "question_id", maintain_order=True)
        .agg(pl.col("share").mean(), (2 * pl.col("share").std(ddof=0)).alias("by_metrics"), pl.len())
    )
    of_question = pl.col("share").std(ddof=0).over("question_id")
    by_cells = pl.when(pl.len().over("question_id") > 1).then(2 * of_question)
    by_metrics = pl.when(pl.col("len") > 1).then("by_metrics")
    largest = pl.max_horizontal(by_metrics, by_cells).fill_null(0.0).clip(0.0, 1.0)
    return answers.select("cell", "question_id", largest.alias("disputed"))


def _metrics(study: Study) -> list[Metric]:
    named = [name for name in study.measured if not name.startswith(f"{PEOPLE}.")]
    of_answers = [one for one in map(study.metric, named) if one.kind == "answer"]
    judged = [one for one in of_answers if isinstance(one, JudgedScores)]
    return [*(judged or of_answers)]
