"""The sections behind the results: groups of questions, failures, corpus, provenance, and how to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rag_assay.evals.reporting import limits
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
from rag_assay.evals.reporting.leaderboard_section import direction
from rag_assay.evals.reporting.sections import (
    Block,
    Code,
    Column,
    Definitions,
    Details,
    Html,
    PageHeading,
    PageSection,
    Row,
    Table,
    TableFigure,
    explain,
    missing,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import RankedResult, groups
from rag_assay.evals.reporting.trust import failures
from rag_assay.warehouse.schemas import MIN_COVERAGE


def groups_section(data: ReportData, best: Sequence[RankedResult]) -> PageSection:
    blocks: list[Block] = ["No cell has a result to divide."]
    if best:
        blocks = [explain("group-means", metric=data.primary.title, n=len(best))]
    for column, title in (("type", "Question type"), ("question_set", "Question set")) if best else ():
        found = groups(data, column, best)
        rows: list[Row] = [
            (
                name,
                str(n),
                *(_group_mean(found.means.get((name, entry.cells[0])), data) for entry in best),
            )
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
        rows = [
            (
                labels.get(one["cell"], one["cell"]),
                ", ".join(one["metrics"]),
                TableFigure(one["status"], style="status bad"),
                TableFigure(str(one["rows"]), sort=one["rows"]),
                truncate(one["reason"], limits.REASON_CHARACTERS) or missing("no reason was recorded"),
            )
            for one in found.shown
        ]
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
        columns = [
            Column("Source"),
            *numbers("Pages", "Documents"),
            Column("Dropped"),
            Column("Pages failed"),
        ]
        rows = [
            (one.source, count(one.pages), count(one.documents), _lost(one.dropped), _lost(one.failed))
            for one in data.corpus
        ]
        blocks.append(Table("Sources", columns, rows, style="stack"))
        blocks.append(f"`assay ui {data.study} --page documents` shows each document beside its page.")
    if data.chunkings:
        columns = [Column("Chunking"), *numbers("Chunks"), *numbers("Mean", "Median", "Max", unit="tokens")]
        columns.append(Column("Too long", about="longer than the embedder reads", is_number=True))
        chunkings = [
            (
                one.name,
                count(one.chunks),
                f"{one.mean_tokens:.1f}",
                f"{one.median_tokens:.1f}",
                count(one.max_tokens),
                TableFigure(count(one.too_long), style="low" if one.too_long else ""),
            )
            for one in data.chunkings
        ]
        blocks.append(Table("Chunkings", columns, chunkings))
    recipes = {f"Chunking {one.name}": one.recipe for one in data.chunkings} | dict(data.recipes or {})
    blocks += [Details(name, [Code(recipe)], style="recipe") for name, recipe in recipes.items()]
    if data.versions:
        table = Table(
            "Versions", [Column("Name"), Column("Version")], list(data.versions.items()), style="versions"
        )
        blocks.append(Details("Versions and model digests", [table], style="recipe"))
    return section("corpus", blocks)


def _lost(counts: Mapping[str, int]) -> str:
    return format_counts(counts) or "none"


def provenance_section(data: ReportData) -> PageSection | None:
    """Return where the figures are from, and how each cell is made again; None where that is not known."""
    made = data.provenance
    if made is None:
        return None
    digest = (
        f"The corpus has the digest {made.corpus}: an equal digest means equal documents. "
        if made.corpus
        else ""
    )
    blocks: list[Block] = []
    if data.corpus:
        columns = [Column("Source"), Column("Fetched"), *numbers("Pages", "Documents"), Column("Digest")]
        rows = [
            (
                one.source,
                f"{one.crawled[:16].replace('T', ' ')} UTC" if one.crawled else MISSING,
                count(one.pages),
                count(one.documents),
                one.digest or MISSING,
            )
            for one in data.corpus
        ]
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
    commands = [
        (command, made.identities.get(cell, "not run"))
        for cell, command in islice(made.commands.items(), limits.LEADERBOARD_ROWS)
    ]
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
