"""A SQuAD 2.0 file: documents as paragraphs, questions on them with answers by offset (arXiv:1806.03822)."""

from __future__ import annotations

import json
from typing import Any

from rag_assay.evals.question_sets.exporters.contract import ExportInput, QuestionExport, Row


def squad(material: ExportInput) -> QuestionExport:
    """Return `NAME.json`, and `NAME-train.json` of train questions, as SQuAD 2.0.

    A document is an article of one paragraph; an answer is the span of a piece of evidence. Unanswerable
    questions stand on an empty paragraph; those with evidence in several documents in the first; those
    without a span are left out.
    """
    export = QuestionExport()
    for use, rows in material.questions.items():
        if rows:
            text, n_questions = _file(rows, material)
            export.files[material.file_name(use, ".json")] = [text]
            export.counts[f"{use} questions"] = n_questions
    _note(export, material.rows)
    return export


def _note(export: QuestionExport, rows: list[Row]) -> None:
    asked = [row for row in rows if row["answerable"]]
    unheld = (row for row in asked if not _spans(row))
    export.note(unheld, "have no quote that stands in a document and are left out")
    kept = [row for row in asked if _spans(row)]
    several = (row for row in kept if len({one["doc_id"] for one in _spans(row)}) > 1)
    export.note(several, "have evidence in several documents, of which the first is kept")
    every = (row for row in kept if row["needs"] == "all" and len(_spans(row)) > 1)
    export.note(every, "need all of their evidence, where SQuAD takes any one answer")
    truths = (row for row in kept if row["ground_truth"])
    export.note(truths, "have a ground truth, in whose place SQuAD has the words of the evidence")
    export.note((row for row in rows if row["conversation"]), "follow a conversation, which is left out")


def _spans(row: Row) -> list[Row]:
    return [item for item in row["evidence"] or () if item["start"] is not None]


def _file(rows: Any, material: ExportInput) -> tuple[str, int]:
    paragraphs: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        spans = _spans(row)
        if row["answerable"] and not spans:
            continue
        home = spans[0]["doc_id"] if spans else None
        paragraphs.setdefault(home, []).append(
            _question(row, [one for one in spans if one["doc_id"] == home], material)
        )
    articles = [
        _article(material.documents[home] if home else None, asked) for home, asked in paragraphs.items()
    ]
    text = json.dumps({"version": "v2.0", "data": articles}, ensure_ascii=False, indent=1) + "\n"
    return text, sum(len(asked) for asked in paragraphs.values())


def _article(document: Row | None, asked: list[dict[str, Any]]) -> dict[str, Any]:
    if document is None:
        return {"title": "", "paragraphs": [{"context": "", "qas": asked}]}
    paragraph = {"context": document["text"], "url": document["url"], "qas": asked}
    return {"title": document["title"] or document["url"], "paragraphs": [paragraph]}


def _question(row: Row, spans: list[Row], material: ExportInput) -> dict[str, Any]:
    answers = []
    for one in spans:
        text = material.documents[one["doc_id"]]["text"][one["start"] : one["end"]]
        answers.append({"text": text, "answer_start": one["start"]})
    known = {"id": row["question_id"], "question": row["question"]}
    return {**known, "answers": answers, "is_impossible": not row["answerable"]}
