"""What a figure of the study rests on, a line each, and the failures among its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import polars as pl

from rag_assay.evals.reporting import limits, standings
from rag_assay.evals.reporting.caveats import power_sentence
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import count, format_counts, listed, percent, several, truncate
from rag_assay.evals.reporting.stored_rows import UNCALIBRATED
from rag_assay.evals.rubrics.human_rating_metrics import UNRATED, is_unrated
from rag_assay.evals.study.complexity import below_gate, coverages, lowest_and_highest
from rag_assay.evals.successive_halving.records import left_out
from rag_assay.warehouse.schemas import MIN_COVERAGE, Status

ANSWERING = "answer"


@dataclass(frozen=True)
class Failure:
    """One kind of failure in one cell, and in which metrics; `answer` is the answer itself."""

    cell: str
    metrics: tuple[str, ...]
    status: str
    reason: str | None
    rows: int


@dataclass(frozen=True)
class Failures:
    """The most frequent failures; rows: in all; unrated: scores that wait for a human rating"""

    shown: tuple[Failure, ...]
    kinds_left_out: int
    rows: int
    by_status: Mapping[str, int]
    unrated: int


def failures(data: ReportData) -> Failures:
    """Count scores and answers whose status is not `ok`; missing ratings apart."""
    columns = ["cell", "metric", "status", "reason"]
    answers = data.answers.with_columns(metric=pl.lit(ANSWERING)).select(columns)
    bad = pl.concat([answers, data.scores.select(columns)]).filter(pl.col("status") != "ok")
    unrated = bad.filter(is_unrated()).height
    bad = bad.filter(~is_unrated())
    titles = {metric.name: metric.title for metric in data.metrics}
    counts = bad.group_by(columns).agg(rows=pl.len()).with_columns(pl.col("metric").replace(titles))
    # One timeout takes all metrics of its answer with it: what failed alike shares a row.
    alike = ["cell", "status", "reason", "rows"]
    kinds = counts.group_by(alike).agg(metrics=pl.col("metric").sort())
    kinds = kinds.sort("rows", "cell", "status", "reason", descending=[True, False, False, False])
    shown = tuple(
        Failure(
            row["cell"],
            tuple(row["metrics"]),
            row["status"],
            truncate(row["reason"], limits.REASON_CHARACTERS) or None,
            row["rows"],
        )
        for row in kinds.head(limits.FAILURES).iter_rows(named=True)
    )
    by_status = dict(bad.group_by("status").len().sort("status").iter_rows())
    return Failures(shown, kinds.height - len(shown), bad.height, by_status, unrated)


def reasons_missing(data: ReportData) -> Mapping[tuple[str, str], str]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for cell, metric, why, rows in _missing(data.scores, "cell", "metric").iter_rows():
        counts.setdefault((cell, metric), {})[why] = rows
    return {place: format_counts(reasons) for place, reasons in counts.items()}


def missing_values(scores: pl.DataFrame) -> dict[str, int]:
    """Return status, or unrated -> scores without a value."""
    return dict(_missing(scores).iter_rows())


def _missing(scores: pl.DataFrame, *of: str) -> pl.DataFrame:
    why = pl.when(is_unrated()).then(pl.lit(UNRATED)).otherwise("status").alias("why")
    return scores.filter(pl.col("status") != "ok").group_by(*of, why).len()


State = Literal["ok", "look", "wrong"]
FEW = 30  # questions: with fewer, an interval is wider than most differences between retrievers
TYPES = 6  # of questions that are named
NAMED = 6  # cells below the gate that are named
GATE = f"{MIN_COVERAGE:.0%}".replace("%", " %")
SIGNS: dict[State, str] = {"ok": "✓", "look": "!", "wrong": "✗"}
WORDS: dict[State, str] = {"ok": "fine", "look": "look at this", "wrong": "wrong"}


@dataclass(frozen=True)
class TrustLine:
    """One fact that the figures rest on; section: id of the section that tells more"""

    name: str
    state: State
    text: str
    section: str

    @property
    def sign(self) -> str:
        return SIGNS[self.state]

    @property
    def word(self) -> str:
        return WORDS[self.state]


def trust_lines(data: ReportData) -> tuple[TrustLine, ...]:
    main = standings.main_subset(data)
    lines = (
        _questions(data),
        _coverage(data),
        _gate(data, main),
        _cells(data),
        _truncation(data),
        _duplicates(data),
        _judges(data),
        _settled(data, main),
    )
    return tuple(line for line in lines if line)


def _questions(data: ReportData) -> TrustLine:
    rows = data.questions
    n = rows.height
    if not n:
        return TrustLine("Questions", "wrong", "no question was asked", "groups")
    gold = rows.filter(pl.col("gold") != "none")
    places = gold.select(
        found=pl.col("evidence").list.eval(pl.element().struct.field("doc_id").is_not_null())
    )
    unfound = places.filter(~pl.col("found").list.any()).height
    truths = rows.filter(pl.col("ground_truth").is_not_null()).height
    types = {str(name): k for name, k in rows["type"].fill_null("no type").value_counts().iter_rows()}
    shown = dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))[:TYPES])
    more = f", {count(len(types) - TYPES)} more types" if len(types) > TYPES else ""
    text = (
        f"{several(n, 'question')}: {count(gold.height)} with evidence, {count(truths)} with a ground truth"
    )
    text += f"; by type {format_counts(shown)}{more}" if len(types) > 1 else ""
    if unfound:
        text += f"; the evidence of {count(unfound)} is in no document"
    if n < FEW:
        text += "; with so few, only large differences are significant"
    return TrustLine("Questions", "look" if unfound or n < FEW else "ok", text, "groups")


def _coverage(data: ReportData) -> TrustLine:
    if not data.leaderboard.filter(pl.col("metric") == data.primary.name)["value"].count():
        return TrustLine("Coverage", "wrong", f"no cell has a value of {data.primary.title}", "failures")
    shares = coverages(data.leaderboard, data.unmeasured)
    low, high = map(percent, lowest_and_highest(shares))
    text = f"{low} of the questions have a value and an answer, in every cell"
    if low != high:
        text = f"from {low} to {high} of the questions have a value and an answer, by cell"
    below = below_gate(shares).sort("share", "cell")
    if below.height:
        titles = {one.name: one.title for one in data.metrics}
        labels = standings.cell_labels(data)
        named = [
            f"{labels[cell]} {percent(share)} ({titles.get(lacks, lacks) if lacks else 'answers'})"
            for cell, share, lacks in below.select("cell", "share", "lacks").iter_rows()
        ]
        text += f"; below {GATE}: {listed(named, NAMED)}"
    missing = missing_values(data.scores.filter(pl.col("metric") == data.primary.name))
    if missing:
        text += f"; values of {data.primary.title} missing: {format_counts(missing)}"
    return TrustLine("Coverage", "look" if below.height else "ok", text, "failures")


def _gate(data: ReportData, main: standings.Subset) -> TrustLine:
    able = [one for one in main.standings if one.rank is not None]
    out = [
        one
        for one in main.standings
        if one.rank is None and data.primary.name in one.results and not one.is_ceiling(data.primary)
    ]
    rule = f"a cell needs {GATE} coverage for a rank"
    if not able:
        return TrustLine("Gate", "wrong", f"no winner: {rule}, and none has it", "leaderboard")
    if out:
        text = f"{rule}: {several(len(able), 'cell')} passed, {count(len(out))} did not and cannot win"
        return TrustLine("Gate", "look", text, "leaderboard")
    where = "all questions" if main.name == standings.ALL else f"a {main.name}"
    return TrustLine("Gate", "ok", f"{rule}: all {count(len(able))} passed, on {where}", "leaderboard")


def _cells(data: ReportData) -> TrustLine:
    board = data.leaderboard
    known = board["cell"].n_unique()
    run = board.filter(pl.col("cell_id").is_not_null())["cell"].n_unique()
    planned = max(data.planned or 0, known)
    text = f"{count(run)} of {several(planned, 'planned cell')} run"
    failed, left = known - run, planned - known
    if failed:
        text += f", {count(failed)} failed"
    if left:
        text += f", {count(left)} not tried"
    pruned = len(left_out(data.search.rows)) if data.search else 0
    if pruned:
        text += f"; of the grid, the search left out {count(pruned)} more"
    state: State = "wrong" if not run else "look" if run < planned or pruned else "ok"
    if run < planned:
        return TrustLine("Cells", state, text, "failures")
    return TrustLine("Cells", state, text, "left-out" if pruned else "leaderboard")


def _truncation(data: ReportData) -> TrustLine:
    parts = []
    long = [one for one in data.chunkings if one.too_long]
    if long:
        chunks = sum(one.too_long for one in long)
        named = listed([one.name for one in long])
        parts.append(f"{several(chunks, 'chunk')} of {named} longer than the embedder reads")
    cut = data.answers.filter(pl.col("status") == Status.TRUNCATED)
    if cut.height:
        cells = several(cut["cell"].n_unique(), "cell")
        parts.append(f"{several(cut.height, 'answer')} cut at the bound of tokens, in {cells}")
    if parts:
        return TrustLine("Truncation", "look", "; ".join(parts), "corpus" if long else "failures")
    what = "no chunk is longer than its embedder reads" if data.chunkings else "no chunks of our own"
    return TrustLine("Truncation", "ok", f"{what}, no answer was cut", "corpus")


def _duplicates(data: ReportData) -> TrustLine | None:
    found = data.duplicates
    if found is None:
        return None
    number = found.exact + found.near
    if not number:
        what = "no document is a copy of another"
        near = "" if found.threshold is not None else "; near copies were not looked for (`near_duplicates`)"
        return TrustLine("Duplicates", "ok", what + near, "corpus")
    what = f"{several(number, 'document')} that {'is a copy' if number == 1 else 'are copies'} of another"
    kinds = f"({count(found.exact)} exact, {count(found.near)} near)"
    if found.left_out >= number:
        return TrustLine("Duplicates", "ok", f"{what} {kinds} left out", "corpus")
    kept = "kept: a retriever that finds the other copy of the evidence is counted as wrong"
    return TrustLine("Duplicates", "look", f"{what} {kinds} {kept}", "corpus")


def _judges(data: ReportData) -> TrustLine:
    if not data.judges:
        return TrustLine("Judges", "ok", "no model judges anything here", "reading")
    section = "judges" if data.judge_cards is not None and data.judge_cards.height else "reading"
    open_metrics = [one for one in data.metrics if UNCALIBRATED in one.title]
    judged = [one for one in data.metrics if any(one.name.startswith(f"{judge}.") for judge in data.judges)]
    n = several(len(judged), "judged metric")
    if not open_metrics:
        return TrustLine("Judges", "ok", f"{n}, held against people's labels", section)
    ranks = any(one == data.primary for one in open_metrics)
    text = f"{count(len(open_metrics))} of {n} uncalibrated: nothing says how far people would agree"
    if ranks:
        text += "; one of them ranks the cells"
    return TrustLine("Judges", "wrong" if ranks else "look", text, section)


def _settled(data: ReportData, main: standings.Subset) -> TrustLine:
    ranked = [one for one in standings.entries(data, main) if one.rank is not None]
    tied = [one for one in ranked[1:] if one.tied]
    line = partial(TrustLine, "Enough questions", section="leaderboard")
    if not ranked:
        return line("wrong", "nothing to settle: no pipeline has a rank")
    if not tied:
        return line("ok", "every other pipeline is significantly worse than the first")
    needed = power_sentence(tied, main.n(data.primary), data.primary).rpartition("; ")[2].removesuffix(".")
    open_ones = f"{several(len(tied), 'comparison')} with the first cell open"
    text = f"{open_ones}; {needed}" if needed else open_ones
    return line("look", text)
