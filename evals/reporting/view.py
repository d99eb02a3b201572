"""Prepares the report's sections for the templates: all numbers and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.metrics.running_costs import RunningCost
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.ceilings import ceiling_sentences
from rag_assay.evals.reporting.charts.bars import BarTable
from rag_assay.evals.reporting.contexts import Contexts, contexts, cost_fronts
from rag_assay.evals.reporting.costs import Cost, cost_metrics, costs, running, usd_by_cell
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import format_counts, number, several
from rag_assay.evals.reporting.effects import Effects, effects
from rag_assay.evals.reporting.entries import RankedResult, entries
from rag_assay.evals.reporting.estimates import Estimates, estimates
from rag_assay.evals.reporting.failures import Failures, failures, reasons_missing
from rag_assay.evals.reporting.figures.figure_set import Figures, figures
from rag_assay.evals.reporting.figures.intervals import Bar, intervals_figure, small_bars
from rag_assay.evals.reporting.groups import Groups, groups
from rag_assay.evals.reporting.hardest import Hardest, hardest
from rag_assay.evals.reporting.human_ratings.section import People, people_section
from rag_assay.evals.reporting.journey.section import Journeys, journeys
from rag_assay.evals.reporting.judge_cards import Card, judge_cards
from rag_assay.evals.reporting.matrix import Effect, Matrix, matrices
from rag_assay.evals.reporting.metric_blind_spots import blind_spot_sentences
from rag_assay.evals.reporting.pairs import Pairs, pairs
from rag_assay.evals.reporting.power import power_sentence
from rag_assay.evals.reporting.replicates import replicates_sentence
from rag_assay.evals.reporting.retrieval_funnel import Lost, funnel_of
from rag_assay.evals.reporting.risk import Risks, risks
from rag_assay.evals.reporting.search_omissions import LeftOut, left_out_section
from rag_assay.evals.reporting.standings import ALL, CellStanding, Subset, main_subset, subsets, varying_axes
from rag_assay.evals.reporting.trust import TrustLine, trust_lines
from rag_assay.evals.statistics.verdict import labels_of


@dataclass(frozen=True)
class Board:
    """One leaderboard table: the questions that its cells are compared on, and its rows."""

    title: str
    sentence: str
    main: bool
    rows: tuple[CellStanding, ...]
    left_out: int
    bars: Mapping[str, Bar]
    unranked: int
    replicates: str | None
    ceilings: Sequence[str]
    grouped: bool
    settling: str


@dataclass(frozen=True)
class View:
    """All that the page shows, beside the data itself."""

    unseen: tuple[str, ...]
    recommended: str | None
    first: tuple[Mapping[str, Any], ...]
    first_labels: Mapping[str, str]
    running: Mapping[str, RunningCost]
    pairs: Pairs | None
    trust: tuple[TrustLine, ...]
    boards: tuple[Board, ...]
    several_embedders: bool
    labels: Mapping[str, str]
    reasons: Mapping[tuple[str, str], str]
    entries: tuple[RankedResult, ...]
    intervals: BarTable | None
    effects: Effects
    matrices: tuple[Matrix, ...]
    cost_metrics: tuple[MetricInfo, ...]
    costs: Mapping[tuple[str, str], Cost]
    contexts: Contexts | None
    figures: Figures
    risks: Risks | None
    judge_cards: tuple[Card, ...]
    people: People | None
    estimates: tuple[Estimates, ...]
    usd: Mapping[str, float]
    groups: tuple[Groups, ...]
    matrices_wide: bool
    hardest: Hardest
    lost: Lost | None
    journeys: Journeys
    left_out: LeftOut | None
    failures: Failures


def view(data: ReportData) -> View:
    """Compute every section of the report."""
    tables = subsets(data)
    main = main_subset(data)
    found = entries(data, main)
    labels = _labels(data, tables)
    cells = [standing.cell.key for standing in main.standings]
    if found:
        cells = [found[0].cells[0], *(cell for cell in cells if cell != found[0].cells[0])]
    best = found[: limits.BEST_CELLS]
    spent, usd = costs(data), usd_by_cell(data)
    hard = hardest(data, cells, labels)
    axes, found_contexts = effects(data), contexts(data)
    first = found_contexts.front if found_contexts else None
    fronts = cost_fronts(data, main, spent, usd, labels)
    return View(
        unseen=blind_spot_sentences(data, main),
        recommended=data.verdict.recommended.cell if data.verdict.recommended else None,
        first=_first_rows(data),
        first_labels=labels_of(data.leaderboard.to_dicts()),
        running=running(data),
        pairs=pairs(data, main, labels),
        trust=trust_lines(data),
        boards=tuple(_board(data, subset) for subset in tables),
        several_embedders=data.leaderboard["embedder"].drop_nulls().n_unique() > 1,
        labels=labels,
        reasons=reasons_missing(data),
        entries=found,
        intervals=intervals_figure(data, found, len(labels)),
        effects=axes,
        matrices=matrices(data, main),
        cost_metrics=cost_metrics(data),
        costs=spent,
        contexts=found_contexts,
        figures=figures(data, main, labels, axes, (*([first] if first else []), *fronts)),
        risks=risks(data, cells, labels),
        usd=usd,
        judge_cards=judge_cards(data),
        people=people_section(data),
        estimates=estimates(data, labels),
        groups=tuple(groups(data, column, best) for column in ("type", "question_set")) if best else (),
        matrices_wide=data.leaderboard["retriever"].n_unique() > 4,
        hardest=hard,
        lost=funnel_of(data, [question.question["question_id"] for question in hard.questions]),
        journeys=journeys(data, {cell: labels[cell] for cell in cells}, hard.questions),
        left_out=left_out_section(data),
        failures=failures(data),
    )


def _first_rows(data: ReportData) -> tuple[Mapping[str, Any], ...]:
    """Return the first rows of the leaderboard (schemas.LEADERBOARD) that the verdict is about."""
    verdict = data.verdict
    mine = (pl.col("subset") == verdict.subset) & (pl.col("metric") == verdict.metric)
    ranked = data.leaderboard.filter(mine & pl.col("rank").is_not_null()).sort("rank", "cell")
    return tuple(ranked.head(limits.FIRST_ROWS).to_dicts())


def effect_sentence(effect: Effect, axis: str, other: str, metric: MetricInfo) -> str:
    """Say how far an axis moves a metric, from its lowest mean to its highest.

    >>> metric = MetricInfo("m", "nDCG@10", "retrieval", True, (0, 1), "", "")
    >>> effect_sentence(Effect({"a": 0.2, "b": 0.5}, 3, 3), "chunking", "retriever", metric)
    'The chunking moves nDCG@10 by 0.300: from 0.200 (a) to 0.500 (b), each the mean over 3 retrievers.'
    """
    if effect.span is None:
        why = "one name on this axis" if effect.over else f"no {other} has a value for all of them"
        return f"The effect of the {axis} cannot be given: {why}."
    lowest = min(effect.means, key=lambda name: effect.means[name])
    highest = max(effect.means, key=lambda name: effect.means[name])
    over = several(effect.over, other) + (f" of {effect.of}" if effect.over < effect.of else "")
    return (
        f"The {axis} moves {metric.title} by {number(effect.span)}: "
        f"from {number(effect.means[lowest])} ({lowest}) to {number(effect.means[highest])} ({highest}), "
        f"each the mean over {over}."
    )


def _labels(data: ReportData, tables: Sequence[Subset]) -> Mapping[str, str]:
    standings = [standing for subset in tables for standing in subset.standings]
    axes = varying_axes(standings)
    return {standing.cell.key: standing.cell.label(axes) for standing in standings}


def _board(data: ReportData, subset: Subset) -> Board:
    shown = subset.standings[: limits.LEADERBOARD_ROWS]
    n = subset.n(data.primary)
    ranked = [entry for entry in entries(data, subset) if entry.rank is not None]
    if subset.name == ALL:
        title, sentence = "Leaderboard", f"Every cell below was asked the same {several(n, 'question')}."
    else:
        title = f"Leaderboard on a {subset.name}"
        sentence = (
            f"Cells are compared on these {several(n, 'question')} only; "
            "their values here are not those of the table of all questions."
        )
    return Board(
        title,
        sentence,
        subset == main_subset(data),
        shown,
        len(subset.standings) - len(shown),
        small_bars(data.primary, entries(data, subset)),
        sum(
            standing.rank is None
            and data.primary.name in standing.results
            and not standing.is_ceiling(data.primary)
            for standing in subset.standings
        ),
        replicates_sentence(data, subset),
        ceiling_sentences(data, subset),
        any(standing.tie_group is not None for standing in subset.standings),
        power_sentence([one for one in ranked[1:] if one.tied], n, data.primary),
    )


def drops(counts: Mapping[str, int]) -> str:
    """Write counts by reason, or say that nothing was lost.

    >>> drops({}), drops({"too short": 4})
    ('none', '4 × too short')
    """
    return format_counts(counts) or "none"
