"""How far cells, judges and people disagree on a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import number
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople

BETWEEN_CELLS, AGAINST_JUDGES, AMONG_PEOPLE = (
    "between cells",
    "judges against people",
    "people among themselves",
)
MEASURES: Mapping[str, str] = {
    BETWEEN_CELLS: (
        "twice the standard deviation of the first metric between the cells, as a share of its range: 1 "
        "where half of the cells have its best value and half its worst"
    ),
    AGAINST_JUDGES: (
        "how far judges and people lie apart on the same answer, both as shares of their scales: the mean "
        "over the answers that have both"
    ),
    AMONG_PEOPLE: (
        "how far the highest and the lowest score of an answer lie apart, as a share of the scale: the mean "
        "over the answers that several people scored"
    ),
}
"""What disputes are measured by, each from 0 to 1."""


@dataclass(frozen=True)
class Dispute:
    """The largest of the measures of one question."""

    measure: str
    value: float

    @property
    def words(self) -> str:
        """The measure with its value."""
        return f"{self.measure}: {number(self.value)}"


def disputes(data: ReportData) -> dict[str, Dispute]:
    """Return question -> its dispute; questions of which nothing can be said are absent."""
    found: dict[str, Dispute] = {}
    for measure, rows in (
        (BETWEEN_CELLS, _between_cells(data)),
        (AGAINST_JUDGES, _against_judges(data)),
        (AMONG_PEOPLE, _among_people(data.people)),
    ):
        for question, value in rows.iter_rows():
            if question not in found or value > found[question].value:
                found[question] = Dispute(measure, value)
    return found


_NONE = pl.DataFrame(schema={"question_id": pl.String, "value": pl.Float64})


def _between_cells(data: ReportData) -> pl.DataFrame:
    metric, value = data.primary, pl.col("value")
    rows = data.values.filter((pl.col("metric") == metric.name) & value.is_not_null())
    low, high = metric.bounds
    seen = rows.select(low=value.min(), high=value.max()).row(0)
    span = (seen[1] if high is None else high) - (seen[0] if low is None else low) if rows.height else 0.0
    if not span:
        return _NONE
    spread = (2 * value.std(ddof=0) / span).clip(0.0, 1.0)
    return (
        rows.group_by("question_id")
        .agg(spread.alias("value"), pl.len())
        .filter(pl.col("len") > 1)
        .drop("len")
    )


def _among_people(people: ScoresOfPeople | None) -> pl.DataFrame:
    apart = [
        rows.filter(pl.col("annotators") > 1).select(
            "question_id", value=(pl.col("high") - pl.col("low")) / span
        )
        for rows, _, span in _by_criterion(people)
    ]
    return _means(apart)


def _against_judges(data: ReportData) -> pl.DataFrame:
    if data.people is None or data.judgements is None or not data.judgements.height:
        return _NONE
    bounds = {one.name: one.bounds for one in data.metrics}
    judged = data.judgements.filter((pl.col("status") == "ok") & pl.col("value").is_not_null()).select(
        "question_id",
        "cell",
        pl.col("cell_replicate").alias("replicate"),
        "value",
        metric=pl.concat_str("judge", "metric", separator="."),
    )
    apart = []
    for (metric,), own in judged.partition_by("metric", as_dict=True).items():
        low, high = bounds.get(str(metric), (None, None))
        if low is None or high is None or low == high:
            continue
        of = ["question_id", "cell", "replicate"]
        share = own.group_by(of).agg(judge=(pl.col("value").mean() - low) / (high - low))
        for rows, least, span in _by_criterion(data.people):
            both = rows.join(share, on=of)
            said = (pl.col("value") - least) / span
            apart.append(both.select("question_id", value=(said - pl.col("judge")).abs()))
    return _means(apart)


def _by_criterion(people: ScoresOfPeople | None) -> list[tuple[pl.DataFrame, float, float]]:
    """Return of each criterion the scored answers, its lowest value and how wide its scale is."""
    found = []
    for one in people.criteria() if people else ():
        low, high = one.criterion.bounds
        if high > low:
            found.append((one.rows, low, high - low))
    return found


def _means(apart: list[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat([_NONE, *apart])
    return rows.group_by("question_id").agg(pl.col("value").mean().clip(0.0, 1.0))
