"""What a figure of the study rests on, a line each, and the failures among its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from rag_assay.evals.reporting import limits, standings
from rag_assay.evals.reporting.caveats import settling
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import count, format_counts, percent
from rag_assay.evals.reporting.stored_rows import UNCALIBRATED
from rag_assay.evals.reporting.texts import Language, listed_in, metric_title, read_texts, several, words_in
from rag_assay.evals.rubrics.human_rating_metrics import UNRATED, is_unrated
from rag_assay.evals.study.complexity import below_gate, coverages, lowest_and_highest
from rag_assay.evals.successive_halving.records import left_out
from rag_assay.warehouse.schemas import MIN_COVERAGE, Status

ANSWERING = "answer"


@dataclass(frozen=True)
class Failures:
    """The most frequent failures; rows: in all; unrated: scores that wait for a human rating; shown: cell,
    status, reason, how many `rows`, and in which `metrics`; `answer` is the answer itself
    """

    shown: tuple[Mapping[str, Any], ...]
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
    shown = tuple(kinds.head(limits.FAILURES).iter_rows(named=True))
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

TEXTS = read_texts("trust")  # the list in English and, for the app, in German


@dataclass(frozen=True)
class TrustLine:
    """One fact that the figures rest on; section: id of the section that tells more"""

    name: str
    state: State
    word: str
    text: str
    section: str

    @property
    def sign(self) -> str:
        return SIGNS[self.state]


def trust_lines(data: ReportData, language: Language = "en") -> tuple[TrustLine, ...]:
    main, list_ = standings.main_subset(data), _TrustList(data, language)
    lines = (
        list_.questions(),
        list_.coverage(),
        list_.gate(main),
        list_.cells(),
        list_.truncation(),
        list_.duplicates(),
        list_.judges(),
        list_.settled(main),
    )
    return tuple(line for line in lines if line)


class _TrustList:
    def __init__(self, data: ReportData, language: Language) -> None:
        self._data, self._language = data, language
        self._words = words_in(TEXTS, language)

    def _line(self, name: str, state: State, text: str, section: str) -> TrustLine:
        return TrustLine(self._words(name), state, self._words(state), text, section)

    def questions(self) -> TrustLine:
        rows, words = self._data.questions, self._words
        n = rows.height
        if not n:
            return self._line("Questions", "wrong", words("not_asked"), "groups")
        gold = rows.filter(pl.col("gold") != "none")
        is_found = pl.element().struct.field("doc_id").is_not_null()
        places = gold.select(found=pl.col("evidence").list.eval(is_found))
        unfound = places.filter(~pl.col("found").list.any()).height
        truths = rows.filter(pl.col("ground_truth").is_not_null()).height
        no_type = words("no_type")
        types = {str(name): k for name, k in rows["type"].fill_null(no_type).value_counts().iter_rows()}
        shown = dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))[:TYPES])
        text = several(words, "asked", n, gold=count(gold.height), truths=count(truths))
        if len(types) > 1:
            text += words("by_type", types=format_counts(shown))
            text += words("more_types", n=count(len(types) - TYPES)) if len(types) > TYPES else ""
        text += words("unfound", n=count(unfound)) if unfound else ""
        text += words("few") if n < FEW else ""
        return self._line("Questions", "look" if unfound or n < FEW else "ok", text, "groups")

    def coverage(self) -> TrustLine:
        data, words, title = self._data, self._words, self._data.primary.title
        if not data.leaderboard.filter(pl.col("metric") == data.primary.name)["value"].count():
            return self._line("Coverage", "wrong", words("no_value", title=title), "failures")
        shares = coverages(data.leaderboard, data.unmeasured)
        low, high = map(percent, lowest_and_highest(shares))
        text = words("covered" if low == high else "covered_by_cell", low=low, high=high)
        below = below_gate(shares).sort("share", "cell")
        if below.height:
            titles = {one.name: metric_title(one.title, self._language) for one in data.metrics}
            labels = standings.cell_labels(data)
            named = [
                f"{labels[cell]} {percent(share)} ({titles.get(lacks, lacks) if lacks else words('answers')})"
                for cell, share, lacks in below.select("cell", "share", "lacks").iter_rows()
            ]
            text += words("below", gate=GATE, named=listed_in(self._language, named, NAMED))
        missing = missing_values(data.scores.filter(pl.col("metric") == data.primary.name))
        if missing:
            text += words("values_missing", title=title, counts=format_counts(missing))
        return self._line("Coverage", "look" if below.height else "ok", text, "failures")

    def gate(self, main: standings.Subset) -> TrustLine:
        data, words = self._data, self._words
        able = [one for one in main.standings if one.rank is not None]
        without = (one for one in main.standings if one.rank is None and data.primary.name in one.results)
        out = [one for one in without if not one.is_ceiling(data.primary)]
        rule = words("rule", gate=GATE)
        if not able:
            return self._line("Gate", "wrong", words("no_winner", rule=rule), "leaderboard")
        if out:
            text = several(words, "some_passed", len(able), rule=rule, out=count(len(out)))
            return self._line("Gate", "look", text, "leaderboard")
        name = "all_passed" if main.name == standings.ALL else "all_passed_on"
        text = words(name, rule=rule, n=count(len(able)), subset=main.name)
        return self._line("Gate", "ok", text, "leaderboard")

    def cells(self) -> TrustLine:
        data, words, board = self._data, self._words, self._data.leaderboard
        known = board["cell"].n_unique()
        run = board.filter(pl.col("cell_id").is_not_null())["cell"].n_unique()
        planned = max(data.planned or 0, known)
        pruned = len(left_out(data.search.rows)) if data.search else 0
        text = several(words, "run", planned, run=count(run))
        for name, n in (("failed", known - run), ("not_tried", planned - known), ("pruned", pruned)):
            text += words(name, n=count(n)) if n else ""
        state: State = "wrong" if not run else "look" if run < planned or pruned else "ok"
        section = "failures" if run < planned else "left-out" if pruned else "leaderboard"
        return self._line("Cells", state, text, section)

    def truncation(self) -> TrustLine:
        data, words = self._data, self._words
        parts = []
        long = [one for one in data.chunkings if one.too_long]
        if long:
            names = listed_in(self._language, [one.name for one in long])
            parts.append(several(words, "long", sum(one.too_long for one in long), names=names))
        cut = data.answers.filter(pl.col("status") == Status.TRUNCATED)
        if cut.height:
            cells = several(words, "cells", cut["cell"].n_unique())
            parts.append(several(words, "cut", cut.height, cells=cells))
        if parts:
            return self._line("Truncation", "look", "; ".join(parts), "corpus" if long else "failures")
        text = words("nothing_cut" if data.chunkings else "no_chunks")
        return self._line("Truncation", "ok", text, "corpus")

    def duplicates(self) -> TrustLine | None:
        found, words = self._data.duplicates, self._words
        if found is None:
            return None
        number = found.exact + found.near
        if not number:
            text = words("no_copy") + (words("near_unknown") if found.threshold is None else "")
            return self._line("Duplicates", "ok", text, "corpus")
        copies = several(words, "copies", number, exact=count(found.exact), near=count(found.near))
        if found.left_out >= number:
            return self._line("Duplicates", "ok", words("copies_out", copies=copies), "corpus")
        return self._line("Duplicates", "look", words("copies_kept", copies=copies), "corpus")

    def judges(self) -> TrustLine:
        data, words = self._data, self._words
        if not data.judges:
            return self._line("Judges", "ok", words("no_judge"), "reading")
        section = "judges" if data.judge_cards is not None and data.judge_cards.height else "reading"
        open_metrics = [one for one in data.metrics if UNCALIBRATED in one.title]
        prefixes = tuple(f"{judge}." for judge in data.judges)
        judged = [one for one in data.metrics if one.name.startswith(prefixes)]
        n = several(words, "judged", len(judged))
        if not open_metrics:
            return self._line("Judges", "ok", words("calibrated", judged=n), section)
        ranks = any(one == data.primary for one in open_metrics)
        text = words("uncalibrated", n=count(len(open_metrics)), judged=n)
        text += words("ranks_cells") if ranks else ""
        return self._line("Judges", "wrong" if ranks else "look", text, section)

    def settled(self, main: standings.Subset) -> TrustLine:
        data, words = self._data, self._words
        ranked = [one for one in standings.entries(data, main) if one.rank is not None]
        tied = [one for one in ranked[1:] if one.is_open]
        state: State = "look" if tied else "ok" if ranked else "wrong"
        if not tied:
            near = any(one.tied for one in ranked[1:])
            text = words("settled_near" if near else "settled" if ranked else "no_rank")
            return self._line("Enough questions", state, text, "leaderboard")
        text = several(words, "open", len(tied))
        if of := sum(one.result.p is not None for one in tied):
            enough, settled = settling(tied, main.n(data.primary))
            name = "settles_none" if not settled else "settles_all" if settled == of else "settles_some"
            text += words(name, n=count(enough), settled=settled, of=of)
        return self._line("Enough questions", state, text, "leaderboard")
