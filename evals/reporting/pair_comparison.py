"""Two pipelines on the same questions: paired difference, wins and losses, questions by difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from markupsafe import Markup, escape

from rag_assay.evals.metrics import counts_passages, counts_tokens
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import breakable, interval, number, p_value, truncate, with_sign
from rag_assay.evals.reporting.figures.bars import intervals_figure
from rag_assay.evals.reporting.sections import Column, PageSection, Row, Table, TableFigure, numbers
from rag_assay.evals.reporting.standings import RankedResult, entries, main_subset
from rag_assay.evals.reporting.texts import Language, read_texts, several, words_in
from rag_assay.evals.statistics.bootstrap import CONFIDENCE
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.resampling import student, sums_of
from rag_assay.evals.statistics.significance import FEWEST_CLUSTERS, Standing

TEXTS = read_texts("pair")

Basis = Literal["context", "passages"]
EQUAL = 1e-12  # smaller differences are none
Pair = tuple[str, float, float]
"""A question, and its values in the first and the second pipeline; NaN: there is none."""


def bases(data: ReportData) -> dict[Basis, MetricInfo]:
    found: dict[Basis, MetricInfo] = {}
    for one in data.metrics:
        if counts_tokens(one.name):
            found.setdefault("context", one)
        elif one.kind == "retrieval" and counts_passages(one.name):
            found.setdefault("passages", one)
    return found


def intervals_of(data: ReportData, metric: MetricInfo, most: int, language: Language = "en") -> Table | None:
    """Rows are in the order of the verdict; most: rows"""
    subset = main_subset(data)
    of = {one.cell.key: one for one in subset.standings}
    rows = [
        RankedResult(one.label, one.rank, of[one.cells[0]].results[metric.name], one.cells)
        for one in entries(data, subset)
        if metric.name in of[one.cells[0]].results
    ]
    shown = replace(data, metrics=(metric, *(one for one in data.metrics if one != metric)))
    return intervals_figure(shown, rows[:most], len(of), language)


@dataclass(frozen=True)
class PairComparison:
    """The first pipeline's values of a metric less the second's, on their common questions.

    low, high: interval of the difference; None: too few clusters of questions, or no spread
    p, standing: of the leaderboard, where one of the two leads
    questions: smallest difference first; those that lack a value last
    """

    metric: MetricInfo
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    standing: Standing | None
    questions: tuple[Pair, ...]

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(one)}</p>" for one in self.sentences)

    @property
    def known(self) -> list[float]:
        return [a - b for _, a, b in self.questions if not np.isnan(a - b)]

    @property
    def wins(self) -> int:
        sign = 1 if self.metric.higher_is_better else -1
        return sum(sign * one > EQUAL for one in self.known)

    @property
    def losses(self) -> int:
        sign = 1 if self.metric.higher_is_better else -1
        return sum(sign * one < -EQUAL for one in self.known)

    @property
    def sentences(self) -> tuple[str, ...]:
        return self.sentences_in("en")

    def sentences_in(self, language: Language) -> tuple[str, ...]:
        words = words_in(TEXTS, language)
        title, unit, n = self.metric.title, self.metric.unit, len(self.known)
        if self.difference is None:
            return (words("no_values", title=title),)
        level = f"{CONFIDENCE:.0%}".replace("%", " %")
        low, _, high = interval(self.low, self.high, unit).partition(" to ")
        within = words("interval_to" if high else "interval", level=level, low=low, high=high)
        if self.low is None:
            within = words("no_interval")
        if self.p is not None:
            within += words("stored", p=p_value(self.p), verdict=words(self.standing or "tied"))
        elif self.low is not None:
            within += words("alone")
            within += f"; {words('within')}" if self.standing == "within" else ""
        ties = n - self.wins - self.losses
        lacking = len(self.questions) - n
        said = several(words, "counts", n, wins=self.wins, ties=ties, losses=self.losses)
        said += several(words, "lacking", lacking) if lacking else ""
        return words("mean", title=title, value=with_sign(self.difference, unit), within=within), said


def compare_pair(
    data: ReportData,
    metric: MetricInfo,
    pair: tuple[str, str],
    values: Mapping[tuple[str, str], float],
    questions: Sequence[str],
) -> PairComparison:
    """values: (question, pipeline) -> value; questions: of the study, in its order"""
    first, second = pair
    nan = float("nan")
    rows = [(one, values.get((one, first), nan), values.get((one, second), nan)) for one in questions]
    rows = [row for row in rows if not (np.isnan(row[1]) and np.isnan(row[2]))]
    both = [row for row in rows if not np.isnan(row[1] - row[2])]
    ordered = sorted(both, key=lambda row: row[1] - row[2])
    ordered += [row for row in rows if np.isnan(row[1] - row[2])]
    if not both:
        return PairComparison(metric, None, None, None, None, None, tuple(ordered))
    stored = _of_leaderboard(data, metric, first, second)
    if stored is None:
        differences = np.array([a - b for _, a, b in both])
        mean, low, high = _interval(differences, [one for one, *_ in both], data.clusters)
        margin = data.margin_of(metric)
        inside = None not in (low, high, margin) and max(-(low or 0.0), high or 0.0) < (margin or 0.0) - EQUAL
        standing: Standing | None = "within" if inside else None
        stored = mean, low, high, None, standing
    return PairComparison(metric, *stored, tuple(ordered))


Stored = tuple[float | None, float | None, float | None, float | None, Standing | None]


def _of_leaderboard(data: ReportData, metric: MetricInfo, first: str, second: str) -> Stored | None:
    leader = data.verdict.leader.cell if data.verdict.leader else None
    if leader not in {first, second} or first == second:
        return None
    other = second if first == leader else first
    mine = {"subset": main_subset(data).name, "metric": metric.name, "cell": other}
    rows = data.leaderboard.filter(pl.col("p").is_not_null(), **mine)
    if rows.is_empty():
        return None
    row = rows.row(0, named=True)
    standing: Standing = "within" if row["within_margin"] else "tied" if row["tied"] else "worse"
    ends = (row["difference_low"], row["difference_high"])
    if first != leader:
        return row["difference"], *ends, row["p"], standing
    low, high = (None if end is None else -end for end in reversed(ends))
    return -row["difference"], low, high, row["p"], standing


def _interval(
    differences: np.ndarray, questions: Sequence[str], clusters: Clustering
) -> tuple[float, float | None, float | None]:
    """Return the mean and Student's interval over clusters of questions."""
    from scipy.special import stdtrit

    sums = sums_of(differences[:, None], clusters.codes(questions))
    mean, groups = float(sums.mean[0]), float(sums.groups[0])
    squares = (sums.residual**2).sum(axis=0)
    error = float(student(sums.mean, squares, sums.total, sums.groups)[0][0])
    if groups < FEWEST_CLUSTERS or not error > 0:
        return mean, None, None
    half = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, mean - half, mean + half


