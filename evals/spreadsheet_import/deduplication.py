"""Settles what the rows of a sheet are to each other: doubles, replicates, other annotators' scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rag_assay.evals.spreadsheet_import.bundle import Row, StoredSheet
from rag_assay.evals.spreadsheet_import.mapping import AXES
from rag_assay.evals.spreadsheet_import.sheet_rows import ParsedRow, Scored, axes_text

Content = tuple[str | None, tuple[str, ...]]
Place = tuple[str, ...]
Said = tuple[Place, Content, str, str, str | None]
"""Who said by which criterion what is said: place, content, annotator, rubric, criterion."""


@dataclass
class Settled:
    """The rows of a sheet that can stand beside each other.

    rows: of `IMPORTED`, in the order of their lines
    rejects: line and reason of each that cannot
    notes: line and text of what a person should know
    doubles: rows that say what another one says, too, and count once
    """

    rows: list[Row] = field(default_factory=list)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    doubles: int = 0


class OtherSheets:
    """What the other sheets of a study say already, and this one said when it was last imported."""

    def __init__(self, stored: Iterable[StoredSheet], name: str) -> None:
        self.replicates: dict[Place, dict[Content, int]] = {}
        self.before: dict[Place, dict[Content, int]] = {}
        self.scores: dict[Said, tuple[float, str]] = {}
        self.questions: dict[str, tuple[str, str]] = {}
        for one in stored:
            is_other = one.sheet.name != name
            for row in one.rows.iter_rows(named=True):
                self._add(row, one.sheet.name, is_other=is_other)

    def _add(self, row: Mapping[str, Any], sheet: str, *, is_other: bool) -> None:
        place = (*(row[axis] for axis in AXES), row["question_id"])
        content = (row["answer"], tuple(row["contexts"]))
        known = self.replicates if is_other else self.before
        known.setdefault(place, {}).setdefault(content, row["replicate"])
        if is_other:
            self.questions.setdefault(row["question_id"], (row["question"], sheet))
            for one in row["scores"]:
                said = (place, content, row["annotator"], one["rubric"], one["criterion"])
                self.scores[said] = (one["value"], f"line {row['line']} of the sheet {sheet}")


def deduplicate_rows(drafts: Sequence[ParsedRow], others: OtherSheets) -> Settled:
    """Return the rows of a sheet as they stand beside each other and the other sheets of the study.

    Of equal answers of one cell to one question, to equal contexts:

    - rows that agree in all else are one, and counted as doubles;
    - a row of another annotator is that annotator's score of the same answer;
    - two scores of one annotator by one criterion that differ contradict each other: neither is taken, for no
      rule can tell which one was meant.

    Unequal ones are replicates of the cell, numbered in the order of the lines; one keeps the number that it
    had when the sheet was last imported.
    """
    found = Settled()
    left = _of_one_question(drafts, others, found)
    left = _without_contradictions(left, others, found)
    merged = _merged(left, found)
    numbers = _numbers(merged, others)
    for draft in merged:
        found.rows.append(_row(draft, numbers[draft.place][draft.content]))
    _note_ground_truths(merged, found)
    return found


def _of_one_question(drafts: Sequence[ParsedRow], others: OtherSheets, found: Settled) -> list[ParsedRow]:
    """Reject rows whose question's id is that of another question."""
    first: dict[str, tuple[str, str]] = dict(others.questions)
    left = []
    for draft in drafts:
        text, where = first.setdefault(draft.question_id, (draft.question, f"line {draft.line}"))
        if text == draft.question:
            left.append(draft)
            continue
        where = where if where.startswith("line ") else f"the sheet {where}"
        found.rejects.append(
            (draft.line, f"the question id {draft.question_id} is that of another question, in {where}")
        )
    return left


