"""What a spreadsheet that came back adds to the scores of its annotators: each edited cell is a later row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.human.spreadsheets.formula_escaping import same_text
from rag_assay.evals.human.spreadsheets.table import (
    PASSAGES,
    TRUTH,
    Asked,
    CommentedRating,
    Filled,
    FilledRow,
    Past,
    RatingEntry,
    Row,
    State,
    criteria_of,
    criterion_version,
    join_passages,
    mirrored,
    read_comment,
    read_entry,
    score_column,
    score_id,
    showings_of,
    texts_of,
    token,
)
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.warehouse.human_scores import HumanScore
from rag_assay.warehouse.identity import digest


@dataclass
class Returned:
    """What came of a spreadsheet.

    rejects: rows that cannot be taken, as `FILE:LINE: reason`
    notes: what else a person should know
    """

    scores: list[HumanScore] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    unchanged: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """How many rows of each status are added."""
        return Counter(one.status for one in self.scores)


def score_updates(filled: Filled, then: Queue, now: Queue, rows: Iterable[Row], at: datetime) -> Returned:
    """Return what a spreadsheet adds to scores.

    Args:
        now: the queue that counts now; scores are by its rubrics.
        rows: of the study by any annotator, in the order of their files.
        at: when it came back; the time of scores of which the spreadsheet has none.
    """
    return _Returning(filled, then, now, list(rows), at).result()


@dataclass(frozen=True)
class _Change:
    """What a row says otherwise than its sheet held: entries, None where one was emptied; and comments."""

    entries: Mapping[Asked, RatingEntry | None]
    comments: Mapping[Asked, str]


class _Returning:
    def __init__(self, filled: Filled, then: Queue, now: Queue, rows: list[Row], at: datetime) -> None:
        self.filled, self.heading, self.then, self.now = filled, filled.heading, then, now
        self.rows, self.at = rows, at
        self.versions = {name: rubric.version for name, rubric in now.rubrics.items()}
        self.by_token = {
            token(self.heading, one.item.item_id, one.showing): one
            for one in showings_of(then, self.heading.annotator, self.heading.among)
        }
        self._past: dict[str, Past] = {}
        self.found = Returned(rejects=list(filled.rejects), notes=list(filled.notes))

    def result(self) -> Returned:
        gone: set[str] = set()
        for row in self._once():
            showing = self.by_token[row.token]
            problems = list(self._edited(row, showing))
            change = self._read(row, showing, problems)
            if problems:
                self.found.rejects += [f"{row.place}: {problem}" for problem in problems]
                continue
            if showing.item.item_id not in self.now.by_id:
                gone.add(row.token)
            self.found.scores += self._scores(row, showing, change)
        missing = len(self.by_token.keys() - {row.token for row in self.filled.rows})
        if missing:
            self.found.notes.append(
                f"{missing:,} of its {len(self.by_token):,} rows are not in the file: left as they are"
            )
        if gone:
            self.found.notes.append(
                f"{len(gone):,} rows are of items that are no longer in the queue; their scores are kept"
            )
        return self.found

    def _once(self) -> Iterator[FilledRow]:
        seen: dict[tuple[str, str | None], FilledRow] = {}
        for row in self.filled.rows:
            first = seen.setdefault((row.token, row.annotator), row)
            if row.token not in self.by_token:
                self.found.rejects.append(f"{row.place}: item `{row.token[:40]}` is none of this sheet's")
            elif first is row:
                yield row
            elif _content(first) == _content(row):
                self.found.notes.append(f"{row.place}: the same row as {first.place}; read once")
            else:
                self.found.rejects.append(
                    f"{row.place}: the same item as {first.place} with other scores; keep one"
                )

    def _edited(self, row: FilledRow, showing: Showing) -> Iterator[str]:
        texts = texts_of(self.then, showing)
        texts[PASSAGES] = join_passages(texts)
        for name, text in row.texts.items():
            if not same_text(text, texts.get(name, "")):
                yield f"`{name}` is not the text of the item; undo the change, or export the queue again"
        queued = self.now.by_id.get(showing.item.item_id)
        if (
            queued is not None
            and TRUTH in texts
            and queued.item.case.ground_truth != showing.item.case.ground_truth
        ):
            yield "the ground truth was changed since the sheet was written; export the queue again"

    def _read(self, row: FilledRow, showing: Showing, problems: list[str]) -> _Change:
        asked = criteria_of(self.then, showing)
        base = self._past_of(row).base((showing.item.item_id, showing.showing), self.heading)
        entries: dict[Asked, RatingEntry | None] = {}
        stands: dict[Asked, RatingEntry] = {}
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
                problems.append(f"`{score_column(one)}`: {error}")
        try:
            comments = self._comments(row, base, stands, entries)
        except ValueError as error:
            problems.append(f"`comment`: {error}")
            comments = {}
        return _Change(entries, comments)

    def _entry(
        self, one: Asked, cell: object, criterion: Criterion | None, showing: Showing
    ) -> RatingEntry | None:
        if criterion is None:
            if cell is None or not str(cell).strip():
                return None
            raise ValueError("this is not asked of the item; empty the cell")
        entry = read_entry(cell, criterion, compares=self.then.rubrics[one[0]].compares)
        if entry is None or entry.value is None or not showing.swapped:
            return entry
        return RatingEntry("ok", mirrored(entry.value, criterion))

    def _check_wording(self, one: Asked) -> None:
        name, criterion = one
        rubric = self.now.rubrics.get(name)
        if rubric is None:
            raise ValueError(f"the study has no rubric `{name}` any more")
        worded = {found.name: criterion_version(rubric, found) for found in rubric.criteria}
        if worded.get(criterion) != self.heading.rubrics[name].criteria.get(criterion or ""):
            raise ValueError(
                "the rubric was worded otherwise when the sheet was written; export the queue again"
            )

    def _comments(
        self,
        row: FilledRow,
        base: State,
        stands: Mapping[Asked, RatingEntry],
        edited: Mapping[Asked, RatingEntry | None],
    ) -> dict[Asked, str]:
        text = base.comment if row.comment is None else read_comment(row.comment)
        if same_text(text, base.comment):
            return {one: said.comment for one, said in base.items() if one in stands}
        if not stands:
            if text:
                self.found.notes.append(
                    f"{row.place}: a comment without a score is not kept; write a score, or skip"
                )
            return {}
        first = next(iter(stands))
        return {one: text if one == first else "" for one in stands}

    def _scores(self, row: FilledRow, showing: Showing, change: _Change) -> Iterator[HumanScore]:
        """Yield the rows that a change makes; none where the same change was made meanwhile."""
        past, shown = self._past_of(row), (showing.item.item_id, showing.showing)
        base, current = past.base(shown, self.heading), past.now(shown, self.versions)
        number = past.brought(shown, self.heading)
        for asked in criteria_of(self.then, showing):
            entry = change.entries.get(asked, base[asked].entry if asked in base else None)
            comment = change.comments.get(asked, "")
            held = base.get(asked)
            is_edited = asked in change.entries or (held is not None and held.comment != comment)
            said = CommentedRating(entry, comment) if entry is not None else None
            if not is_edited or current.get(asked) == said:
                continue
            yield self._score(row, showing, asked, said, number)

    def _score(
        self, row: FilledRow, showing: Showing, asked: Asked, said: CommentedRating | None, number: int
    ) -> HumanScore:
        annotator = self._annotator(row)
        entry = said.entry if said else None
        written = [annotator, row.token, *asked, entry and list(entry), said and said.comment, number]
        return HumanScore(
            score_id=score_id(self.heading, digest(written)),
            study=self.then.study,
            annotator=annotator,
            item_id=showing.item.item_id,
            rubric=asked[0],
            rubric_version=self.versions[asked[0]],
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

    def _annotator(self, row: FilledRow) -> str:
        return row.annotator or self.heading.annotator or ""

    def _past_of(self, row: FilledRow) -> Past:
        name = self._annotator(row)
        if name not in self._past:
            self._past[name] = Past(self.rows, name)
        return self._past[name]


def _content(row: FilledRow) -> Sequence[object]:
    return dict(row.texts), dict(row.scores), row.comment, row.seconds
