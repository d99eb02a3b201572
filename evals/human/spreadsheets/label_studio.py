"""A queue as tasks for Label Studio, and its labeling configuration.

https://labelstud.io/guide/tasks#Basic-Label-Studio-JSON-format, https://labelstud.io/guide/predictions,
https://labelstud.io/tags/choices. Pairs are `Choices`, for `Pairwise` knows no tie.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.human.spreadsheets import table
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.human_scores import annotator_name
from rag_assay.warehouse.identity import Json

HEADING, ITEM = "assay", "item"
FIELDS = {
    table.QUESTION: "question",
    table.ANSWER: "answer",
    table.SECOND: "second_answer",
    table.TRUTH: "ground_truth",
    table.PASSAGES: "passages",
}
"""Names of texts in a spreadsheet -> in the data of a task."""


def tasks_json(queue: Queue, shown: Sequence[Showing], heading: table.SheetHeading, past: table.Past) -> str:
    fields = _fields(queue, shown)
    tasks: list[Json] = []
    for showing in shown:
        texts = table.texts_of(queue, showing)
        texts[table.PASSAGES] = table.join_passages(texts)
        data: dict[str, Json] = {FIELDS[name]: encodable(texts.get(name, "")) for name in fields}
        data[ITEM] = table.token(heading, showing.item.item_id, showing.showing)
        data[HEADING] = heading.line()
        task: dict[str, Json] = {"id": showing.position, "data": data, "meta": {"study": queue.study}}
        said = past.now(showing.key, queue.versions)
        entries = table.shown_values(queue, showing, said)
        if entries:
            results: list[Json] = [
                _result(control(one), "choices", {"choices": [table.cell_text(value)]})
                for one, value in entries.items()
            ]
            if said.comment:
                results.append(_result(table.COMMENT, "textarea", {"text": [encodable(said.comment)]}))
            task["predictions"] = [{"model_version": "scores so far", "result": results}]
        tasks.append(task)
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def config_xml(queue: Queue, shown: Sequence[Showing]) -> str:
    view = ElementTree.Element("View")
    for name in _fields(queue, shown):
        ElementTree.SubElement(view, "Header", value=name.capitalize())
        ElementTree.SubElement(view, "Text", name=FIELDS[name], value=f"${FIELDS[name]}", valueType="text")
    for rubric_name, rubric in queue.rubrics.items():
        for criterion in rubric.criteria:
            asked = rubric_name, criterion.name
            _ask(view, asked, table.explain_criterion(queue, asked, criterion))
    ElementTree.SubElement(view, "Header", value="Comment")
    named = {"name": table.COMMENT, "toName": FIELDS[table.ANSWER]}
    ElementTree.SubElement(view, "TextArea", {**named, "rows": "3", "maxSubmissions": "1"})
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def control(asked: table.Asked) -> str:
    return "score-" + table.score_column(asked).removeprefix(table.SCORE)


def choice_text(value: float, words: str) -> str:
    return f"{table.number(value)}: {words}"


def _fields(queue: Queue, shown: Sequence[Showing]) -> list[str]:
    found = {name for showing in shown for name in table.texts_of(queue, showing)}
    found |= {table.QUESTION, table.ANSWER, table.PASSAGES}
    return [name for name in FIELDS if name in found]


def _ask(view: ElementTree.Element, asked: table.Asked, criterion: Criterion) -> None:
    title = f"{table.score_column(asked).removeprefix(table.SCORE)}: {criterion.ask}"
    ElementTree.SubElement(view, "Header", value=_literal(title))
    shown = {"name": control(asked), "toName": FIELDS[table.ANSWER], "choice": "single-radio"}
    choices = ElementTree.SubElement(view, "Choices", {**shown, "showInline": "false"})
    for value, words in criterion.anchors.items():
        text, alias = _literal(choice_text(value, words)), table.number(value)
        ElementTree.SubElement(choices, "Choice", value=text, alias=alias)
    ElementTree.SubElement(choices, "Choice", value=f"{table.SKIP}: you cannot say", alias=table.SKIP)


def _literal(text: str) -> str:
    held = "".join(one if one.isprintable() or one.isspace() else " " for one in encodable(text))
    return " ".join(held.replace("$", "＄").split())


def _result(name: str, kind: str, value: dict[str, Json]) -> Json:
    return {"from_name": name, "to_name": FIELDS[table.ANSWER], "type": kind, "value": value}


MAX_BYTES = 500_000_000
_DAY = 86_400.0
_TAKEN = {
    *FIELDS.values(),
    *(HEADING, ITEM, table.COMMENT, "id", "annotator", "annotation_id", "agreement"),
    *("created_at", "updated_at", "lead_time"),
}
"""Keys of JSON-MIN that hold no results; a rubric may have the same name."""
_DECODER = json.JSONDecoder()
Task = Mapping[str, Any]


def read_tasks(path: Path) -> table.Filled:
    tasks = list(_tasks(path))
    heading = _heading(path, tasks)
    rows: list[table.FilledRow] = []
    rejects: list[str] = []
    for place, task in tasks:
        for annotation in _annotations(task):
            try:
                rows.append(_row(place, task, annotation, heading))
            except ValueError as error:
                rejects.append(f"{place}: {error}")
    rows, notes = _latest(rows)
    return table.Filled(heading, _with_names(path, rows, heading), rejects, notes)


def _tasks(path: Path) -> Iterator[tuple[str, Task]]:
    try:
        text = read_bounded(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no JSON: {error}") from error
    at, line, n_tasks = _blank(text, 0), 1, 0
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
        n_tasks += 1
        if not isinstance(task, dict):
            raise InputError(f"{path}:{line}: task {n_tasks} is not a JSON object")
        yield f"{path.name}:{line} (task {n_tasks})", task
        at = _blank(text, end)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != "]":
            raise InputError(f"{path}:{line}: no JSON: the array does not end behind task {n_tasks}")


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _heading(path: Path, tasks: list[tuple[str, Task]]) -> table.SheetHeading:
    lines = {str(_data(task).get(HEADING)) for _, task in tasks}
    if not lines or not all(map(table.is_heading, lines)):
        raise InputError(
            f"{path}: tasks without `{HEADING}` in their data are of no queue; export the queue again"
        )
    if len(lines) > 1:
        raise InputError(f"{path}: its tasks are of {len(lines)} exports; import one at a time")
    try:
        return table.read_heading(lines.pop())
    except ValueError as error:
        raise InputError(
            f"{path}: `{HEADING}` of its tasks was changed ({error}); export the queue again"
        ) from error


def _data(task: Task) -> Task:
    found = task.get("data", task)
    return found if isinstance(found, Mapping) else {}


def _annotations(task: Task) -> list[Any]:
    if "data" not in task:
        return [task]
    found = task.get("annotations", task.get("completions"))
    return found if isinstance(found, list) else []


def _row(place: str, task: Task, annotation: object, heading: table.SheetHeading) -> table.FilledRow:
    if not isinstance(annotation, Mapping):
        raise ValueError("an annotation is not a JSON object: export whole annotations, not their ids")  # noqa: TRY004
    data = _data(task)
    bare_fields = {name: _bare(value) for name, value in task.items()}
    said = _results(annotation) if "result" in annotation else bare_fields
    cancelled = annotation.get("was_cancelled") is True or annotation.get("skipped") is True
    scores: dict[table.Asked, object] = {}
    for rubric, worded in heading.rubrics.items():
        for criterion in worded.criteria:
            asked = rubric, criterion or None
            # A person may have named the controls so.
            bare = table.score_column(asked).removeprefix(table.SCORE)
            names = [control(asked), *([] if bare in _TAKEN else [bare])]
            given = next((said[one] for one in names if one in said), None)
            scores[asked] = table.SKIP if cancelled else given
    comment = said.get(table.COMMENT)
    texts = {name: str(data[field]) for name, field in FIELDS.items() if field in data}
    at = _time(annotation.get("updated_at")) or _time(annotation.get("created_at"))
    seconds, who = _seconds(annotation.get("lead_time")), _who(annotation)
    said_of_it = comment if comment is not None else ""
    return table.FilledRow(place, str(data.get(ITEM)), texts, scores, said_of_it, who, seconds, at)


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
    who = annotation.get("completed_by", annotation.get("annotator"))
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("id")
    user = f"user {who}" if isinstance(who, int) else "unnamed"
    try:
        return annotator_name(who if isinstance(who, str) and who.strip() else user)
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


def _latest(rows: list[table.FilledRow]) -> tuple[list[table.FilledRow], list[str]]:
    last: dict[tuple[str, str | None], table.FilledRow] = {}
    notes = []
    for row in rows:
        key = row.token, row.annotator
        other = last.get(key)
        if other is None:
            last[key] = row
            continue
        older, newer = sorted((other, row), key=lambda one: one.scored_at or datetime.min.replace(tzinfo=UTC))
        last[key] = newer
        again = f"`{older.annotator}` has scored it again later; the later annotation counts"
        notes.append(f"{older.place}: {again}")
    return list(last.values()), notes


def _with_names(
    path: Path, rows: list[table.FilledRow], heading: table.SheetHeading
) -> list[table.FilledRow]:
    """Rows are those of the spreadsheet's annotator; without one, each keeps its own."""
    if heading.annotator is None:
        return rows
    people = sorted({row.annotator or "" for row in rows})
    if len(people) > 1:
        raise InputError(
            f"{path}: exported for {heading.annotator}, and {len(people)} people have scored in it "
            f"({', '.join(people[:5])}); export the queue without --annotator for those who work on it "
            "together"
        )
    return [replace(row, annotator=None) for row in rows]