def pair_section(
    found: PairComparison,
    names: tuple[str, str],
    texts: Mapping[str, str],
    links: Mapping[str, str],
    most: int,
    language: Language = "en",
) -> PageSection:
    """texts: question -> its text; links: question -> its journey; most: rows"""
    metric = found.metric
    apart = sorted(
        (row for row in found.questions if abs(row[1] - row[2]) > EQUAL), key=lambda row: row[1] - row[2]
    )
    half = most // 2
    shown = apart if len(apart) <= most else [*apart[:half], *apart[-half:]]
    rows: list[Row] = []
    for question, a, b in shown:
        text = truncate(texts[question], 160)
        named = Markup('<a href="{}" dir="auto">{}</a>').format(links[question], breakable(text))
        figures = [TableFigure(number(one, metric.unit), sort=one) for one in (a, b)]
        rows.append([named, *figures, TableFigure(with_sign(a - b, metric.unit), sort=a - b)])
    words = words_in(TEXTS, language)
    heads = numbers(*map(words, ("first", "second", "difference")))
    columns = [Column(words("question"), style="cell"), *heads]
    left = several(words, "between", len(apart) - len(shown)) if len(apart) > most else ""
    table = Table(words("caption"), columns, rows, left)
    title = words("title", a=names[0], b=names[1])
    return PageSection("pair", title, [*found.sentences_in(language), table if rows else words("same")])
