"""A queue as a table: a heading, the names of its columns, a row for each showing."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.item_order import showings
from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.human.spreadsheets.formula_escaping import pieces
from rag_assay.evals.question_sets.readers.records import finite_number
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.evals.spreadsheet_import.tables import usable
from rag_assay.warehouse.human_scores import LONGEST_TEXT
from rag_assay.warehouse.identity import digest

QUESTION, ANSWER, SECOND, TRUTH, PASSAGE = "question", "answer", "second answer", "ground truth", "passage"
PASSAGES = "passages"


def texts_of(queue: Queue, showing: Showing) -> dict[str, str]:
    """Return the texts of a showing in reading order; of a pair, `answer` is the one that stands first."""
    case = showing.item.case
    texts = {QUESTION: case.question}
    first, second = case.answer or "", case.rival
    if second is not None and showing.swapped:
        first, second = second, first
    texts[ANSWER] = first
    if second is not None:
        texts[SECOND] = second
    is_shown = any(queue.rubrics[one].shows_ground_truth for one in showing.rubrics)
    if case.ground_truth is not None and is_shown:
        texts[TRUTH] = case.ground_truth
    for place, passage in enumerate(case.passages, 1):
        texts[f"{PASSAGE} {place}"] = _passage(passage, place)
    return texts


def join_passages(texts: Mapping[str, str]) -> str:
    return "\n\n".join(text for name, text in texts.items() if name.startswith(f"{PASSAGE} "))


def _passage(passage: Passage, place: int) -> str:
    number = passage.number if passage.number is not None else place
    known = " · ".join(one for one in (passage.title, " › ".join(passage.section), passage.date) if one)
    head = " ".join(part for part in (f"[{number}]", known) if part)
    return "\n".join(part for part in (head, passage.url, passage.text) if part)


def showings_of(queue: Queue, annotator: str | None, among: Sequence[str] = ()) -> list[Showing]:
    """Return the showings of an annotator; of a shared spreadsheet, each item once."""
    if annotator is not None:
        return showings(queue, annotator, among)
    return [Showing(one.item, one.rubrics, place) for place, one in enumerate(queue.items, 1)]


MARK = "# rag-assay queue "
FORM = 1
LONGEST_NAME = 200


class Worded(BaseModel):
    """How a rubric was worded when the sheet was written: its version, and a digest of each criterion."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    criteria: Mapping[str, str]


