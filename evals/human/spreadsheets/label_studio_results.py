"""Reads what people have scored in Label Studio: its JSON export, and JSON-MIN.

JSON (https://labelstud.io/guide/export#Label-Studio-JSON-format-of-annotated-tasks): tasks with
`annotations`, each with who made it (`completed_by`: a number, or an object with an `email`),
`was_cancelled` (passed over), `lead_time` (seconds) and `result`: a list of `{from_name, type, value}`,
where `value` is `{"choices": [...]}`, `{"rating": 4}`, `{"text": [...]}`, `{"number": 3}` or, of a pair,
`{"selected": "left"}`. `predictions` and drafts are no scores. JSON-MIN: an object for each annotation, the
task's data beside the value by each `from_name`; one choice or text stands for itself, all else as a list
of values (`prettify_result` of label-studio-sdk's converter); cancelled ones are left out, `annotator` says
who.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assay.evals.human.spreadsheets.filled_rows import Filled, FilledRow
from rag_assay.evals.human.spreadsheets.heading import SheetHeading, is_heading, read_heading
from rag_assay.evals.human.spreadsheets.label_studio import FIELDS, HEADING, ITEM, control
from rag_assay.evals.human.spreadsheets.rating_base import Asked
from rag_assay.evals.human.spreadsheets.table import COMMENT, SCORE, SKIP, score_column
from rag_assay.warehouse.annotator_names import annotator_name
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded

MAX_BYTES = 500_000_000
_DAY = 86_400.0
_TAKEN = {
    *FIELDS.values(),
    *(HEADING, ITEM, COMMENT, "id", "annotator", "annotation_id", "agreement"),
    *("created_at", "updated_at", "lead_time"),
}
"""What stands beside the results in JSON-MIN: a rubric may be called so."""
_DECODER = json.JSONDecoder()
Task = Mapping[str, Any]


def read_tasks(path: Path) -> Filled:
    """Return what stands in an export of Label Studio, a row for each annotation.

    Raises:
        InputError: it is no such file, is of several sheets, or many people have worked on one person's
        sheet.
    """
    tasks = list(_tasks(path))
    heading = _heading(path, tasks)
    rows: list[FilledRow] = []
    rejects: list[str] = []
    for place, task in tasks:
        for annotation in _annotations(task):
            try:
                rows.append(_row(place, task, annotation, heading))
            except ValueError as error:
                rejects.append(f"{place}: {error}")
    rows, notes = _latest(rows)
    return Filled(heading, _with_names(path, rows, heading), rejects, notes)


def _tasks(path: Path) -> Iterator[tuple[str, Task]]:
    """Yield the tasks of a file, each with its place: file, line and number of the task."""
    try:
        text = read_bounded(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no JSON: {error}") from error
    at, line, number = _blank(text, 0), 1, 0
    if text[at : at + 1] != "[":
        raise InputError(
            f"{path}: an export of Label Studio is a JSON array of tasks; export it as JSON or JSON-MIN"
        )
    counted, at = 0, _blank(text, at + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            task, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{line}: no JSON: {' '.join(str(error).split())[:200]}") from error
        number += 1
        if not isinstance(task, dict):
            raise InputError(f"{path}:{line}: task {number} is no JSON object")
        yield f"{path.name}:{line} (task {number})", task
        at = _blank(text, end)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != "]":
            raise InputError(f"{path}:{line}: no JSON: the array does not end behind task {number}")


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _heading(path: Path, tasks: list[tuple[str, Task]]) -> SheetHeading:
    lines = {str(_data(task).get(HEADING)) for _, task in tasks}
    if not lines or not all(map(is_heading, lines)):
        raise InputError(
            f"{path}: tasks without `{HEADING}` in their data are of no queue; export the queue again"
        )
    if len(lines) > 1:
        raise InputError(f"{path}: its tasks are of {len(lines)} exports; import one at a time")
    try:
        return read_heading(lines.pop())
    except ValueError as error:
        raise InputError(
            f"{path}: `{HEADING}` of its tasks was changed ({error}); export the queue again"
        ) from error


def _data(task: Task) -> Task:
    """Return the data of a task; in JSON-MIN they stand in the task itself."""
    found = task.get("data", task)
    return found if isinstance(found, Mapping) else {}


def _annotations(task: Task) -> list[Any]:
    """Return the annotations of a task; of JSON-MIN the task is one."""
    if "data" not in task:
        return [task]
    found = task.get("annotations", task.get("completions"))
    return found if isinstance(found, list) else []


def _row(place: str, task: Task, annotation: object, heading: SheetHeading) -> FilledRow:
    if not isinstance(annotation, Mapping):
        raise ValueError("an annotation is no JSON object: export with all annotations, not their ids alone")  # noqa: TRY004
    data = _data(task)
    said = (
        _results(annotation)
        if "result" in annotation
        else {name: _bare(value) for name, value in task.items()}
    )
    cancelled = annotation.get("was_cancelled") is True or annotation.get("skipped") is True
    scores: dict[Asked, object] = {}
    for rubric, worded in heading.rubrics.items():
        for criterion in worded.criteria:
            asked = rubric, criterion or None
            bare = score_column(asked).removeprefix(SCORE)  # a person may have named the controls so
            names = [control(asked), *([] if bare in _TAKEN else [bare])]
            scores[asked] = SKIP if cancelled else next((said[one] for one in names if one in said), None)
    comment = said.get(COMMENT)
    return FilledRow(
        place,
        str(data.get(ITEM)),
        {name: str(data[field]) for name, field in FIELDS.items() if field in data},
        scores,
        comment if comment is not None else "",
        _who(annotation),
        _seconds(annotation.get("lead_time")),
        _time(annotation.get("updated_at")) or _time(annotation.get("created_at")),
    )


def _results(annotation: Task) -> dict[str, object]:
    results = annotation.get("result")
    if not isinstance(results, list):
        return {}
    found: dict[str, object] = {}
    for one in results:
        if isinstance(one, Mapping) and isinstance(one.get("from_name"), str):
            name = one["from_name"]
            if name in found:
                raise ValueError(f"two results of `{name}`; keep one")
            found[name] = _bare(one.get("value"))
    return found


def _bare(value: object) -> object:
    """Return what a value says: a choice, a number, a text."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping):
        for name in ("choices", "rating", "number", "text", "selected"):
            if name in value:
                return _bare(value[name])
        return json.dumps(value)[:200]
    if isinstance(value, list):
        texts = all(isinstance(one, str) for one in value)
        return "\n".join(value) if texts and value else None if not value else json.dumps(value)[:200]
    return value


