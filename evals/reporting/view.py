"""Puts the sections of a report together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl

from rag_assay.evals.reporting import contexts, limits
from rag_assay.evals.reporting.caveats import blind_spot_sentences
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import (
    MISSING,
    count,
    format_counts,
    left_out,
    number,
    several,
    truncate,
)
from rag_assay.evals.reporting.effects import effects
from rag_assay.evals.reporting.figures import bars
from rag_assay.evals.reporting.figures.heat import effects_section, matrix_section, questions_figure
from rag_assay.evals.reporting.figures.planes import contexts_section, risk_section, roc_figure
from rag_assay.evals.reporting.hardest import Hardest, hardest
from rag_assay.evals.reporting.human_ratings import people_section
from rag_assay.evals.reporting.journey import Journeys, journeys
from rag_assay.evals.reporting.judge_cards import estimates_section, judges_section
from rag_assay.evals.reporting.leaderboard_section import direction, leaderboard_sections
from rag_assay.evals.reporting.retrieval_funnel import lost_section
from rag_assay.evals.reporting.search_omissions import left_out_section
from rag_assay.evals.reporting.sections import (
    Block,
    Code,
    Column,
    Definitions,
    Details,
    Html,
    PageHeading,
    PageSection,
    PageTemplate,
    Row,
    Table,
    TableFigure,
    explain,
    missing,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import RankedResult, cell_labels, entries, groups, main_subset
from rag_assay.evals.reporting.trust import TrustLine, failures, reasons_missing, trust_lines
from rag_assay.evals.statistics.verdict import labels_of
from rag_assay.warehouse.schemas import MIN_COVERAGE

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


def fronts_of(data: ReportData, at_length: contexts.Contexts | None) -> tuple[contexts.Front, ...]:
    """Return a front for each cost, that of the length of context first."""
    found = contexts.cost_fronts(
        data, main_subset(data), contexts.costs(data), contexts.usd_by_cell(data), cell_labels(data)
    )
    return (at_length.front, *found) if at_length and at_length.front else found


def _sections(
    data: ReportData, found: Sequence[RankedResult], cells: Sequence[str], hard: Hardest, followed: Journeys
) -> list[PageSection | None]:
    main, labels = main_subset(data), cell_labels(data)
    at_length = contexts.contexts(data)
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
        contexts.costs_section(data, labels, reasons_missing(data)),
        contexts_section(at_length, fronts),
        risk_section(data, cells, labels),
        people_section(data),
        estimates_section(data, labels),
        judges_section(data, charts),
        groups_section(data, found[: limits.BEST_CELLS]),
        section("hardest", [PageTemplate("hardest.html", {"hardest": hard, "data": data, "labels": labels})]),
        lost_section(data, questions),
        section("journey", [PageTemplate("journey.html", {"journeys": followed})]),
        failures_section(data, labels),
        corpus_section(data),
        provenance_section(data),
        reading_section(data),
    ]


def _charted(anchor: str, chart: Table | None) -> PageSection | None:
    return section(anchor, [chart], chart.caption) if chart else None


def _pairs(data: ReportData, labels: Mapping[str, str]) -> PageSection | None:
    """Return the comparison of two cells; None where there are no two with scores.

    JSON: `leader`; `clusters`: of each question, empty where each is its own; `results`: metric -> cell ->
    difference to the leader, ends of its interval, p, tied, within the margin; `least`, `units`, `higher`,
    `margins`.
    """
    there = set(data.scores["cell"].unique())
    cells = {key: label for key, label in labels.items() if key in there}
    if len(cells) < 2:
        return None
    measured = set(data.scores["metric"].unique())
    metrics = tuple(one for one in data.metrics if one.name in measured)
    codes = data.clusters.codes(data.questions["question_id"].to_list())
    board = data.leaderboard.filter((pl.col("subset") == main_subset(data).name) & pl.col("p").is_not_null())
    figures = ("difference", "difference_low", "difference_high", "p", "tied", "within_margin")
    results: dict[str, dict[str, list[object]]] = {}
    for metric, cell, *found in board.select("metric", "cell", *figures).iter_rows():
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


def groups_section(data: ReportData, best: Sequence[RankedResult]) -> PageSection:
    blocks: list[Block] = ["No cell has a result to divide."]
    if best:
        blocks = [explain("group-means", metric=data.primary.title, n=len(best))]
    for column, title in (("type", "Question type"), ("question_set", "Question set")) if best else ():
        found = groups(data, column, best)
        rows: list[Row] = [
            (name, str(n), *(_group_mean(found.means.get((name, entry.cells[0])), data) for entry in best))
            for name, n in found.questions.items()
        ]
        columns = [Column(title), *numbers("Questions", *(entry.label for entry in best))]
        blocks.append(Table(title, columns, rows, style="groups"))
    return section("groups", blocks)


def _group_mean(found: Mapping[str, Any] | None, data: ReportData) -> TableFigure:
    if found is None:
        return missing(f"{data.primary.title} does not apply to these questions, or they were not asked")
    mean, n, of = found["mean"], found["with_value"], found["n"]
    if mean is None:
        return missing(f"no value for any of {of} questions")
    small = f"n = {n}" + (f" of {of}" if n < of else "")
    return TableFigure(
        number(mean, data.primary.unit), (small,), style="low" if n < MIN_COVERAGE * of else ""
    )


def failures_section(data: ReportData, labels: Mapping[str, str]) -> PageSection:
    found = failures(data)
    blocks: list[Block] = ["Nothing failed."]
    if found.rows:
        rows = []
        for one in found.shown:
            named = (labels.get(one["cell"], one["cell"]), ", ".join(one["metrics"]))
            status = TableFigure(one["status"], style="status bad")
            n = TableFigure(str(one["rows"]), sort=one["rows"])
            reason = truncate(one["reason"], limits.REASON_CHARACTERS)
            rows.append((*named, status, n, reason or missing("no reason was recorded")))
        columns = [Column("Cell", style="cell"), Column("Metrics"), Column("Status")]
        columns += [*numbers("Rows of each"), Column("Reason", style="said")]
        rest = left_out("they are rarer", kind=found.kinds_left_out)
        blocks = [
            f"{several(found.rows, 'row')} did not end with the status ok: {format_counts(found.by_status)}. "
            "None of them counts as 0; they lower the coverage.",
            Table("Failures", columns, rows, rest, "sortable filterable stack"),
        ]
    if found.unrated:
        what = "human rating" if found.unrated == 1 else "human ratings"
        blocks.append(f"Not rated yet: {count(found.unrated)} {what}. They are no failures.")
    return section("failures", blocks)


def corpus_section(data: ReportData) -> PageSection:
    blocks: list[Block] = []
    if data.corpus:
        columns = [Column("Source"), *numbers("Pages", "Documents")]
        columns += [Column("Dropped"), Column("Pages failed")]
        rows = []
        for one in data.corpus:
            lost = (format_counts(counts) or "none" for counts in (one.dropped, one.failed))
            rows.append((one.source, count(one.pages), count(one.documents), *lost))
        blocks.append(Table("Sources", columns, rows, style="stack"))
        blocks.append(f"`assay ui {data.study} --page documents` shows each document beside its page.")
    if data.chunkings:
        columns = [Column("Chunking"), *numbers("Chunks"), *numbers("Mean", "Median", "Max", unit="tokens")]
        columns.append(Column("Too long", about="longer than the embedder reads", is_number=True))
        chunkings = []
        for cut in data.chunkings:
            middle = (f"{cut.mean_tokens:.1f}", f"{cut.median_tokens:.1f}")
            long = TableFigure(count(cut.too_long), style="low" if cut.too_long else "")
            chunkings.append((cut.name, count(cut.chunks), *middle, count(cut.max_tokens), long))
        blocks.append(Table("Chunkings", columns, chunkings))
    recipes = {f"Chunking {one.name}": one.recipe for one in data.chunkings} | dict(data.recipes or {})
    blocks += [Details(name, [Code(recipe)], style="recipe") for name, recipe in recipes.items()]
    if data.versions:
        heads = [Column("Name"), Column("Version")]
        table = Table("Versions", heads, list(data.versions.items()), style="versions")
        blocks.append(Details("Versions and model digests", [table], style="recipe"))
    return section("corpus", blocks)


def provenance_section(data: ReportData) -> PageSection | None:
    """Return where the figures are from, and how each cell is made again; None where that is not known."""
    made = data.provenance
    if made is None:
        return None
    digest = f"The corpus has the digest {made.corpus}: an equal digest means equal documents. "
    digest = digest if made.corpus else ""
    blocks: list[Block] = []
    if data.corpus:
        columns = [Column("Source"), Column("Fetched"), *numbers("Pages", "Documents"), Column("Digest")]
        rows = []
        for one in data.corpus:
            at = f"{one.crawled[:16].replace('T', ' ')} UTC" if one.crawled else MISSING
            rows.append((one.source, at, count(one.pages), count(one.documents), one.digest or MISSING))
        blocks.append(Table("Snapshot of the corpus", columns, rows, style="stack"))
    machine = [(name, str(value)) for name, value in made.machine.items()]
    blocks += [
        "The machine that wrote this report; seconds were measured where the cells were run:",
        Table("Machine that wrote this report", [Column("Name"), Column("Value")], machine, style="versions"),
        PageHeading("Make a cell again"),
    ]
    taken = data.verdict.recommended
    if taken and taken.cell in made.commands:
        blocks += ["The recommended one:", Code(made.commands[taken.cell])]
    shown = islice(made.commands.items(), limits.LEADERBOARD_ROWS)
    commands = [(command, made.identities.get(cell, "not run")) for cell, command in shown]
    table = Table("Commands of the cells", [Column("Command"), Column("Digest")], commands, style="stack")
    blocks.append(Details("Every cell with its command and digest", [table], style="recipe"))
    return section("provenance", blocks, corpus=digest, seed=data.seed)


def reading_section(data: ReportData) -> PageSection:
    margin = data.verdict.margin
    half = f" ({number(margin / 2, data.verdict.unit)})" if margin is not None else ""
    points = explain("points", interval=data.interval, comparison=data.comparison, half=half, seed=data.seed)
    metrics = [
        (one.heading + (" (primary)" if one == data.primary else ""), f"{one.explanation} {direction(one)}")
        for one in data.metrics
    ]
    return section("reading", [Html(points), PageHeading("Metrics"), Definitions(metrics)])
