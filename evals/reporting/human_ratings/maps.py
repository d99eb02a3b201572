"""Means by retriever and chunking as heat maps, and by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.charts import heat as heat_map
from rag_assay.evals.reporting.charts.heat import HeatRow, HeatTable, heat
from rag_assay.evals.reporting.charts.shares import Bar, bar
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import number, truncate
from rag_assay.evals.reporting.matrix import natural
from rag_assay.evals.reporting.rating_scores import ScoredAnswers

QUESTION = 200  # characters of a question
PLACE = ("retriever", "chunking")


@dataclass(frozen=True)
class MeanSquare:
    """A mean, of how many answers, and its heat from 0 (lowest shown) to 8 (highest shown)."""

    mean: float
    n: int
    level: int


@dataclass(frozen=True)
class HeatMap:
    """Means of one generator (and embedder), by retriever and chunking.

    of: generator and embedder where there are several
    retrievers: the best mean first
    rows, columns: plain means over what was scored of a retriever, and of a chunking
    """

    of: str
    retrievers: tuple[str, ...]
    chunkings: tuple[str, ...]
    squares: Mapping[tuple[str, str], MeanSquare]
    rows: Mapping[str, MeanSquare]
    columns: Mapping[str, MeanSquare]
    left_out: int

    def table(self) -> HeatTable:
        """Return the squares with the means of both axes, as they are drawn."""
        return HeatTable(
            "",
            f"Means by retriever and chunking{', ' if self.of else ''}{self.of}",
            "",
            "",
            self.chunkings,
            tuple(
                HeatRow(
                    retriever,
                    tuple(_drawn(self.squares.get((retriever, one))) for one in self.chunkings),
                    _drawn(self.rows[retriever], is_mean=True),
                )
                for retriever in self.retrievers
            ),
            (HeatRow("Mean", tuple(_drawn(self.columns[one], is_mean=True) for one in self.chunkings)),),
            "Mean",
        )


@dataclass(frozen=True)
class QuestionSaid:
    """A question with what people gave to its answers.

    anchor: id of its row on the page
    means: of each generator, where there are several, in their order; None: no answer was scored
    """

    question_id: str
    text: str
    language: str | None
    anchor: str
    n: int
    counts: tuple[int, ...]
    between: int
    bar: Bar
    mean: float
    means: tuple[float | None, ...]


def _drawn(square: MeanSquare | None, *, is_mean: bool = False) -> heat_map.HeatSquare:
    if square is None:
        return heat_map.HeatSquare("", title="no answer was scored")
    level = None if is_mean else square.level
    return heat_map.HeatSquare(number(square.mean), level, f"n = {square.n}")


def heat_maps(answers: ScoredAnswers, most: int) -> list[HeatMap]:
    """Return a heat map a generator and embedder, where several retrievers and chunkings were scored.

    most: retrievers and chunkings that are shown
    """
    rows = answers.rows.drop_nulls(["chunking", "retriever"])
    if rows["chunking"].n_unique() < 2 or rows["retriever"].n_unique() < 2:
        return []
    several = [name for name in ("embedder", "generator") if rows[name].n_unique() > 1]
    shown = rows.group_by("chunking", "retriever", *several).agg(pl.col("value").mean())["value"].to_list()
    ends = (min(shown), max(shown))
    if not several:
        return [_map("", rows, ends, most)]
    parts = rows.partition_by(several, as_dict=True)
    return [_map(" · ".join(map(str, of)), parts[of], ends, most) for of in sorted(parts, key=str)]


def _map(of: str, rows: pl.DataFrame, ends: tuple[float, float], most: int) -> HeatMap:
    of_retrievers, of_chunkings = ({one[0]: s for one, s in _squares(rows, [by], ends)} for by in PLACE)
    retrievers = sorted(of_retrievers, key=lambda name: (-of_retrievers[name].mean, natural(name)))
    chunkings = sorted(of_chunkings, key=natural)
    return HeatMap(
        of,
        tuple(retrievers[:most]),
        tuple(chunkings[:most]),
        {(one[0], one[1]): square for one, square in _squares(rows, PLACE, ends)},
        of_retrievers,
        of_chunkings,
        max(0, len(retrievers) - most) + max(0, len(chunkings) - most),
    )


def _squares(
    rows: pl.DataFrame, by: Sequence[str], ends: tuple[float, float]
) -> list[tuple[tuple[str, ...], MeanSquare]]:
    found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len())
    return [
        (tuple(place), MeanSquare(mean, n, heat(mean, *ends, higher_is_better=True)))
        for *place, mean, n in found.iter_rows()
    ]


def questions_said(
    answers: ScoredAnswers, data: ReportData, generators: Sequence[str], prefix: str
) -> list[QuestionSaid]:
    """Return the questions of which answers were scored, the lowest mean first.

    generators: that have a mean of their own
    prefix: of the ids of their rows
    """
    rows = answers.rows.select("question_id", "generator", "value").with_columns(
        grade=pl.Series(answers.grades)
    )
    by_question = rows.group_by("question_id").agg(
        mean=pl.col("value").mean(), n=pl.len(), grades=pl.col("grade")
    )
    of_generators = {
        (question, generator): mean
        for question, generator, mean in rows.group_by("question_id", "generator")
        .agg(pl.col("value").mean())
        .iter_rows()
    }
    texts = {
        row["question_id"]: row
        for row in data.questions.select("question_id", "question", "language").iter_rows(named=True)
    }
    found = []
    ordered = by_question.sort("mean", "question_id").iter_rows(named=True)
    for at, row in enumerate(ordered, 1):
        grades = row["grades"]
        counts = tuple(grades.count(grade) for grade in range(len(answers.anchors)))
        between = grades.count(-1)
        name = row["question_id"]
        question = texts.get(name, {"question": name, "language": None})
        found.append(
            QuestionSaid(
                name,
                truncate(question["question"], QUESTION),
                question["language"],
                f"{prefix}-{at}",
                row["n"],
                counts,
                between,
                bar(counts, between),
                row["mean"],
                tuple(of_generators.get((name, one)) for one in generators),
            )
        )
    return found
