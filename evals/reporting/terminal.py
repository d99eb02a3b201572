"""Renders the leaderboard as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assay.evals.reporting import caveats
from rag_assay.evals.reporting.contexts import context_words, contexts
from rag_assay.evals.reporting.display import MISSING, number, percent, plain, several, truncate
from rag_assay.evals.reporting.effects import effects, effects_words
from rag_assay.evals.reporting.human_ratings import people_sentences
from rag_assay.evals.reporting.judge_cards import estimate_sentences, judge_sentences
from rag_assay.evals.reporting.search_omissions import left_out_sentences
from rag_assay.evals.reporting.sections import SIGNS
from rag_assay.evals.reporting.standings import (
    ALL,
    CellStanding,
    Result,
    Subset,
    entries,
    main_subset,
    subsets,
    varying_axes,
)
from rag_assay.evals.statistics.significance import Standing

if TYPE_CHECKING:
    from rag_assay.evals.reporting.data import MetricInfo, ReportData

MOST_METRICS = 5
ROWS = 12  # with the verdict they fill a screen of 30 lines
NOTES = 3
EFFECTS = 5  # sentences of what the axes do
NOTE = 240  # characters of a note
CARD = 600  # … of a judge's lines
CELL_WIDTH = 28  # a longer name folds, so that a second metric has room
_GAP = 2  # between two columns


def leaderboard_table(data: ReportData, width: int = 100, rows: int = ROWS) -> RenderableType:
    """Return what a reader must know of a leaderboard, its first rows, and last the verdict.

    The table fits ``width`` columns: the primary metric with its interval, then up to four more metrics.
    """
    subset = main_subset(data)
    parts: list[RenderableType] = []
    table, metrics = _table(data, subset.standings[:rows], width)
    parts += [_text(line, "dim") for line in _footnotes(data, subset, metrics, rows)]
    parts += [_text(_in_a_line(data, other), "dim") for other in subsets(data)[1:]]
    parts += [_text(one, "dim") for one in effects_words(effects(data, in_short=True))[:EFFECTS]]
    at_length = contexts(data)
    parts += [_text(one, "dim") for one in (context_words(at_length)[:1] if at_length else [])]
    parts += [_text(one, "yellow") for one in caveats.blind_spot_sentences(data, subset)]
    parts += [_text(truncate(one, CARD), "dim") for one in people_sentences(data)]
    parts += [_text(f"Judge {truncate(one, CARD)}", "dim") for one in judge_sentences(data)]
    parts += [_text(f"People: {truncate(one, CARD)}", "dim") for one in estimate_sentences(data)]
    parts += [_text(f"Note: {truncate(note, NOTE)}", "yellow") for note in data.notes[:NOTES]]
    if len(data.notes) > NOTES:
        parts.append(_text(f"{several(len(data.notes) - NOTES, 'further note')} in the report.", "yellow"))
    parts += [_text(one, "yellow") for one in left_out_sentences(data)]
    parts += [_text(data.part, "bold yellow")] if data.part else []
    if subset.standings:
        parts += ["", _text(_title(data, subset), "bold"), table]
    decision, *why = data.verdict.sentences
    return Group(*parts, _text(decision, "bold"), _text(" ".join(why)))


def _in_a_line(data: ReportData, subset: Subset) -> str:
    leader = next((one for one in subset.standings if one.rank is not None), None)
    cells = several(len(subset.standings), "cell")
    name = f"{subset.name[:1].upper()}{subset.name[1:]}: {cells}, in the report"
    if leader is None:
        return f"{name}; none has a rank."
    result = leader.results.get(data.primary.name)
    label = leader.cell.label(varying_axes(subset.standings))
    return f"{name}; first {label} with {data.primary.title} {_primary(result, data.primary)}."


def _title(data: ReportData, subset: Subset) -> str:
    questions = several(subset.n(data.primary), "question")
    if subset.name == ALL:
        return f"All questions ({questions})"
    return f"{subset.name[:1].upper()}{subset.name[1:]}: cells are compared on these {questions} only"


def _table(data: ReportData, standings: Sequence[CellStanding], width: int) -> tuple[Table, int]:
    """Return a table, and how many metrics it has room for; a cell's name is split by axes if that fits.

    Coverage is shown where a cell has less than 100 %.
    """
    axes, primary = varying_axes(standings), data.primary
    names = [one.cell.label(axes) for one in standings]
    widest = min(CELL_WIDTH, max(map(len, names), default=4))
    shares = [percent(one.coverage(primary)) for one in standings]
    has_gaps = any(share != percent(1.0) for share in shares)
    left = room = width - 2 - 3 - (_GAP + len("coverage")) * has_gaps - _GAP - widest
    metrics: list[tuple[str, int, list[str]]] = []
    for metric in data.metrics[:MOST_METRICS]:
        write = _primary if metric is primary else _value
        values = [write(one.results.get(metric.name), metric) for one in standings]
        least = max(map(len, (*values, *metric.heading.split())))
        room -= _GAP + least
        if metrics and room < 0:
            break
        metrics.append((metric.heading, least, values))
        left = room
    parts = {axis: [getattr(one.cell, axis) or MISSING for one in standings] for axis in axes}
    needed = sum(_GAP + max(map(len, (axis, *texts))) for axis, texts in parts.items())
    is_split = needed <= left + _GAP + widest
    table = Table(box=SIMPLE_HEAD, width=width, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True, min_width=2)
    for name in axes if is_split else ["cell"]:
        table.add_column(name, overflow="fold", ratio=None if is_split else 1, no_wrap=is_split)
    for heading, least, _ in metrics:
        table.add_column(_text(heading), justify="right", overflow="fold", width=least)
    if has_gaps:
        table.add_column("coverage", justify="right", no_wrap=True)
    signs = [SIGNS.get(_standing(one.results.get(primary.name)), "") for one in standings]
    signed = zip(standings, signs, strict=True)
    ranks = [MISSING if one.rank is None else f"{sign}{one.rank}" for one, sign in signed]
    shown = [*(parts.values() if is_split else [names]), *(values for *_, values in metrics)]
    for row in zip(ranks, *shown, *([shares] if has_gaps else []), strict=True):
        table.add_row(*map(_text, row))
    return table, len(metrics)


def _standing(result: Result | None) -> Standing | None:
    return result.standing if result else None


def _primary(result: Result | None, metric: MetricInfo) -> str:
    return MISSING if result is None else result.written(metric.unit) + result.ends(metric.unit)


def _value(result: Result | None, metric: MetricInfo) -> str:
    return MISSING if result is None else result.written(metric.unit)


def _footnotes(data: ReportData, subset: Subset, metrics: int, rows: int) -> list[str]:
    lines = []
    results = (result for one in subset.standings[:rows] for result in one.results.values())
    if not all(result.covered for result in results):
        lines.append(
            "† coverage below 98 %: no rank; {worst–best case} in place of the interval. – no value."
        )
    found = {_standing(one.results.get(data.primary.name)) for one in subset.standings[:rows]}
    if "tied" in found:
        how = f"by a {data.comparison}"
        lines.append(f"{SIGNS['tied']} tied with the leader (not significantly different) {how}.")
    if "within" in found:
        margin = number(data.verdict.margin, data.primary.unit)
        lines.append(f"{SIGNS['within']} within the margin: less than {margin} from the leader.")
    lines += [sentence] if (sentence := caveats.chances_sentence(entries(data, subset))) else []
    lines += [sentence] if (sentence := caveats.replicates_sentence(data, subset)) else []
    lines += caveats.ceiling_sentences(data, subset)
    left_out = len(subset.standings) - rows
    if left_out > 0:
        lines.append(f"{several(left_out, 'further pipeline')} in the report.")
    hidden = data.metrics[metrics:]
    if hidden:
        lines.append(f"Not shown here: {', '.join(metric.title for metric in hidden)}.")
    return lines


def _text(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style)