class SheetHeading(BaseModel):
    """The first line of a spreadsheet, and part of each task; sheet: id of this spreadsheet alone.

    annotator: whose spreadsheet it is; None: of any annotator who works on it together
    among: names of those who share the work; none: the spreadsheet holds every item
    known: how many rows the annotator's scores had when it was written; rubrics: by name, as they were worded
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: int = FORM
    sheet: str = Field(pattern=r"^[0-9a-f]{10}$")
    study: Name  # it becomes part of a path
    queue: str = Field(pattern=r"^[0-9a-f]{12}$")
    annotator: str | None = Field(default=None, min_length=1, max_length=LONGEST_NAME)
    among: tuple[str, ...] = ()
    exported_at: datetime
    known: int = Field(ge=0)
    rubrics: Mapping[str, Worded]

    def line(self) -> str:
        return MARK + json.dumps(self.model_dump(mode="json"))


def heading_of(
    queue: Queue, annotator: str | None, known: int, now: datetime, among: Sequence[str] = ()
) -> SheetHeading:
    found = SheetHeading(
        sheet="0" * 10,
        study=queue.study,
        queue=queue.version,
        annotator=annotator,
        among=tuple(sorted(among)),
        exported_at=now.astimezone(UTC),
        known=known,
        rubrics={name: _wording(rubric) for name, rubric in queue.rubrics.items()},
    )
    return found.model_copy(update={"sheet": _sheet_id(found)})


def _sheet_id(heading: SheetHeading) -> str:
    return digest(["sheet", heading.model_dump(mode="json", exclude={"sheet"})])[:10]


def _wording(rubric: Rubric) -> Worded:
    criteria = {one.name or "": criterion_version(rubric, one) for one in rubric.criteria}
    return Worded(version=rubric.version, criteria=criteria)


def criterion_version(rubric: Rubric, criterion: Criterion) -> str:
    anchors = sorted([value, text] for value, text in criterion.anchors.items())
    seen = [rubric.kind, rubric.shows_ground_truth, rubric.against]
    return digest(["criterion", criterion.name, criterion.ask, anchors, *seen])[:12]


def is_heading(text: str) -> bool:
    return text.startswith(MARK)


def read_heading(line: str) -> SheetHeading:
    try:
        found = SheetHeading.model_validate(json.loads(line.removeprefix(MARK)))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}") from error
    if found.sheet != _sheet_id(found):
        raise ValueError("its parts do not belong together")
    return found


def token(heading: SheetHeading, item_id: str, showing: int) -> str:
    """Return what names an item and its showing without telling repeats."""
    return "r" + digest(["row", heading.sheet, item_id, showing])[:12]  # no spreadsheet takes it for a number


Asked = tuple[str, str | None]  # name of a rubric, name of a criterion of it
Shown = tuple[str, int]  # id of an item, number of its showing
Row = Mapping[str, Any]  # a row of `schemas.HUMAN_SCORES`
SCORES = "scores"  # the worksheet that is filled in


class RatingEntry(NamedTuple):
    """A value of the anchors, or that the annotator cannot say; of a pair: of the answer itself."""

    status: Literal["ok", "skipped"]
    value: float | None = None


class CommentedRating(NamedTuple):
    """An entry and the comment beside it."""

    entry: RatingEntry
    comment: str = ""


class State(dict[Asked, CommentedRating]):
    """The ratings of one showing, by criterion."""

    @property
    def comment(self) -> str:
        return "\n".join(dict.fromkeys(one.comment for one in self.values() if one.comment))


class Past:
    """One annotator's rows, in the order of their file."""

    def __init__(self, rows: Iterable[Row], annotator: str) -> None:
        self.rows = [row for row in rows if row["annotator"] == annotator]
        self._by_showing: dict[Shown, list[tuple[int, Row]]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            if row["cell"] is None:  # else it is of one cell alone, and of no queue
                self._by_showing[row["item_id"], row["showing"]].append((place, row))

    def now(self, shown: Shown, versions: Mapping[str, str]) -> State:
        rows = [row for _, row in self._by_showing.get(shown, ())]
        return _state(row for row in rows if versions.get(row["rubric"]) == row["rubric_version"])

    def base(self, shown: Shown, heading: SheetHeading) -> State:
        versions = {name: one.version for name, one in heading.rubrics.items()}
        rows = self._by_showing.get(shown, ())
        old = {place for place, row in rows if versions.get(row["rubric"]) == row["rubric_version"]}
        known = {place for place in old if place < heading.known}
        return _state(row for place, row in rows if place in known or _is_of(row, heading))

    def brought(self, shown: Shown, heading: SheetHeading) -> int:
        return sum(_is_of(row, heading) for _, row in self._by_showing.get(shown, ()))


def score_id(heading: SheetHeading, content: str) -> str:
    return f"{heading.sheet}-{content}"


def _is_of(row: Row, heading: SheetHeading) -> bool:
    return str(row["score_id"]).startswith(f"{heading.sheet}-")


def _state(rows: Iterable[Row]) -> State:
    last: dict[Asked, Row] = {(row["rubric"], row["criterion"]): row for row in rows}
    stands = {asked: row for asked, row in last.items() if row["status"] != "withdrawn"}
    entries = {asked: RatingEntry(row["status"], row["value"]) for asked, row in stands.items()}
    return State({one: CommentedRating(entries[one], row["comment"] or "") for one, row in stands.items()})


ITEM, COMMENT, SCORE, SKIP = "item", "comment", "score: ", "skip"
Kind = Literal["item", "text", "score", "comment"]
Cell = str | float | None


class SpreadsheetColumn(NamedTuple):
    """asked: the criterion rated in it, if any"""

    name: str
    kind: Kind
    asked: Asked | None = None


@dataclass(frozen=True)
class QueueTable:
    """A queue as it is written; rows: a cell for each column, texts encoded; open: criteria to fill in, by
    row.

    legend: the criterion of each score column, and its values
    """

    heading: SheetHeading
    legend: list[tuple[SpreadsheetColumn, Criterion]]
    columns: list[SpreadsheetColumn]
    rows: list[list[Cell]]
    open: list[frozenset[Asked]]


def table_of(
    queue: Queue, shown: Sequence[Showing], heading: SheetHeading, past: Past, written: Callable[[str], str]
) -> QueueTable:
    texts: list[dict[str, list[str]]] = []
    scores: list[dict[Asked, Cell]] = []
    open_: list[frozenset[Asked]] = []
    for showing in shown:
        said = past.now(showing.key, queue.versions)
        of_row = texts_of(queue, showing) | {COMMENT: said.comment}
        texts.append({name: pieces(text, written) for name, text in of_row.items()})
        scores.append(dict(shown_values(queue, showing, said)))
        open_.append(frozenset(criteria_of(queue, showing)))
    columns = _columns(queue, texts)
    rows = []
    for showing, row_texts, row_scores in zip(shown, texts, scores, strict=True):
        row_cells = _cells(row_texts)
        row_cells[ITEM] = token(heading, showing.item.item_id, showing.showing)
        rows.append([row_scores.get(one.asked) if one.asked else row_cells.get(one.name) for one in columns])
    return QueueTable(heading, _legend(queue, columns), columns, rows, open_)


def criteria_of(queue: Queue, showing: Showing) -> dict[Asked, Criterion]:
    return {(name, one.name): one for name in showing.rubrics for one in queue.rubrics[name].criteria}


def shown_values(queue: Queue, showing: Showing, said: State) -> dict[Asked, float | str]:
    found: dict[Asked, float | str] = {}
    for one, criterion in criteria_of(queue, showing).items():
        if one in said:
            value = said[one].entry.value
            shown = mirrored(value, criterion) if value is not None and showing.swapped else value
            found[one] = SKIP if shown is None else shown
    return found


def score_column(asked: Asked) -> str:
    return SCORE + ".".join(part for part in asked if part)


def part_name(name: str, number: int) -> str:
    return name if number == 1 else f"{name} (part {number})"


def mirrored(value: float, criterion: Criterion) -> float:
    """Return a value for the two answers of a pair the other way round."""
    low, high = criterion.bounds
    return low + high - value


def number(value: float) -> str:
    return f"{value:.15g}"


def cell_text(cell: Cell) -> str:
    return number(cell) if isinstance(cell, int | float) else cell or ""


def _columns(queue: Queue, texts: Sequence[dict[str, list[str]]]) -> list[SpreadsheetColumn]:
    longest: dict[str, int] = {}
    for row in texts:
        for name, parts in row.items():
            longest[name] = max(longest.get(name, 1), len(parts))
    longest.setdefault(COMMENT, 1)
    order = [name for name in (QUESTION, ANSWER, SECOND, TRUTH) if name in longest]
    numbered = (one for one in longest if one.startswith(f"{PASSAGE} "))
    passages = sorted(numbered, key=lambda one: int(one.split()[1]))
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
    asked = ((column, column.asked) for column in columns if column.asked)
    return [(column, explain_criterion(queue, one, of[one])) for column, one in asked]


def explain_criterion(queue: Queue, asked: Asked, criterion: Criterion) -> Criterion:
    """Of a pair, say which of the two is meant."""
    if not queue.rubrics[asked[0]].compares:
        return criterion
    return criterion._replace(ask=f"{criterion.ask} (It: `{ANSWER}`. The other: `{SECOND}`.)")


_SKIPS = frozenset({SKIP, "skipped", f"{SKIP}: you cannot say"})
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d{1,3})?")
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class FilledRow:
    """A row that came back, at the place `FILE:LINE`; texts, scores: of the columns that are there.

    comment: None: no column; annotator: None: whose the spreadsheet is
    """

    place: str
    token: str
    texts: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[Asked, object] = field(default_factory=dict)
    comment: object = None
    annotator: str | None = None
    seconds: float | None = None
    scored_at: datetime | None = None


