"""What people have scored, as a report reads it, and the answers of one criterion among it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from rag_assay.evals.rubrics.rubric import Criterion, Rubric, metric_name
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.study.cells import AXES
from rag_assay.warehouse.schemas import Schema

CELLS: Schema = {
    "key": pl.String,  # its replicate included
    "cell": pl.String,  # … left out
    "replicate": pl.Int64,
    **dict.fromkeys(AXES, pl.String),  # NULL: its generator reads no ranking
}
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class ScoresOfPeople:
    """Human ratings and their aggregates; cells: schema CELLS; called: (axis, name) -> its name in a
    spreadsheet.

    values: schema ANNOTATIONS, a row each answer and criterion; scores: HUMAN_SCORES, valid ones
    agreement: schema AGREEMENT; command: starts the annotation
    """

    rubrics: Mapping[str, Rubric]
    cells: pl.DataFrame
    values: pl.DataFrame
    scores: pl.DataFrame
    agreement: pl.DataFrame
    called: Mapping[tuple[str, str], str]
    command: str

    def criteria(self) -> Iterator[ScoredAnswers]:
        for name, rubric in self.rubrics.items():
            for criterion in rubric.criteria:
                yield self._scored(name, rubric, criterion)

    def _scored(self, name: str, rubric: Rubric, criterion: Criterion) -> ScoredAnswers:
        def own(rows: pl.DataFrame) -> pl.DataFrame:
            of_criterion = pl.col("criterion").eq_missing(pl.lit(criterion.name, pl.String))
            return rows.filter((pl.col("rubric") == name) & of_criterion)

        rows = own(self.values).join(self.cells, left_on="cell", right_on="key")
        scored = rows.filter(pl.col("value").is_not_null()).sort("cell", "question_id")
        held = own(self.scores).filter(pl.col("value").is_not_null())
        of_rubric = (pl.col("rubric") == name) & pl.col("measure").eq("minutes")
        minutes = self.agreement.filter(of_rubric)
        return ScoredAnswers(name, rubric, criterion, scored, len(rows), held, own(self.agreement), minutes)


@dataclass(frozen=True, eq=False)
class ScoredAnswers:
    """The answers that have a value by one criterion; of: answers of the study that could have one.

    rows: schema ANNOTATIONS with the columns of CELLS beside `key`; scores: schema HUMAN_SCORES with a value
    agreement, minutes: schema AGREEMENT, of the criterion, and of the whole rubric
    """

    rubric: str
    kind: Rubric
    criterion: Criterion
    rows: pl.DataFrame
    of: int
    scores: pl.DataFrame
    agreement: pl.DataFrame
    minutes: pl.DataFrame

    @property
    def name(self) -> str:
        return metric_name(self.rubric, self.criterion.name)

    @property
    def title(self) -> str:
        return self.rubric if self.criterion.name is None else f"{self.rubric}, {self.criterion.name}"

    @cached_property
    def anchors(self) -> tuple[float, ...]:
        return tuple(sorted(self.criterion.anchors, reverse=True))

    @cached_property
    def given(self) -> int:
        """Answers with a human rating; a pair of equal answers is a tie without one."""
        return int((self.rows["annotators"] > 0).sum())

    @cached_property
    def values(self) -> Floats:
        return np.asarray(self.rows["value"].to_numpy(), np.float64)

    @cached_property
    def grades(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Place of each row's value among the anchors; -1: between them."""
        found = np.full(len(self.values), -1, np.int64)
        for place, anchor in enumerate(self.anchors):
            found[np.abs(self.values - anchor) < _ALIKE] = place
        return found

    def levels(self, axis: str) -> list[str]:
        return sorted(self.rows[axis].drop_nulls().unique())


def written(value: float) -> str:
    return f"{value:g}".replace("-", "−")
