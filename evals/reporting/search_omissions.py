"""What a search left out of a study: which cells, why, what that could have missed, what it spared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    IN_ROWS,
    MISSING,
    count,
    interval,
    number,
    p_value,
    percent,
    several,
    with_sign,
)
from rag_assay.evals.reporting.display import left_out as omitted
from rag_assay.evals.reporting.sections import (
    Block,
    Column,
    PageSection,
    Table,
    TableFigure,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import LeaderboardCell, main_subset
from rag_assay.evals.study.cells import AXES, UNREAD, varying_axes
from rag_assay.evals.study.cells import Cell as StudyCell
from rag_assay.evals.successive_halving.records import SearchRecord, left_out
from rag_assay.evals.successive_halving.rungs import CellRegret, Regret, combinations, regret_of

MOST = 100  # cells that the table names
BEST = 0.1  # share of the grid's cells of which a random draw is to hold one
_RULES = {
    "significance": "significantly worse",
    "budget": "the budget",
    "not_drawn": "not drawn",
    "not_varied": "two axes at once",
}


def left_out_section(data: ReportData) -> PageSection | None:
    """Return what a search left out; None where the study is not searched."""
    record = data.search
    if record is None:
        return None
    gone = sorted(left_out(record.rows), key=lambda row: (row["rung"] or 0, row["cell"]))
    winner = _winner(data)
    behind = {one.cell: one for one in what_was_missed(data).cells}
    axes = varying_axes([[getattr(_cell_of(row), axis) for axis in AXES] for row in record.rows])
    labels = {row["cell"]: _cell_of(row).label(axes) for row in record.rows}
    metric = next((one for one in data.metrics if one.name == record.metric), data.primary)
    raced = record.metric is not None
    blocks: list[Block] = [*left_out_sentences(data)]
    if gone:
        first = labels.get(winner, winner) if winner else ""
        columns = [Column("Cell"), Column("Why"), *(numbers("Rung") if raced else []), *numbers("Asked")]
        then = ("Less the leader then", f"Less the winner, {first}", "Chance to be better")
        columns += numbers(*then) if raced else []
        found = ((row, behind.get(_short(row)), labels[row["cell"]]) for row in gone[:MOST])
        rows = [_row(*one, metric, raced=raced) for one in found]
        rest = omitted(IN_ROWS, cell=len(gone) - len(rows))
        blocks.append(Table("What the search left out", columns, rows, rest, "stack"))
    return section("left-out", blocks)


def _cell_of(row: Mapping[str, Any]) -> LeaderboardCell:
    axes = ("chunking", "embedder", "retriever")
    chunking, embedder, retriever = (None if row[axis] == UNREAD else row[axis] for axis in axes)
    return LeaderboardCell(row["cell"], chunking, embedder, retriever, row["generator"])


def _short(row: Mapping[str, Any]) -> str:
    return str(row["cell"]).partition(".")[2]


def _winner(data: ReportData) -> str | None:
    ranked = [one for one in main_subset(data).standings if one.rank is not None]
    return ranked[0].cell.key if ranked else None


@lru_cache(maxsize=4)
def what_was_missed(data: ReportData) -> Regret:
    """Compare the cells that a race dropped with the current leader, on the questions of both."""
    record, winner = data.search, _winner(data)
    if record is None or winner is None:
        return Regret([], 0.0, None)
    metric = next((one for one in data.metrics if one.name == record.metric), None)
    gone = [_short(row) for row in left_out(record.rows) if row["rung"] is not None]
    if metric is None or not gone:
        return Regret([], 0.0, None)
    values: dict[str, dict[str, float]] = {}
    there = record.values.drop_nulls("value").select("cell", "question_id", "value")
    for cell, question, value in there.iter_rows():
        values.setdefault(cell, {})[question] = value
    racing = len(values)
    mine = data.values.filter((pl.col("cell") == winner) & (pl.col("metric") == metric.name))
    leading = mine.drop_nulls("value").select("question_id", "value")
    values["the winner"] = dict(leading.iter_rows())
    better, comparisons = metric.higher_is_better, racing * max(len(record.looks), 1)
    who, drawn = "the winner", data.clusters
    return regret_of(gone, who, values, data.seed, drawn, higher_is_better=better, comparisons=comparisons)


def left_out_sentences(data: ReportData) -> tuple[str, ...]:
    record = data.search
    if record is None:
        return ()
    gone = left_out(record.rows)
    found = [*record.notes]
    if record.metric is not None:
        found += _of_race(data, gone)
    elif gone:
        found += _of_draw(record, gone)
    spared = record.spared
    if gone and spared.of_evaluations:
        share = percent(spared.evaluations / spared.of_evaluations)
        asked = f"Of {count(spared.of_evaluations)} pairs of a cell and a question, "
        asked += f"{count(spared.evaluations)} were run ({share})"
        amounts = {"calls": spared.calls, "tokens": spared.tokens}
        rest = [f"{count(round(amount))} {unit}" for unit, amount in amounts.items() if amount]
        rest += [f"US$ {spared.usd:.2f}"] if spared.usd else []
        found.append(asked + (f"; not spent are at most {', '.join(rest)}." if rest else "."))
    return tuple(found)


def _of_race(data: ReportData, gone: list[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    by = {rule: [row for row in gone if row["rule"] == rule] for rule in ("significance", "budget")}
    if by["significance"]:
        rungs = max(row["rungs"] for row in gone) - 1
        chance = percent(rungs * by["significance"][0]["level"])
        found.append(
            f"{several(len(by['significance']), 'cell')} significantly worse than a rung's leader; "
            f"the chance to drop one so that is no worse is at most {chance}, over all rungs together."
        )
    if by["budget"]:
        found.append(
            f"{several(len(by['budget']), 'cell')} dropped for the budget, the worst of a rung first: "
            "no test says that they are worse."
        )
    lost = what_was_missed(data)
    if lost.cells:
        metric = next(one for one in data.metrics if data.search and one.name == data.search.metric)
        text = f"the chance that any of them is better than the winner is at most {percent(lost.chance)}"
        if lost.most is not None:
            most = number(lost.most, metric.unit)
            text += f"; no left-out cell is better by more than {most}, at a confidence of 95 %"
        found.append(f"What that could have missed, by {metric.title}: {text}.")
    return found


def _of_draw(record: SearchRecord, gone: list[Mapping[str, Any]]) -> list[str]:
    n, k = len(record.rows), len(record.rows) - len(gone)
    if gone[0]["rule"] == "not_varied":
        cells = [
            StudyCell(row["study"], row["chunking"], row["embedder"], row["retriever"], row["generator"])
            for row in record.rows
        ]
        pairs = several(combinations(cells), "pair")
        return [
            f"One axis was varied at a time, so that nothing is known of what {pairs} of axes do together: "
            "a cell that differs from the base on two may be better than all that were run."
        ]
    best = max(1, math.ceil(BEST * n))
    chance = 1 - math.comb(n - best, k) / math.comb(n, k)
    return [
        f"The best cell of the grid is among those that were run with a chance of {percent(k / n)}; "
        f"one of the {best} best, with {percent(chance)}."
    ]


def _row(
    row: Mapping[str, Any], behind: CellRegret | None, label: str, metric: MetricInfo, *, raced: bool
) -> list[str | TableFigure]:
    asked = f"{row['asked']} of {row['questions']}"
    why = TableFigure(_RULES[row["rule"]], why=row["reason"] or "")
    if not raced:
        return [label, why, asked]
    ends = interval(row["low"], row["high"], metric.unit) if row["difference"] is not None else MISSING
    now = interval(behind.low, behind.high, metric.unit) if behind else MISSING
    p = [p_value(row["p"])] if row["p"] is not None else []
    return [
        label,
        why,
        f"{row['rung']} of {row['rungs']}" if row["rung"] else MISSING,
        asked,
        TableFigure(with_sign(row["difference"], metric.unit), (ends, *p)),
        TableFigure(with_sign(behind.difference if behind else None, metric.unit), (now,)),
        percent(behind.chance if behind else None),
    ]


def left_out_rows(data: ReportData) -> list[dict[str, Any]]:
    record = data.search
    if record is None:
        return []
    behind = {one.cell: one for one in what_was_missed(data).cells}
    rows = []
    for row in left_out(record.rows):
        one = behind.get(_short(row))
        stored = {key: value for key, value in row.items() if key not in {"study", "low", "high"}}
        stored |= {"left_out_by": row["method"], "difference_low": row["low"], "difference_high": row["high"]}
        lost = {
            "behind_winner": "difference",
            "behind_winner_low": "low",
            "behind_winner_high": "high",
            "chance_of_better": "chance",
        }
        rows.append(stored | {name: getattr(one, field, None) for name, field in lost.items()})
    return rows
