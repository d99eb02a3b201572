"""The annotators of a criterion: what each of them does, how far each two agree, and what they differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.judge_calibration.agreement import by_item
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import MISSING, count, interval, number, percent, truncate, with_sign
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, ScoresOfPeople, written

ANSWER, COMMENT = 360, 400  # characters of an answer and of a comment
_Row = Mapping[str, Any]


@dataclass(frozen=True)
class AnnotatorFigure:
    """A figure with a line below it; a dash where there is none: ``why`` says why."""

    text: str
    small: str = ""
    why: str = ""


@dataclass(frozen=True)
class Annotator:
    """What is known of one annotator: scores, bias, drift, repeats, minutes."""

    name: str
    figures: tuple[AnnotatorFigure, ...]


@dataclass(frozen=True)
class AnnotatorPair:
    """Two annotators: the share of equal scores, and kappa."""

    names: tuple[str, str]
    equal: AnnotatorFigure
    kappa: AnnotatorFigure


@dataclass(frozen=True)
class Opinion:
    """What one annotator gave to an item, and wrote of it."""

    annotator: str
    value: str
    comment: str


@dataclass(frozen=True)
class Disputed:
    """An item that people differ in.

    cells: names of the cells that it is of, and how many more
    answer: its text; empty where there is none
    """

    question_id: str
    cells: str
    answer: str
    opinions: tuple[Opinion, ...]


@dataclass(frozen=True)
class Comment:
    """What an annotator wrote of an item."""

    annotator: str
    value: str
    question_id: str
    text: str


def annotators_of(answers: ScoredAnswers) -> list[Annotator]:
    """Return the annotators of a criterion by name, each with its figures."""
    found: dict[str, dict[str, _Row]] = {}
    for row in (*answers.agreement.iter_rows(named=True), *answers.minutes.iter_rows(named=True)):
        if row["annotator"] is not None and row["other"] is None:
            found.setdefault(row["annotator"], {})[row["measure"]] = row
    return [Annotator(name, _figures(rows)) for name, rows in sorted(found.items()) if "scores" in rows]


def pairs_of(answers: ScoredAnswers) -> list[AnnotatorPair]:
    """Return each two annotators with common items, those that agree least first."""
    found: dict[tuple[str, str], dict[str, _Row]] = {}
    for row in answers.agreement.filter(pl.col("other").is_not_null()).iter_rows(named=True):
        found.setdefault((row["annotator"], row["other"]), {})[row["measure"]] = row
    ordered = sorted(found.items(), key=lambda one: (_kappa(one[1]), one[0]))
    return [AnnotatorPair(names, _share(rows["equal"]), _plain(rows["kappa"])) for names, rows in ordered]


def disputed_items(
    people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, most: int
) -> tuple[list[Disputed], int]:
    """Return the items that people differ in most, and how many they differ in at all."""
    first = by_item(answers.scores).unique(["annotator", "item"], keep="first", maintain_order=True)
    apart = (
        first.group_by("item")
        .agg(spread=pl.col("value").max() - pl.col("value").min(), various=pl.col("value").var())
        .filter(pl.col("spread") > 0)
        .sort("spread", "various", "item", descending=[True, True, False])
    )
    chosen = apart.head(most)["item"].to_list()
    rows = first.filter(pl.col("item").is_in(chosen)).sort("annotator")
    by_name = {name[0]: part for name, part in rows.partition_by("item", as_dict=True).items()}
    return [_disputed(people, by_name[name], data) for name in chosen], len(apart)


def comments(people: ScoresOfPeople, answers: ScoredAnswers, most: int) -> tuple[list[Comment], int]:
    """Return comments, the longest first, and how many there are."""
    wrote = answers.scores.filter(pl.col("comment").str.strip_chars().str.len_chars() > 0)
    shown = wrote.sort(
        pl.col("comment").str.len_chars(), "annotator", "item_id", descending=[True, False, False]
    )
    of_items = dict(people.values.select("item_id", "question_id").iter_rows())
    return [
        Comment(
            row["annotator"],
            written(row["value"]),
            row["question_id"] or of_items.get(row["item_id"]) or "",
            truncate(row["comment"], COMMENT),
        )
        for row in shown.head(most).iter_rows(named=True)
    ], len(wrote)


def _disputed(people: ScoresOfPeople, rows: pl.DataFrame, data: ReportData) -> Disputed:
    row = rows.row(0, named=True)
    places = people.values.filter(pl.col("item_id") == row["item_id"])
    if row["cell"] is not None:
        places = people.values.filter(
            (pl.col("cell") == row["cell"]) & (pl.col("question_id") == row["question_id"])
        )
    places = places.join(people.cells, left_on="cell", right_on="key").sort("cell", "replicate")
    keys = places["cell_right"].unique(maintain_order=True).to_list() if len(places) else []
    question = row["question_id"] or (places["question_id"][0] if len(places) else "")
    first = keys[0] if keys else ""
    more = f" and {count(len(keys) - 1)} more" if len(keys) > 1 else ""
    text = ""
    if keys:
        said = data.answers.filter(
            (pl.col("cell") == first)
            & (pl.col("replicate") == places["replicate"][0])
            & (pl.col("question_id") == question)
        )
        text = (said["answer"][0] or "") if len(said) else ""
    opinions = tuple(
        Opinion(one["annotator"], written(one["value"]), truncate(one["comment"], COMMENT))
        for one in rows.iter_rows(named=True)
    )
    return Disputed(question, f"{first}{more}", truncate(text, ANSWER), opinions)


def _figures(rows: Mapping[str, _Row]) -> tuple[AnnotatorFigure, ...]:
    minutes = rows.get("minutes")
    shown = AnnotatorFigure(MISSING, why="nobody has measured it")
    if minutes is not None and minutes["value"] is not None:
        each = minutes["value"] * 60 / max(1, minutes["n"])
        shown = AnnotatorFigure(
            f"{minutes['value']:.0f}" if minutes["value"] >= 10 else f"{minutes['value']:.1f}",
            f"{each:.0f} s an item",
        )
    return (
        AnnotatorFigure(count(rows["scores"]["n"])),
        _signed(rows["bias"]),
        _signed(rows["drift"]),
        _share(rows["repeats"]),
        shown,
    )


def _signed(row: _Row) -> AnnotatorFigure:
    if row["value"] is None:
        return AnnotatorFigure(MISSING, why=row["reason"] or "")
    ends = interval(row["low"], row["high"])
    return AnnotatorFigure(with_sign(row["value"]), "" if ends == MISSING else ends, row["reason"] or "")


def _plain(row: _Row) -> AnnotatorFigure:
    if row["value"] is None:
        return AnnotatorFigure(MISSING, why=row["reason"] or "")
    ends = interval(row["low"], row["high"])
    return AnnotatorFigure(number(row["value"]), "" if ends == MISSING else ends, row["reason"] or "")


def _share(row: _Row) -> AnnotatorFigure:
    if row["value"] is None:
        return AnnotatorFigure(MISSING, why=row["reason"] or "")
    return AnnotatorFigure(percent(row["value"]), f"n = {count(row['n'])}", row["reason"] or "")


def _kappa(rows: Mapping[str, _Row]) -> float:
    value = rows["kappa"]["value"]
    return 2.0 if value is None else float(value)
