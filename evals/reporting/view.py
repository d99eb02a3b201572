"""Puts the sections of a report together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.reporting import appendix, limits
from rag_assay.evals.reporting.caveats import blind_spot_sentences
from rag_assay.evals.reporting.contexts import (
    Contexts,
    Front,
    contexts,
    cost_fronts,
    costs,
    costs_section,
    usd_by_cell,
)
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import effects
from rag_assay.evals.reporting.figures import bars
from rag_assay.evals.reporting.figures.heat import effects_section, matrix_section, questions_figure
from rag_assay.evals.reporting.figures.planes import contexts_section, risk_section, roc_figure
from rag_assay.evals.reporting.hardest import Hardest, hardest
from rag_assay.evals.reporting.human_ratings.section import people_section
from rag_assay.evals.reporting.journey.section import Journeys, journeys
from rag_assay.evals.reporting.judge_cards import estimates_section, judges_section
from rag_assay.evals.reporting.leaderboard_section import leaderboard_sections
from rag_assay.evals.reporting.retrieval_funnel import lost_section
from rag_assay.evals.reporting.search_omissions import left_out_section
from rag_assay.evals.reporting.sections import PageSection, PageTemplate, Table, section
from rag_assay.evals.reporting.standings import RankedResult, cell_labels, entries, main_subset
from rag_assay.evals.reporting.trust import TrustLine, reasons_missing, trust_lines
from rag_assay.evals.statistics.verdict import labels_of

LEAST_CLUSTERS = 6  # of questions, for an interval by Student's distribution


@dataclass(frozen=True)
class View:
    """What the page shows beside the data; first: rows of the leaderboard beside the verdict, with labels."""

    unseen: tuple[str, ...]
    first: tuple[Mapping[str, Any], ...]
    first_labels: Mapping[str, str]
    trust: tuple[TrustLine, ...]
    hardest: Hardest
    journeys: Journeys
    sections: tuple[PageSection, ...]


def view(data: ReportData) -> View:
    main, labels = main_subset(data), cell_labels(data)
    found = entries(data, main)
    cells = [standing.cell.key for standing in main.standings]
    if found:
        cells = [found[0].cells[0], *(cell for cell in cells if cell != found[0].cells[0])]
    hard = hardest(data, cells, labels)
    followed = journeys(data, {cell: labels[cell] for cell in cells}, hard.questions)
    verdict = data.verdict
    mine = (pl.col("subset") == verdict.subset) & (pl.col("metric") == verdict.metric)
    ranked = data.leaderboard.filter(mine & pl.col("rank").is_not_null()).sort("rank", "cell")
    return View(
        unseen=blind_spot_sentences(data, main),
        first=tuple(ranked.head(limits.FIRST_ROWS).to_dicts()),
        first_labels=labels_of(data.leaderboard.to_dicts()),
        trust=trust_lines(data),
        hardest=hard,
        journeys=followed,
        sections=tuple(one for one in _sections(data, found, cells, hard, followed) if one),
    )


def fronts_of(data: ReportData, at_length: Contexts | None) -> tuple[Front, ...]:
    """Return a front for each cost, that of the length of context first."""
    found = cost_fronts(data, main_subset(data), costs(data), usd_by_cell(data), cell_labels(data))
    return (at_length.front, *found) if at_length and at_length.front else found


def _sections(
    data: ReportData,
    found: Sequence[RankedResult],
    cells: Sequence[str],
    hard: Hardest,
    followed: Journeys,
) -> list[PageSection | None]:
    main, labels = main_subset(data), cell_labels(data)
    at_length = contexts(data)
    fronts = fronts_of(data, at_length)
    charts = [one for one in (roc_figure(data), bars.stages_figure(data)) if one]
    questions = [one.question["question_id"] for one in hard.questions]
    return [
        *leaderboard_sections(data),
        _pairs(data, labels),
        left_out_section(data),
        _charted("intervals", bars.intervals_figure(data, found, len(labels))),
        _charted("metrics", bars.metrics_figure(data, main, labels)),
        effects_section(effects(data)),
        _charted("full-scores", bars.full_scores_figure(data, main)),
        matrix_section(data, main),
        _charted("questions-chunkings", questions_figure(data, main)),
        _charted("latencies", bars.latencies_figure(data)),
        costs_section(data, labels, reasons_missing(data)),
        contexts_section(at_length, fronts),
        risk_section(data, cells, labels),
        people_section(data),
        estimates_section(data, labels),
        judges_section(data, charts),
        appendix.groups_section(data, found[: limits.BEST_CELLS]),
        _hardest(data, hard, labels),
        lost_section(data, questions),
        section("journey", [PageTemplate("journey.html", {"journeys": followed})]),
        appendix.failures_section(data, labels),
        appendix.corpus_section(data),
        appendix.provenance_section(data),
        appendix.reading_section(data),
    ]


def _charted(anchor: str, chart: Table | None) -> PageSection | None:
    return section(anchor, [chart], chart.caption) if chart else None


def _hardest(data: ReportData, found: Hardest, labels: Mapping[str, str]) -> PageSection:
    values = {"hardest": found, "data": data, "labels": labels}
    return section("hardest", [PageTemplate("hardest.html", values)])


def _pairs(data: ReportData, labels: Mapping[str, str]) -> PageSection | None:
    """Return the comparison of two cells; None where there are no two with scores.

    JSON: `leader`; `clusters`: of each question, empty where each is its own; `results`: metric -> cell ->
    difference to the leader, ends of its interval, p, tied, within the margin; `least`: LEAST_CLUSTERS;
    `units`, `higher`, `margins`.
    """
    there = set(data.scores["cell"].unique())
    cells = {key: label for key, label in labels.items() if key in there}
    if len(cells) < 2:
        return None
    measured = set(data.scores["metric"].unique())
    metrics = tuple(one for one in data.metrics if one.name in measured)
    codes = data.clusters.codes(data.questions["question_id"].to_list())
    board = data.leaderboard.filter((pl.col("subset") == main_subset(data).name) & pl.col("p").is_not_null())
    columns = (
        "metric",
        "cell",
        "difference",
        "difference_low",
        "difference_high",
        "p",
        "tied",
        "within_margin",
    )
    results: dict[str, dict[str, list[object]]] = {}
    for metric, cell, *found in board.select(columns).iter_rows():
        results.setdefault(metric, {})[cell] = found
    known = {
        "leader": data.verdict.leader.cell if data.verdict.leader else None,
        "clusters": [] if codes is None else codes.tolist(),
        "results": results,
        "least": LEAST_CLUSTERS,
        "units": {one.name: one.unit for one in metrics},
        "margins": {one.name: data.margin_of(one) for one in metrics},
        "higher": {one.name: one.higher_is_better for one in metrics},
    }
    drawn = "questions" if codes is None else "clusters of questions"
    controls = PageTemplate("pairs.html", {"cells": cells, "metrics": metrics, "known": json.dumps(known)})
    return section("pairs", [controls], drawn=drawn)