@dataclass(frozen=True)
class Filled:
    """A spreadsheet that came back; rejects: unreadable rows, as `FILE:LINE: reason`."""

    heading: SheetHeading
    rows: Sequence[FilledRow]
    rejects: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_entry(value: object, criterion: Criterion, *, compares: bool = False) -> RatingEntry | None:
    """Return a cell's value by a criterion; None: empty.

    Numbers may be text with a decimal comma; words of an anchor stand for its value; of a pair, `left` and
    `first` for the highest value, `right` and `second` for the lowest.
    """
    value = usable(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and value.strip().casefold() in _SKIPS:
        return RatingEntry("skipped")
    if isinstance(value, date | datetime | time | timedelta):
        raise ValueError(f"a date or time ({value}) instead of a value; {_wanted(criterion)}")  # noqa: TRY004
    said = _side(value, criterion) if compares else None
    said = _number(value, criterion) if said is None else said
    for anchor in criterion.anchors:
        if said is not None and math.isclose(anchor, said, rel_tol=1e-9, abs_tol=1e-12):
            return RatingEntry("ok", anchor)
    if isinstance(value, str) and value.lstrip().startswith("="):
        raise ValueError(f"expected a value, found a formula; {_wanted(criterion)}")
    shown = " ".join(str(value).split())
    shown = shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
    raise ValueError(f"`{shown}` is not a value of it; {_wanted(criterion)}")


def read_comment(value: object) -> str:
    value = usable(value)
    if value is None:
        return ""
    text = number(value) if isinstance(value, float) else str(value).strip()
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{len(text):,} characters; a comment has at most {LONGEST_TEXT:,}")
    return text


def _number(value: object, criterion: Criterion) -> float | None:
    is_binary = set(criterion.anchors) == {0.0, 1.0}
    if isinstance(value, bool):
        return float(value) if is_binary else None
    if isinstance(value, int | float):
        return finite_number(value)
    plain = str(value).strip()
    if is_binary and plain.casefold() in {"true", "false"}:
        return float(plain.casefold() == "true")
    if _NUMBER.fullmatch(plain):
        return finite_number(plain.replace(",", "."))
    folded = " ".join(plain.split()).casefold()
    meant = {anchor: " ".join(text.split()).casefold() for anchor, text in criterion.anchors.items()}
    words = [one for one, text in meant.items() if folded in {text, f"{number(one)}: {text}"}]
    return words[0] if len(words) == 1 else None


def _side(value: object, criterion: Criterion) -> float | None:
    low, high = criterion.bounds
    sides = {"left": high, "first": high, "right": low, "second": low, "none": (low + high) / 2}
    return sides.get(value.strip().casefold()) if isinstance(value, str) else None


def _wanted(criterion: Criterion) -> str:
    return f"it takes {', '.join(map(number, criterion.anchors))} or {SKIP}"