def _without_contradictions(drafts: list[ParsedRow], others: OtherSheets, found: Settled) -> list[ParsedRow]:
    """Reject rows in which an annotator gives one answer two scores by one criterion."""
    by_said: dict[Said, list[tuple[ParsedRow, float]]] = {}
    wrong: dict[int, str] = {}
    for draft in drafts:
        for key, value in draft.scores.items():
            by_said.setdefault(_said(draft, key), []).append((draft, value))
    for said, rows in by_said.items():
        first, value = rows[0]
        differing = [(draft, other) for draft, other in rows if other != value]
        for draft, other in differing:
            wrong.setdefault(draft.line, _contradiction(draft, said, other, value, f"line {first.line}"))
        if differing:
            draft, other = differing[0]
            wrong.setdefault(first.line, _contradiction(first, said, value, other, f"line {draft.line}"))
        elif said in others.scores and others.scores[said][0] != value:
            theirs, where = others.scores[said]
            text = _contradiction(first, said, value, theirs, where)
            hint = f"; if it is the same sheet under another name, say `sheet: {where.rpartition(' ')[2]}`"
            wrong.setdefault(first.line, text + hint)
    found.rejects += sorted(wrong.items())
    return [draft for draft in drafts if draft.line not in wrong]


def _contradiction(draft: ParsedRow, said: Said, value: float, other: float, where: str) -> str:
    what = ".".join(filter(None, said[3:]))
    return (
        f"{draft.annotator} gives the same answer {value:g} by {what} here and {other:g} in {where}: keep one"
    )


def _said(draft: ParsedRow, key: Scored) -> Said:
    return (draft.place, draft.content, draft.annotator, *key)


def _merged(drafts: list[ParsedRow], found: Settled) -> list[ParsedRow]:
    """Make one of the rows in which one annotator looks at one answer."""
    merged: dict[tuple[Place, Content, str], ParsedRow] = {}
    for draft in drafts:
        key = (draft.place, draft.content, draft.annotator)
        before = merged.get(key)
        if before is None:
            merged[key] = draft
            continue
        found.doubles += 1
        comments = dict.fromkeys(filter(None, [before.comment, draft.comment]))
        merged[key] = replace(
            before,
            scores={**before.scores, **draft.scores},
            comment="\n".join(comments) or None,
            scored_at=before.scored_at or draft.scored_at,
            ground_truth=before.ground_truth or draft.ground_truth,
        )
    return list(merged.values())


def _numbers(drafts: list[ParsedRow], others: OtherSheets) -> dict[Place, dict[Content, int]]:
    """Return which replicate of its cell each answer to a question is."""
    contents: dict[Place, dict[Content, None]] = {}
    for draft in drafts:
        contents.setdefault(draft.place, {})[draft.content] = None
    numbers: dict[Place, dict[Content, int]] = {}
    for place, those in contents.items():
        theirs = others.replicates.get(place, {})
        before = others.before.get(place, {})
        given = {one: theirs[one] for one in those if one in theirs}
        own = [one for one in those if one not in given]
        free = [n for n in range(1, len(own) + len(theirs) + 1) if n not in theirs.values()][: len(own)]
        given |= {one: before[one] for one in own if before.get(one) in free}
        left = (n for n in free if n not in given.values())
        given |= {one: next(left) for one in own if one not in given}
        numbers[place] = given
    return numbers


def _row(draft: ParsedRow, replicate: int) -> Row:
    return {
        "line": draft.line,
        "question_id": draft.question_id,
        "question": draft.question,
        "language": draft.language,
        "ground_truth": draft.ground_truth,
        "answer": draft.answer,
        "contexts": list(draft.contexts),
        **draft.names,
        "replicate": replicate,
        "axes": axes_text(draft),
        "annotator": draft.annotator,
        "scores": [
            {"rubric": rubric, "criterion": criterion, "value": value}
            for (rubric, criterion), value in draft.scores.items()
        ],
        "comment": draft.comment,
        "scored_at": draft.scored_at,
    }


def _note_ground_truths(drafts: list[ParsedRow], found: Settled) -> None:
    """Say where a question has several ground truths: the first one counts."""
    truths: dict[str, dict[str, int]] = {}
    for draft in drafts:
        if draft.ground_truth:
            truths.setdefault(draft.question_id, {}).setdefault(draft.ground_truth, draft.line)
    for lines in truths.values():
        first, *more = lines.values()
        for line in more:
            text = f"another ground truth of the question in line {first}, which counts for all of its rows"
            found.notes.append((line, text))
