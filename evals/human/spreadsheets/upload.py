"""Brings a spreadsheet of ours back: which file is one, what it adds to the scores; whole or not at all."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from rag_assay.evals.human.queue import Queue, Showing, read_queue
from rag_assay.evals.human.spreadsheets import table
from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, CSV, CellEncoding, same_text
from rag_assay.evals.human.spreadsheets.label_studio import read_tasks
from rag_assay.evals.question_sets.readers.table import rows_of_text
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.evals.spreadsheet_import.tables import MAX_TEXT, UnusableCell, decode_table, open_worksheet
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home


@dataclass
class Returned:
    """Changes by a spreadsheet; rejects: rows that cannot be taken, as `FILE:LINE: reason`."""

    scores: list[HumanScore] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    unchanged: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.status for one in self.scores)


class _Returning:
    def __init__(
        self, filled: table.Filled, then: Queue, now: Queue, rows: list[table.Row], at: datetime
    ) -> None:
        self.filled, self.heading, self.then, self.now = filled, filled.heading, then, now
        self.rows, self.at = rows, at
        self.by_token = {
            table.token(self.heading, one.item.item_id, one.showing): one
            for one in table.showings_of(then, self.heading.annotator, self.heading.among)
        }
        self._past: dict[str, table.Past] = {}
        self.found = Returned(rejects=list(filled.rejects), notes=list(filled.notes))

    def result(self) -> Returned:
        gone: set[str] = set()
        for row in self._once():
            showing = self.by_token[row.token]
            problems = list(self._edited(row, showing))
            entries, comments = self._read(row, showing, problems)
            if problems:
                self.found.rejects += [f"{row.place}: {problem}" for problem in problems]
                continue
            if showing.item.item_id not in self.now.by_id:
                gone.add(row.token)
            self.found.scores += self._scores(row, showing, entries, comments)
        missing, of = len(self.by_token.keys() - {row.token for row in self.filled.rows}), len(self.by_token)
        if missing:
            self.found.notes.append(f"{missing:,} of its {of:,} rows are not in the file: left as they are")
        if gone:
            what = "rows are of items that are no longer in the queue; their scores are kept"
            self.found.notes.append(f"{len(gone):,} {what}")
        return self.found

    def _once(self) -> Iterator[table.FilledRow]:
        seen: dict[tuple[str, str | None], table.FilledRow] = {}
        for row in self.filled.rows:
            first = seen.setdefault((row.token, row.annotator), row)
            if row.token not in self.by_token:
                strange = f"item `{row.token[:40]}` does not belong to this spreadsheet"
                self.found.rejects.append(f"{row.place}: {strange}")
            elif first is row:
                yield row
            elif _content(first) == _content(row):
                self.found.notes.append(f"{row.place}: the same row as {first.place}; read once")
            else:
                other = f"the same item as {first.place} with other scores; keep one"
                self.found.rejects.append(f"{row.place}: {other}")

    def _edited(self, row: table.FilledRow, showing: Showing) -> Iterator[str]:
        texts = table.texts_of(self.then, showing)
        texts[table.PASSAGES] = table.join_passages(texts)
        for name, text in row.texts.items():
            if not same_text(text, texts.get(name, "")):
                yield f"`{name}` is not the text of the item; undo the change, or export the queue again"
        queued = self.now.by_id.get(showing.item.item_id)
        truth = showing.item.case.ground_truth
        if queued is not None and table.TRUTH in texts and queued.item.case.ground_truth != truth:
            yield "the ground truth has changed since the export; export the queue again"

    def _read(
        self, row: table.FilledRow, showing: Showing, problems: list[str]
    ) -> tuple[Mapping[table.Asked, table.RatingEntry | None], Mapping[table.Asked, str]]:
        """Return what differs of a row: entries, None where one was emptied; and comments."""
        asked = table.criteria_of(self.then, showing)
        base = self._past_of(row).base(showing.key, self.heading)
        entries: dict[table.Asked, table.RatingEntry | None] = {}
        stands: dict[table.Asked, table.RatingEntry] = {}
        for one, cell in row.scores.items():
            try:
                entry = self._entry(one, cell, asked.get(one), showing)
                held = base[one].entry if one in base else None
                if entry != held:
                    self._check_wording(one)
                    entries[one] = entry
                elif entry is not None:
                    self.found.unchanged += 1
                if entry is not None:
                    stands[one] = entry
            except ValueError as error:
                problems.append(f"`{table.score_column(one)}`: {error}")
        try:
            return entries, self._comments(row, base, stands)
        except ValueError as error:
            problems.append(f"`comment`: {error}")
            return entries, {}

    def _entry(
        self, one: table.Asked, cell: object, criterion: Criterion | None, showing: Showing
    ) -> table.RatingEntry | None:
        if criterion is None:
            if cell is None or not str(cell).strip():
                return None
            raise ValueError("the item has no such question; empty the cell")
        entry = table.read_entry(cell, criterion, compares=self.then.rubrics[one[0]].compares)
        if entry is None or entry.value is None or not showing.swapped:
            return entry
        return table.RatingEntry("ok", table.mirrored(entry.value, criterion))

    def _check_wording(self, one: table.Asked) -> None:
        name, criterion = one
        rubric = self.now.rubrics.get(name)
        if rubric is None:
            raise ValueError(f"the study has no rubric `{name}` any more")
        worded = {found.name: table.criterion_version(rubric, found) for found in rubric.criteria}
        if worded.get(criterion) != self.heading.rubrics[name].criteria.get(criterion or ""):
            raise ValueError("the wording of the rubric has changed since the export; export the queue again")

    def _comments(
        self, row: table.FilledRow, base: table.State, stands: Mapping[table.Asked, table.RatingEntry]
    ) -> dict[table.Asked, str]:
        text = base.comment if row.comment is None else table.read_comment(row.comment)
        if same_text(text, base.comment):
            return {one: said.comment for one, said in base.items() if one in stands}
        if not stands:
            lost = "a comment without a score is not kept; write a score, or skip"
            self.found.notes += [f"{row.place}: {lost}"] if text else []
            return {}
        first = next(iter(stands))
        return {one: text if one == first else "" for one in stands}

    def _scores(
        self,
        row: table.FilledRow,
        showing: Showing,
        entries: Mapping[table.Asked, table.RatingEntry | None],
        comments: Mapping[table.Asked, str],
    ) -> Iterator[HumanScore]:
        past = self._past_of(row)
        base, current = past.base(showing.key, self.heading), past.now(showing.key, self.now.versions)
        number = past.brought(showing.key, self.heading)
        for asked in table.criteria_of(self.then, showing):
            held, comment = base.get(asked), comments.get(asked, "")
            entry = entries.get(asked, held.entry if held else None)
            is_edited = asked in entries or (held is not None and held.comment != comment)
            said = table.CommentedRating(entry, comment) if entry is not None else None
            if not is_edited or current.get(asked) == said:
                continue
            yield self._score(row, showing, asked, said, number)

    def _score(
        self,
        row: table.FilledRow,
        showing: Showing,
        asked: table.Asked,
        said: table.CommentedRating | None,
        number: int,
    ) -> HumanScore:
        annotator = self._annotator(row)
        entry = said.entry if said else None
        written = [annotator, row.token, *asked, entry and list(entry), said and said.comment, number]
        return HumanScore(
            score_id=table.score_id(self.heading, digest(written)),
            study=self.then.study,
            annotator=annotator,
            item_id=showing.item.item_id,
            rubric=asked[0],
            rubric_version=self.now.versions[asked[0]],
            criterion=asked[1],
            value=entry.value if entry else None,
            status=entry.status if entry else "withdrawn",
            comment=(said.comment or None) if said else None,
            seconds=row.seconds,
            showing=showing.showing,
            position=showing.position,
            queue_version=self.then.version,
            scored_at=row.scored_at or self.at,
            place=row.place,
        )

    def _annotator(self, row: table.FilledRow) -> str:
        return row.annotator or self.heading.annotator or ""

    def _past_of(self, row: table.FilledRow) -> table.Past:
        name = self._annotator(row)
        if name not in self._past:
            self._past[name] = table.Past(self.rows, name)
        return self._past[name]


def _content(row: table.FilledRow) -> Sequence[object]:
    return dict(row.texts), dict(row.scores), row.comment, row.seconds


HEAD = 60  # rows among which the heading and the names of the columns are looked for
Line = tuple[int, Sequence[Any]]


def read_sheet(path: Path) -> table.Filled:
    if path.suffix.lower() == ".csv":
        return _of_text(path)
    found = open_worksheet(path, table.SCORES, verbatim=True)
    rows = list(found.rows)
    return _filled(path, rows, BOOK, [one for one in found.notes if "hidden" not in one])


def _of_text(path: Path) -> table.Filled:
    text = decode_table(path, read_bounded(path, MAX_TEXT))
    rows: list[Line] = []
    for line, row in rows_of_text(text, _parted_by(text)):
        if isinstance(row, str):
            raise InputError(f"{path}:{line}: {row}")
        rows.append((line, row))
    return _filled(path, rows, CSV, [])


def _parted_by(text: str) -> str:
    widths = {}
    for sign in ",;\t":
        head = [row for _, row in islice(rows_of_text(text, sign), HEAD) if not isinstance(row, str)]
        widths[sign] = max((len(row) for row in head if table.ITEM in map(_folded, row)), default=0)
    return max(widths, key=lambda sign: widths[sign])


@dataclass(frozen=True)
class _Columns:
    """Indexes of the columns, from 0."""

    item: int
    texts: dict[str, list[int]]
    scores: dict[table.Asked, int]
    comment: list[int]


def _filled(path: Path, rows: Sequence[Line], form: CellEncoding, notes: list[str]) -> table.Filled:
    heading = _heading(path, rows)
    start, columns = _columns(path, rows, heading)
    found: list[table.FilledRow] = []
    rejects: list[str] = []
    for line, row in rows[start:]:
        place = f"{path.name}:{line}"
        read = _row(place, row, columns, form)
        if isinstance(read, str):
            rejects.append(read)
        elif read is not None:
            found.append(read)
    return table.Filled(heading, found, rejects, notes)


def _heading(path: Path, rows: Iterable[Line]) -> table.SheetHeading:
    for line, row in islice(rows, HEAD):
        for cell in row:
            text = CSV.read(cell).strip() if isinstance(cell, str) else ""
            if table.is_heading(text):
                try:
                    return table.read_heading(text)
                except ValueError as error:
                    raise InputError(
                        f"{path}:{line}: the description of its queue was edited ({error}); export the "
                        "queue again, and copy the scores into the new file"
                    ) from error
    raise InputError(f"{path}: the line that names its queue is missing; export the queue again")


def _columns(path: Path, rows: Sequence[Line], heading: table.SheetHeading) -> tuple[int, _Columns]:
    for start, (line, row) in enumerate(rows[:HEAD]):
        names = [_folded(cell) for cell in row]
        if table.ITEM in names:
            return start + 1, _found_columns(f"{path}:{line}", names, heading)
    raise InputError(
        f"{path}: no row names the columns: one is called `{table.ITEM}`; export the queue again"
    )


def _found_columns(place: str, names: list[str], heading: table.SheetHeading) -> _Columns:
    rubrics = heading.rubrics.items()
    asked_of = [(rubric, one or None) for rubric, worded in rubrics for one in worded.criteria]
    scores = {asked: _folded(table.score_column(asked)) for asked in asked_of}
    known = {table.ITEM, *scores.values()}
    findings = [
        f"{place}: {names.count(name)} columns are called `{name}`; remove one"
        for name in sorted(set(names))
        if names.count(name) > 1 and (name in known or _is_text(name))
    ]
    findings += [
        f"{place}: the column `{name}` is missing; undo its removal, or export the queue again"
        for name in scores.values()
        if name not in names
    ]
    if findings:
        raise InputError(*findings)
    places = {name: place for place, name in enumerate(names) if name}
    named = [name for name in places if _is_text(name) and "(part " not in name]
    texts = {name: list(_parts(places, name)) for name in named}
    comment, at = texts.pop(table.COMMENT, []), {asked: places[name] for asked, name in scores.items()}
    return _Columns(places[table.ITEM], texts, at, comment)


def _is_text(name: str) -> bool:
    base = name.partition(" (part ")[0]
    first, _, rest = base.partition(" ")
    return base in {"question", "answer", "second answer", "ground truth", table.COMMENT} or (
        first == "passage" and rest.isdigit()
    )


def _parts(places: dict[str, int], name: str) -> Iterator[int]:
    number = 1
    while (place := places.get(table.part_name(name, number))) is not None:
        yield place
        number += 1


def _row(
    place: str, row: Sequence[Any], columns: _Columns, form: CellEncoding
) -> table.FilledRow | str | None:
    def cell(at: int) -> Any:
        return row[at] if at < len(row) else None

    item = cell(columns.item)
    scores = {asked: cell(at) for asked, at in columns.scores.items()}
    item = form.read(item).strip() if isinstance(item, str) else item
    if item in (None, ""):
        if not any(one.strip() if isinstance(one, str) else one is not None for one in scores.values()):
            return None
        return f"{place}: a score in a row without an `{table.ITEM}`: it cannot be told of what it is"
    if not isinstance(item, str):
        said = item.reason if isinstance(item, UnusableCell) else item
        return f"{place}: `{table.ITEM}` was changed to {said}"
    texts = {name: "".join(_text(cell(at), form) for at in places) for name, places in columns.texts.items()}
    comment: object = None
    if columns.comment:
        parts = [cell(at) for at in columns.comment]
        odd = next((part for part in parts if part is not None and not isinstance(part, str)), None)
        comment = odd if odd is not None else "".join(_text(part, form) for part in parts)
    scores = {asked: form.read(one) if isinstance(one, str) else one for asked, one in scores.items()}
    return table.FilledRow(place, item, texts, scores, comment)


def _text(value: Any, form: CellEncoding) -> str:
    if isinstance(value, str):
        return form.read(value)
    return "" if value is None else str(value.reason if isinstance(value, UnusableCell) else value)


def _folded(value: object) -> str:
    return " ".join(CSV.read(value).casefold().split()) if isinstance(value, str) else ""


_HEAD = 1 << 18  # bytes of a text, or of a worksheet, among which the heading stands
_MOST = 1 << 27  # bytes that are looked through of a table of texts, or of tasks
_BLOCK = 1 << 20
_PARTS = 500  # of a workbook that are looked at
_IN_BOOK = re.compile(rb"<(?:\w+:)?t(?:\s[^<>]*)?>" + re.escape(table.MARK.encode()) + rb"\{")
_IN_TEXT = re.compile(rb"[\"'\s;,\t\x00\xef\xbb\xbf\xff\xfe]*" + re.escape(table.MARK.encode()) + rb"\{")
_IN_TASKS = re.compile(rb"\"assay\"\s*:\s*\"" + re.escape(table.MARK.encode()) + rb"\{")


def is_ours(path: Path) -> bool:
    suffix = path.suffix.lower()
    try:
        if not path.is_file():  # a pipe would be waited for without end
            return False
        if suffix in {".xlsx", ".xlsm"}:
            with ZipFile(path) as book:
                return any(_part_holds(book, part) for part in book.infolist()[:_PARTS])
        with path.open("rb") as file:
            if suffix == ".json":
                return _holds(file, _IN_TASKS, _MOST)
            head = file.read(_HEAD)
            plain = head.decode("utf-16").encode() if head.startswith((b"\xff\xfe", b"\xfe\xff")) else head
            return _IN_TEXT.match(plain) is not None
    except (OSError, BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return False


def bring_back(path: Path, home: Home, at: datetime) -> Returned:
    """Return what a spreadsheet adds to the scores of its study; nothing is written yet."""
    filled = read_tasks(path) if path.suffix.lower() == ".json" else read_sheet(path)
    heading = filled.heading
    then = read_queue(home, heading.study, heading.queue)
    if then is None:
        raise InputError(
            f"{path}: it is of queue {heading.queue} of the study {heading.study!r}, which is not in "
            f"{home.root}; import it where it was exported, or export the queue again"
        )
    now = read_queue(home, heading.study) or then
    return _Returning(filled, then, now, list(HumanScores(home).rows(heading.study)), at).result()


def keep(found: Returned, home: Home) -> int:
    if found.rejects:
        raise ValueError("a sheet is kept as a whole, or not at all")
    return HumanScores(home).append(found.scores)


def _part_holds(book: ZipFile, part: ZipInfo) -> bool:
    name = part.filename.lower()
    most = _MOST if name.endswith("sharedstrings.xml") else _HEAD if "/worksheets/sheet" in name else 0
    if not most:
        return False
    with book.open(part) as file:
        return _holds(file, _IN_BOOK, most)


def _holds(file: IO[bytes], wanted: re.Pattern[bytes], most: int) -> bool:
    return any(wanted.search(block) for block in _blocks(file, most))


def _blocks(file: IO[bytes], most: int) -> Iterator[bytes]:
    end, read = b"", 0
    while read < most and (block := file.read(min(_BLOCK, most - read))):
        yield end + block
        end, read = block[-256:], read + len(block)
