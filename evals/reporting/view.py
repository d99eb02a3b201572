"""Prepares the report's sections for the templates: all numbers and sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.caveats import (
    blind_spot_sentences,
    ceiling_sentences,
    power_sentence,
    replicates_sentence,
)
from rag_assay.evals.reporting.charts.marks import BarTable, HeatTable, Plane
from rag_assay.evals.reporting.contexts import (
    Contexts,
    Cost,
    Front,
    contexts,
    cost_fronts,
    cost_metrics,
    costs,
    running,
    usd_by_cell,
)
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import format_counts, number, several
from rag_assay.evals.reporting.effects import Effects, effects
from rag_assay.evals.reporting.figures.bars import (
    Bar,
    EffectBars,
    effect_bars,
    full_scores_figure,
    intervals_figure,
    latencies_figure,
    metrics_figure,
    small_bars,
    stages_figure,
)
from rag_assay.evals.reporting.figures.heat import Effect, Matrix, matrices, pair_figures, questions_figure
from rag_assay.evals.reporting.figures.planes import Risks, front_figure, risks, roc_figure
from rag_assay.evals.reporting.hardest import Hardest, hardest
from rag_assay.evals.reporting.human_ratings.section import People, people_section
from rag_assay.evals.reporting.journey.section import Journeys, journeys
from rag_assay.evals.reporting.judge_cards import Card, Estimates, estimates, judge_cards
from rag_assay.evals.reporting.retrieval_funnel import Lost, funnel_of
from rag_assay.evals.reporting.search_omissions import LeftOut, left_out_section
from rag_assay.evals.reporting.standings import (
    ALL,
    CellStanding,
    Groups,
    RankedResult,
    Subset,
    cell_labels,
    entries,
    groups,
    main_subset,
    subsets,
)
from rag_assay.evals.reporting.trust import Failures, TrustLine, failures, reasons_missing, trust_lines
from rag_assay.evals.statistics.verdict import labels_of

LEAST_CLUSTERS = 6  # of questions, for an interval by Student's distribution


@dataclass(frozen=True)
class Pairs:
    """What two cells are chosen from, and what is known of them.

    cells: key -> how it is shown, in the order of the leaderboard
    metrics: what any of them has values of
    known: JSON of `leader`; `clusters`: number of each question's cluster, in the order of the questions,
        empty where each is one of its own; `results`: metric -> cell -> its difference to the leader, the
        interval's ends, p and whether it is tied, as the leaderboard has them; `least`: LEAST_CLUSTERS;
        `units` and `higher`, whether more is better, by metric
    drawn: what is drawn again, as a noun
    """

    cells: Mapping[str, str]
    metrics: tuple[MetricInfo, ...]
    known: str
    drawn: str


def pairs(data: ReportData, main: Subset, labels: Mapping[str, str]) -> Pairs | None:
    """Return what two cells are chosen from; None where there are no two with scores."""
    there = set(data.scores["cell"].unique())
    cells = {key: label for key, label in labels.items() if key in there}
    if len(cells) < 2:
        return None
    measured = set(data.scores["metric"].unique())
    metrics = tuple(one for one in data.metrics if one.name in measured)
    codes = data.clusters.codes(data.questions["question_id"].to_list())
    board = data.leaderboard.filter((pl.col("subset") == main.name) & pl.col("p").is_not_null())
    columns = ("metric", "cell", "difference", "difference_low", "difference_high", "p", "tied")
    results: dict[str, dict[str, list[object]]] = {}
    for metric, cell, *found in board.select(columns).iter_rows():
        results.setdefault(metric, {})[cell] = found
    known = {
        "leader": data.verdict.leader.cell if data.verdict.leader else None,
        "clusters": [] if codes is None else codes.tolist(),
        "results": results,
        "least": LEAST_CLUSTERS,
        "units": {one.name: one.unit for one in metrics},
        "higher": {one.name: one.higher_is_better for one in metrics},
    }
    return Pairs(cells, metrics, json.dumps(known), "questions" if codes is None else "clusters of questions")


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
    metrics: BarTable | None
    full_scores: BarTable | None
    questions: HeatTable | None
    effect_bars: Mapping[str, tuple[EffectBars, ...]]
    pair_maps: tuple[HeatTable, ...]
    latencies: BarTable | None
    fronts: tuple[tuple[Plane, Front], ...]
    roc: Plane | None
    stages: BarTable | None
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
    tables = subsets(data)
    main = main_subset(data)
    found = entries(data, main)
    labels = cell_labels(data)
    cells = [standing.cell.key for standing in main.standings]
    if found:
        cells = [found[0].cells[0], *(cell for cell in cells if cell != found[0].cells[0])]
    best = found[: limits.BEST_CELLS]
    spent, usd = costs(data), usd_by_cell(data)
    hard = hardest(data, cells, labels)
    axes, found_contexts = effects(data), contexts(data)
    fronts = cost_fronts(data, main, spent, usd, labels)
    if found_contexts and found_contexts.front:
        fronts = (found_contexts.front, *fronts)
    verdict = data.verdict
    mine = (pl.col("subset") == verdict.subset) & (pl.col("metric") == verdict.metric)
    ranked = data.leaderboard.filter(mine & pl.col("rank").is_not_null()).sort("rank", "cell")
    return View(
        unseen=blind_spot_sentences(data, main),
        recommended=data.verdict.recommended.cell if data.verdict.recommended else None,
        first=(tuple(ranked.head(limits.FIRST_ROWS).to_dicts())),
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
        metrics=metrics_figure(data, main, labels),
        full_scores=full_scores_figure(data, main),
        questions=questions_figure(data, main),
        effect_bars={table.axis: effect_bars(table) for table in axes.axes},
        pair_maps=pair_figures(axes),
        latencies=latencies_figure(data),
        fronts=tuple((front_figure(front, at), front) for at, front in enumerate(fronts, 1)),
        roc=roc_figure(data),
        stages=stages_figure(data),
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
