"""A queue as a table: a heading, the names of its columns, a row for each showing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.human.spreadsheets.formula_escaping import pieces
from rag_assay.evals.human.spreadsheets.heading import SheetHeading, token
from rag_assay.evals.human.spreadsheets.rating_base import Asked, Past, RatingEntry
from rag_assay.evals.human.spreadsheets.texts import ANSWER, PASSAGE, QUESTION, SECOND, TRUTH, texts_of
from rag_assay.evals.rubrics.rubric import Criterion

SCORES = "scores"  # the worksheet that is filled in
ITEM, COMMENT, SCORE, SKIP = "item", "comment", "score: ", "skip"
Kind = Literal["item", "text", "score", "comment"]
Cell = str | float | None


class SpreadsheetColumn(NamedTuple):
    """A column of a sheet.

    asked: what is scored in it; None: nothing
    """

    name: str
    kind: Kind
    asked: Asked | None = None


@dataclass(frozen=True)
class QueueTable:
    """A queue as it is written.

    legend: what is asked in each column of scores, and what its values mean
    rows: a cell for each column; texts are as the form writes them
    open: for each row what is asked of it
    """

    heading: SheetHeading
    legend: list[tuple[SpreadsheetColumn, Criterion]]
    columns: list[SpreadsheetColumn]
    rows: list[list[Cell]]
    open: list[frozenset[Asked]]


def table_of(
    queue: Queue, shown: Sequence[Showing], heading: SheetHeading, past: Past, written: Callable[[str], str]
) -> QueueTable:
    """Return the table of showings, in their order, filled in with what the annotator has said of them.

    Args:
        queue: that they are of.
        shown: in the annotator's order.
        heading: of the sheet.
        past: the annotator's scores so far.
        written: how the form writes a piece of a text, as `guarding.guarded`.
    """
    versions = {name: rubric.version for name, rubric in queue.rubrics.items()}
    texts: list[dict[str, list[str]]] = []
    scores: list[dict[Asked, Cell]] = []
    open_: list[frozenset[Asked]] = []
    for showing in shown:
        asked = criteria_of(queue, showing)
        said = past.now((showing.item.item_id, showing.showing), versions)
        of_row = texts_of(queue, showing) | {COMMENT: said.comment}
        texts.append({name: pieces(text, written) for name, text in of_row.items()})
        entries = {one: said[one].entry for one in asked if one in said}
        scores.append(
            {one: as_shown(entry, asked[one], swapped=showing.swapped) for one, entry in entries.items()}
        )
        open_.append(frozenset(asked))
    columns = _columns(queue, texts)
    rows = []
    for showing, row_texts, row_scores in zip(shown, texts, scores, strict=True):
        row_cells = _cells(row_texts)
        row_cells[ITEM] = token(heading, showing.item.item_id, showing.showing)
        rows.append([row_scores.get(one.asked) if one.asked else row_cells.get(one.name) for one in columns])
    return QueueTable(heading, _legend(queue, columns), columns, rows, open_)


def criteria_of(queue: Queue, showing: Showing) -> dict[Asked, Criterion]:
    """Return what is asked of a showing, by rubric and name."""
    return {(name, one.name): one for name in showing.rubrics for one in queue.rubrics[name].criteria}


def score_column(asked: Asked) -> str:
    """Return the name of the column of a criterion.

    >>> score_column(("points", None)), score_column(("quality", "tone"))
    ('score: points', 'score: quality.tone')
    """
    return SCORE + ".".join(part for part in asked if part)


def part_name(name: str, number: int) -> str:
    """Return the name of the column with the nth part of a long text.

    >>> part_name("answer", 1), part_name("answer", 2)
    ('answer', 'answer (part 2)')
    """
    return name if number == 1 else f"{name} (part {number})"


def mirrored(value: float, criterion: Criterion) -> float:
    """Return a value as it is with the two answers of a pair the other way round."""
    low, high = criterion.bounds
    return low + high - value


def as_shown(entry: RatingEntry, criterion: Criterion, *, swapped: bool) -> float | str:
    """Return what stands in the cell of an entry."""
    if entry.value is None:
        return SKIP
    return mirrored(entry.value, criterion) if swapped else entry.value


def number(value: float) -> str:
    """Return a value as a person writes it.

    >>> number(5.0), number(0.25)
    ('5', '0.25')
    """
    return f"{value:.15g}"


def _columns(queue: Queue, texts: Sequence[dict[str, list[str]]]) -> list[SpreadsheetColumn]:
    """Return what is read first, then what is filled in, then the passages."""
    longest: dict[str, int] = {}
    for row in texts:
        for name, parts in row.items():
            longest[name] = max(longest.get(name, 1), len(parts))
    longest.setdefault(COMMENT, 1)
    order = [name for name in (QUESTION, ANSWER, SECOND, TRUTH) if name in longest]
    passages = sorted(
        (one for one in longest if one.startswith(f"{PASSAGE} ")), key=lambda one: int(one.split()[1])
    )
    scores = [
        SpreadsheetColumn(score_column((name, one.name)), "score", (name, one.name))
        for name, rubric in queue.rubrics.items()
        for one in rubric.criteria
    ]

    def parts_of(name: str, kind: Kind) -> list[SpreadsheetColumn]:
        return [SpreadsheetColumn(part_name(name, n), kind) for n in range(1, longest[name] + 1)]

    return [
        SpreadsheetColumn(ITEM, "item"),
        *(column for name in order for column in parts_of(name, "text")),
        *scores,
        *parts_of(COMMENT, "comment"),
        *(column for name in passages for column in parts_of(name, "text")),
    ]


def _cells(texts: dict[str, list[str]]) -> dict[str, str]:
    return {
        part_name(name, n): part for name, parts in texts.items() for n, part in enumerate(parts, 1) if part
    }


def _legend(queue: Queue, columns: Sequence[SpreadsheetColumn]) -> list[tuple[SpreadsheetColumn, Criterion]]:
    of = {(name, one.name): one for name, rubric in queue.rubrics.items() for one in rubric.criteria}
    return [
        (column, explain_criterion(queue, column.asked, of[column.asked]))
        for column in columns
        if column.asked
    ]


def explain_criterion(queue: Queue, asked: Asked, criterion: Criterion) -> Criterion:
    """Return a criterion as a sheet asks it: of a pair, which of the two is meant."""
    if not queue.rubrics[asked[0]].compares:
        return criterion
    return criterion._replace(ask=f"{criterion.ask} (It: `{ANSWER}`. The other: `{SECOND}`.)")
