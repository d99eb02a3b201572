"""A queue as tasks for Label Studio, and the labeling configuration that asks its rubrics.

Tasks: a JSON array of `{"id", "data", "meta", "predictions"}`; `data` has what the configuration shows, and
`predictions` what was scored before, which Label Studio offers as a start
(https://labelstud.io/guide/tasks#Basic-Label-Studio-JSON-format,
https://labelstud.io/guide/predictions). The configuration: `Text` shows, `Choices` (with an `alias` for
each value, which stands in the results; https://labelstud.io/tags/choices,
https://labelstud.io/tags/choice) and `TextArea` are filled in. Pairs are asked by `Choices` too, for
`Pairwise` knows no tie (https://labelstud.io/tags/pairwise).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree import ElementTree

from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.human.spreadsheets.heading import SheetHeading, token
from rag_assay.evals.human.spreadsheets.rating_base import Asked, Past
from rag_assay.evals.human.spreadsheets.table import (
    COMMENT,
    SCORE,
    SKIP,
    as_shown,
    criteria_of,
    explain_criterion,
    number,
    score_column,
)
from rag_assay.evals.human.spreadsheets.texts import (
    ANSWER,
    PASSAGES,
    QUESTION,
    SECOND,
    TRUTH,
    join_passages,
    texts_of,
)
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.identity import Json

HEADING, ITEM = "assay", "item"
FIELDS = {
    QUESTION: "question",
    ANSWER: "answer",
    SECOND: "second_answer",
    TRUTH: "ground_truth",
    PASSAGES: "passages",
}
"""Names of texts in a sheet -> in the data of a task."""
_TITLES = {
    QUESTION: "Question",
    ANSWER: "Answer",
    SECOND: "Second answer",
    TRUTH: "Ground truth",
    PASSAGES: "Passages",
}


def tasks_json(queue: Queue, shown: Sequence[Showing], heading: SheetHeading, past: Past) -> str:
    """Return the tasks of showings, in their order."""
    fields = _fields(queue, shown)
    versions = {name: rubric.version for name, rubric in queue.rubrics.items()}
    tasks: list[Json] = []
    for showing in shown:
        texts = texts_of(queue, showing)
        texts[PASSAGES] = join_passages(texts)
        data: dict[str, Json] = {FIELDS[name]: encodable(texts.get(name, "")) for name in fields}
        data[ITEM] = token(heading, showing.item.item_id, showing.showing)
        data[HEADING] = heading.line()
        task: dict[str, Json] = {"id": showing.position, "data": data, "meta": {"study": queue.study}}
        said = past.now((showing.item.item_id, showing.showing), versions)
        asked = criteria_of(queue, showing)
        entries = {
            one: as_shown(said[one].entry, asked[one], swapped=showing.swapped)
            for one in asked
            if one in said
        }
        if entries:
            results: list[Json] = [_choice(one, value) for one, value in entries.items()]
            if said.comment:
                results.append(_result(COMMENT, "textarea", {"text": [encodable(said.comment)]}))
            task["predictions"] = [{"model_version": "scores so far", "result": results}]
        tasks.append(task)
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def config_xml(queue: Queue, shown: Sequence[Showing]) -> str:
    """Return the labeling configuration that shows the tasks and asks the rubrics."""
    view = ElementTree.Element("View")
    for name in _fields(queue, shown):
        ElementTree.SubElement(view, "Header", value=_TITLES[name])
        ElementTree.SubElement(view, "Text", name=FIELDS[name], value=f"${FIELDS[name]}", valueType="text")
    for rubric_name, rubric in queue.rubrics.items():
        for criterion in rubric.criteria:
            asked = rubric_name, criterion.name
            _ask(view, asked, explain_criterion(queue, asked, criterion))
    ElementTree.SubElement(view, "Header", value="Comment")
    ElementTree.SubElement(
        view, "TextArea", name=COMMENT, toName=FIELDS[ANSWER], rows="3", maxSubmissions="1"
    )
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def control(asked: Asked) -> str:
    """Return the name of the control of a criterion.

    >>> control(("quality", "tone"))
    'score-quality.tone'
    """
    return "score-" + score_column(asked).removeprefix(SCORE)


def choice_text(value: float, words: str) -> str:
    """Return what is read beside a choice.

    >>> choice_text(5.0, "Right")
    '5: Right'
    """
    return f"{number(value)}: {words}"


def _fields(queue: Queue, shown: Sequence[Showing]) -> list[str]:
    """Return the texts that any task has: each task must have all that the configuration names."""
    found = {name for showing in shown for name in texts_of(queue, showing)}
    return [name for name in FIELDS if name in found or name in {QUESTION, ANSWER, PASSAGES}]


def _ask(view: ElementTree.Element, asked: Asked, criterion: Criterion) -> None:
    title = f"{score_column(asked).removeprefix(SCORE)}: {criterion.ask}"
    ElementTree.SubElement(view, "Header", value=_literal(title))
    choices = ElementTree.SubElement(
        view, "Choices", name=control(asked), toName=FIELDS[ANSWER], choice="single-radio", showInline="false"
    )
    for value, words in criterion.anchors.items():
        ElementTree.SubElement(
            choices, "Choice", value=_literal(choice_text(value, words)), alias=number(value)
        )
    ElementTree.SubElement(choices, "Choice", value=f"{SKIP}: you cannot say", alias=SKIP)


def _literal(text: str) -> str:
    """Return a text in which Label Studio finds no name of a task's data, and XML nothing that it refuses."""
    held = "".join(one if one.isprintable() or one.isspace() else " " for one in encodable(text))
    return " ".join(held.replace("$", "＄").split())


def _choice(asked: Asked, value: float | str) -> Json:
    return _result(
        control(asked), "choices", {"choices": [value if isinstance(value, str) else number(value)]}
    )


def _result(name: str, kind: str, value: dict[str, Json]) -> Json:
    return {"from_name": name, "to_name": FIELDS[ANSWER], "type": kind, "value": value}
