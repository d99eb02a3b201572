"""The section in which every question can be followed through every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.contexts import ranking_labels
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import link_of, number, several, truncate
from rag_assay.evals.reporting.hardest import HardQuestion
from rag_assay.evals.reporting.journey.packs import ReportPacks, pack_blocks, pack_scores, packs, tables_of
from rag_assay.evals.reporting.journey_rows import JourneyRows, no_journeys
from rag_assay.evals.reporting.rating_scores import ScoresOfPeople
from rag_assay.evals.reporting.retrieval_funnel import REMEDIES, depth, fates_of, legend_of
from rag_assay.evals.reporting.standings import group_of

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
        return f"{self.measure}: {number(self.value)}"


def disputes(data: ReportData) -> dict[str, Dispute]:
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
    found = []
    for one in people.criteria() if people else ():
        low, high = one.criterion.bounds
        if high > low:
            found.append((one.rows, low, high - low))
    return found


def _means(apart: list[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat([_NONE, *apart])
    return rows.group_by("question_id").agg(pl.col("value").mean().clip(0.0, 1.0))


def runs_of(data: ReportData, cells: Sequence[str]) -> pl.DataFrame:
    of = ["cell", "replicate"]
    order = pl.DataFrame({"cell": list(cells)}, schema={"cell": pl.String}).with_row_index("_order")
    known = pl.concat([data.scores.select(of), data.answers.select(of)]).unique()
    return known.join(order, on="cell").sort("_order", "replicate").select(of)


def rankings_of(rows: JourneyRows, cells: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(rows.rankings[cell] for cell in cells if cell in rows.rankings))


def catalogue(
    data: ReportData,
    rows: JourneyRows,
    labels: Mapping[str, str],
    runs: pl.DataFrame,
    disputes: Mapping[str, Dispute],
) -> dict[str, Any]:
    """Return the catalogue for JSON; numbers are places in its lists."""
    cells = list(labels)
    rankings = rankings_of(rows, cells)
    names = ranking_labels(data)
    of_ranking = {ranking: cell for cell, ranking in [*rows.rankings.items()][::-1]}
    place = {ranking: at for at, ranking in enumerate(rankings)}
    at_cell = {cell: at for at, cell in enumerate(cells)}
    return {
        "study": data.study,
        "metrics": [
            {
                "name": one.name,
                "title": one.title,
                "kind": one.kind,
                "unit": one.unit,
                "higher": one.higher_is_better,
                "worst": one.worst,
                "ideal": one.ideal,
                "ofRankings": one.of_rankings,
            }
            for one in data.metrics
        ],
        "cells": [
            {"key": cell, "label": labels[cell], "ranking": place.get(rows.rankings.get(cell, ""), -1)}
            for cell in cells
        ],
        "runs": [[at_cell[cell], replicate] for cell, replicate in runs.iter_rows()],
        "rankings": [names.get(of_ranking[one], of_ranking[one]) for one in rankings],
        "questions": _questions(data, rows, disputes),
        "lost": _lost(data, rows, place),
        "steps": [
            {
                "name": str(loss),
                "label": loss.label,
                "means": legend_of(loss, depth(data.primary)),
                "try": words,
            }
            for loss, words in REMEDIES.items()
        ],
    }


def _questions(data: ReportData, rows: JourneyRows, disputes: Mapping[str, Dispute]) -> dict[str, Any]:
    asked = data.questions
    ids = asked["question_id"].to_list()
    pieces = asked.select("question_id", pl.col("evidence").list.eval(pl.element().struct.field("doc_id")))
    held = pieces.explode("evidence").join(
        rows.documents.select("doc_id", "source").unique("doc_id"), left_on="evidence", right_on="doc_id"
    )
    sources = dict(held.group_by("question_id").agg(pl.col("source").unique().sort()).iter_rows())
    return {
        "id": ids,
        "text": asked["question"].to_list(),
        "language": asked["language"].to_list(),
        "type": asked.select(group_of("type")).to_series().to_list(),
        "set": asked["question_set"].to_list(),
        "sources": [sources.get(one, []) for one in ids],
        "dispute": [disputes[one].value if one in disputes else None for one in ids],
    }


def _lost(data: ReportData, rows: JourneyRows, place: Mapping[str, int]) -> list[str]:
    """Return for each ranking a string with a sign a question.

    `a` is the first step of `REMEDIES`, and so on; `.`: found; a space: unknown
    """
    order = {str(loss): chr(ord("a") + at) for at, loss in enumerate(REMEDIES)}
    signs = {ranking: [" "] * data.questions.height for ranking in place}
    at_question = {one: at for at, one in enumerate(data.questions["question_id"])}
    for cell, question, loss in fates_of(data.losses, data.questions, depth(data.primary)).iter_rows():
        ranking = rows.rankings.get(cell)
        if ranking in signs and question in at_question:
            signs[ranking][at_question[question]] = order[loss] if loss else "."
    return ["".join(signs[ranking]) for ranking in place]


@dataclass(frozen=True, eq=False)
class Journeys:
    """worst: questions that most cells miss; disputed: those that are most disputed, by `measures`

    Of each question: link, text, language, and why it is in the list.
    """

    packs: ReportPacks
    questions: int
    worst: tuple[Mapping[str, Any], ...]
    disputed: tuple[Mapping[str, Any], ...]
    measures: tuple[tuple[str, str], ...]


def journeys(data: ReportData, labels: Mapping[str, str], hardest: Sequence[HardQuestion]) -> Journeys:
    """labels: of the cells in the order of the leaderboard; hardest: questions, the hardest first"""
    rows = data.journey or no_journeys()
    cells = list(labels)
    found, runs = disputes(data), runs_of(data, cells)
    tables = tables_of(data, rows, runs, rankings_of(rows, cells))
    asked = {row["question_id"]: row for row in data.questions.select(_SHOWN).iter_rows(named=True)}
    known = [(one, found[one]) for one in asked if one in found and found[one].value > 0]
    most = sorted(known, key=lambda pair: (-pair[1].value, pair[0]))[: limits.DISPUTED]
    return Journeys(
        packs(
            catalogue(data, rows, labels, runs, found),
            pack_scores(data.scores, runs, data.questions["question_id"].to_list()),
            pack_blocks(tables),
        ),
        data.questions.height,
        tuple(_worst(one, data) for one in hardest[: limits.WORST]),
        tuple(_listed(asked[one], dispute.words) for one, dispute in most),
        tuple((name, words) for name, words in MEASURES.items() if name in {d.measure for _, d in most}),
    )


_SHOWN = pl.col("question_id", "question", "language")


def _worst(one: HardQuestion, data: ReportData) -> dict[str, Any]:
    missed = f"missed by {one.missed} of {several(one.cells, 'cell')}"
    mean = f"mean {data.primary.title} {one.mean:.3f}".replace("-", "−")
    return _listed(one.question, f"{missed}, {mean}" if data.primary.worst is not None else mean)


def _listed(question: Mapping[str, Any], why: str) -> dict[str, Any]:
    text = truncate(question["question"], limits.UNFOUND_CHARACTERS)
    return {
        "link": link_of(question["question_id"]),
        "text": text,
        "language": question["language"],
        "why": why,
    }
