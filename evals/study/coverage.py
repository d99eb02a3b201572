"""Which cells of a leaderboard lack values or answers: one rule for every page, check and file."""

from __future__ import annotations

import polars as pl

from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.schemas import MIN_COVERAGE


def unmeasured(study: Study) -> frozenset[tuple[str, str]]:
    """Return the (cell, metric) pairs whose missing values are no lack.

    Metrics of rankings measure nothing where no ranking is read, metrics of passages nothing where nothing is
    read at all, and costs and citations nothing in a spreadsheet. Human ratings may be of a sample, or not
    given yet, unless they rank the cells.
    """
    found: set[tuple[str, str]] = set()
    metrics = [study.metric(name) for name in study.measured]
    for cell in study.cells():
        reads = study.reads(cell.generator) if cell.generator in study.generators else None
        for metric in metrics:
            if (
                (not cell.reads_ranking and bool(metric.reads & {"ranking", "retrieval_cost"}))
                or (reads == "nothing" and isinstance(metric, JudgedScores) and metric.of_passages)
                or (reads == "imported" and bool(metric.reads & {"answer_cost", "citations"}))
                or (isinstance(metric, PeopleScores) and metric.name != study.metrics[0])
            ):
                found.add((cell.name, metric.name))
    return frozenset(found)


def coverages(board: pl.DataFrame, left_out: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """Return the smallest coverage of each cell of a leaderboard (schemas.LEADERBOARD).

    left_out: of `unmeasured`

    Returns:
        cell, share (of the questions, 0 to 1), lacks (the metric with the fewest values; NULL: the answers),
        sorted by cell. For a share below `MIN_COVERAGE` the leaderboard's check `covered` fails.
    """
    pairs = pl.DataFrame(sorted(left_out), schema={"cell": pl.String, "metric": pl.String}, orient="row")
    values = board.drop_nulls("coverage").join(pairs, on=["cell", "metric"], how="anti")
    values = values.select("cell", pl.col("coverage").alias("share"), pl.col("metric").alias("lacks"))
    answers = board.drop_nulls("answered").select(
        "cell", pl.col("answered").alias("share"), pl.lit(None, pl.String).alias("lacks")
    )
    lowest = pl.concat([answers, values]).sort("share", "lacks", nulls_last=False)
    return lowest.unique("cell", keep="first", maintain_order=True).sort("cell")


def lowest_and_highest(found: pl.DataFrame) -> tuple[float | None, float | None]:
    """Return the smallest and the largest share of `coverages`; None where there is no cell."""
    shares = found["share"].to_list()
    return min(shares, default=None), max(shares, default=None)


def below_gate(found: pl.DataFrame) -> pl.DataFrame:
    return found.filter(pl.col("share") < MIN_COVERAGE)