def _who(annotation: Task) -> str:
    """Return who made an annotation: an address, or the number that Label Studio has for them.

    Raises:
        ValueError: nobody can be called that.
    """
    who = annotation.get("completed_by", annotation.get("annotator"))
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("id")
    name = (
        who if isinstance(who, str) and who.strip() else f"user {who}" if isinstance(who, int) else "unnamed"
    )
    try:
        return annotator_name(name)
    except InputError as error:
        raise ValueError(str(error)) from error


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return round(float(min(value, _DAY)), 1)


def _time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _latest(rows: list[FilledRow]) -> tuple[list[FilledRow], list[str]]:
    """Return each person's latest annotation of each task, and a note of each that is not."""
    last: dict[tuple[str, str | None], FilledRow] = {}
    notes = []
    for row in rows:
        key = row.token, row.annotator
        other = last.get(key)
        if other is None:
            last[key] = row
            continue
        older, newer = sorted((other, row), key=lambda one: one.scored_at or datetime.min.replace(tzinfo=UTC))
        last[key] = newer
        notes.append(
            f"{older.place}: `{older.annotator}` has scored it again later; the later annotation counts"
        )
    return list(last.values()), notes


def _with_names(path: Path, rows: list[FilledRow], heading: SheetHeading) -> list[FilledRow]:
    """Return rows as those of the one whose sheet it is; else each keeps the name of who scored it."""
    if heading.annotator is None:
        return rows
    people = sorted({row.annotator or "" for row in rows})
    if len(people) > 1:
        raise InputError(
            f"{path}: exported for {heading.annotator}, and {len(people)} people have scored in it "
            f"({', '.join(people[:5])}); "
            "export the queue without --annotator for those who work on it together"
        )
    return [replace(row, annotator=None) for row in rows]
