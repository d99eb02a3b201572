"""Question sets in the forms of other tools: ragas, BEIR (Thakur et al. 2021, arXiv:2104.08663) and SQuAD 2.0
(arXiv:1806.03822).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ExportInput:
    """Use -> rows of `schemas.QUESTIONS`, resolved, and doc_id -> url, title and text."""

    name: str
    questions: Mapping[str, Sequence[Row]]
    documents: Mapping[str, Row]

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.questions.values() for row in rows]

    def file_name(self, use: str, suffix: str) -> str:
        return f"{self.name}{suffix}" if use == "test" else f"{self.name}-{use}{suffix}"

    def passages(self, question: Row) -> Iterator[tuple[str, str]]:
        """Yield (URL, text) of each piece of evidence: its span, else its quote, else its whole document."""
        for item in question["evidence"] or ():
            document = self.documents.get(item["doc_id"])
            if document is not None and item["start"] is not None:
                yield item["url"], document["text"][item["start"] : item["end"]]
            elif item["quote"]:
                yield item["url"], item["quote"]
            elif document is not None:
                yield item["url"], document["text"]


@dataclass
class QuestionExport:
    """Files before they are written: path -> lines with their ends; and what is in them -> how many."""

    files: dict[str, Iterable[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, rows: Iterable[Row], what: str) -> None:
        """Say of how many questions something is true, and name a few; nothing where there are none."""
        if ids := [row["question_id"] for row in rows]:
            named = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
            self.notes.append(f"{len(ids)} questions {what}: {named}")


def json_line(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085") + "\n"


PREFIX = "beir:"


def beir(material: ExportInput) -> QuestionExport:
    """Return corpus, queries and qrels; a span counts as its document, questions without one are left out."""
    export = QuestionExport(counts={"documents": len(material.documents)})
    export.files["corpus.jsonl"] = (
        json_line({"_id": document_id(row["url"]), "title": row["title"] or "", "text": row["text"]})
        for row in material.documents.values()
    )
    graded = {row["question_id"]: _grades(row, material) for row in material.rows}
    for use, rows in material.questions.items():
        kept = [row for row in rows if graded[row["question_id"]]]
        if kept:
            lines = [
                f"{row['question_id']}\t{document}\t{grade}\n"
                for row in kept
                for document, grade in graded[row["question_id"]].items()
            ]
            export.files[f"qrels/{use}.tsv"] = ["query-id\tcorpus-id\tscore\n", *lines]
            export.counts[f"{use} questions"] = len(kept)
    kept = [row for row in material.rows if graded[row["question_id"]]]
    left = [row for row in material.rows if not graded[row["question_id"]]]
    export.files["queries.jsonl"] = [
        json_line({"_id": name, "text": text})
        for name, text in {row["question_id"]: row["question"] for row in kept}.items()
    ]
    _note_beir(export, left, kept)
    return export


def _note_beir(export: QuestionExport, left: list[Row], kept: list[Row]) -> None:
    def having(test: Callable[[Row], bool]) -> list[Row]:
        return [row for row in kept if any(test(item) for item in row["evidence"])]

    export.note((row for row in left if not row["answerable"]), "are unanswerable and left out")
    unheld = (row for row in left if row["answerable"])
    export.note(unheld, "have no evidence in the documents and are left out")
    spans = having(lambda item: item["start"] is not None)
    export.note(spans, "have quotes for evidence, which become whole documents")
    partial = having(lambda item: item["doc_id"] is None)
    export.note(partial, "have evidence that is in no document, which is left out")
    some = (row for row in kept if row["needs"] == "any" and len(row["evidence"]) > 1)
    export.note(some, "need any one of their documents, which BEIR counts as needing all")
    export.note((row for row in kept if row["ground_truth"]), "have a ground truth, which is left out")
    export.note((row for row in kept if row["conversation"]), "follow a conversation, which is left out")


def document_id(url: str) -> str:
    """
    >>> document_id("beir:d1"), document_id("a\\tb.md")
    ('d1', 'a%09b.md')
    """
    plain = url.removeprefix(PREFIX)
    return plain.replace("\t", "%09").replace("\n", "%0A").replace("\r", "%0D")


def _grades(row: Row, material: ExportInput) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in row["evidence"] or ():
        if item["doc_id"] in material.documents and item["reason"] is None:
            name = document_id(material.documents[item["doc_id"]]["url"])
            found[name] = max(found.get(name, 0), item["grade"])
    return found


def ragas(material: ExportInput) -> QuestionExport:
    """Return `NAME.jsonl`, and `NAME-train.jsonl` of train questions, in ragas' columns and a few more."""
    export = QuestionExport()
    for use, rows in material.questions.items():
        if rows:
            samples = [json_line(_sample(row, material)) for row in rows]
            export.files[material.file_name(use, ".jsonl")] = samples
            export.counts[f"{use} questions"] = len(rows)
    turns = (row for row in material.rows if row["conversation"])
    export.note(turns, "follow a conversation, which a single-turn sample has no place for; it is left out")
    framed = (row for row in material.rows if row["time_from"] or row["time_to"])
    export.note(framed, "have a time frame, which is left out")
    graded = (row for row in material.rows if any(item["grade"] != 1 for item in row["evidence"] or ()))
    export.note(graded, "have graded evidence, whose grades are left out")
    return export


def _sample(row: Row, material: ExportInput) -> dict[str, Any]:
    passages = list(material.passages(row))
    sample = {
        "question_id": row["question_id"],
        "user_input": row["question"],
        "reference": row["ground_truth"],
        "reference_contexts": [text for _, text in passages] or None,
        "reference_context_ids": [url for url, _ in passages] or None,
        **{name: row[name] for name in ("type", "language", "answerable", "needs", "asked_at")},
    }
    return {key: value for key, value in sample.items() if value is not None}


def squad(material: ExportInput) -> QuestionExport:
    """Return SQuAD 2.0 files: an article a document, an empty paragraph for unanswerable questions."""
    export = QuestionExport()
    for use, rows in material.questions.items():
        if rows:
            text, n_questions = _file(rows, material)
            export.files[material.file_name(use, ".json")] = [text]
            export.counts[f"{use} questions"] = n_questions
    _note_squad(export, material.rows)
    return export


def _note_squad(export: QuestionExport, rows: list[Row]) -> None:
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
            _squad_question(row, [one for one in spans if one["doc_id"] == home], material)
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


def _squad_question(row: Row, spans: list[Row], material: ExportInput) -> dict[str, Any]:
    answers = []
    for one in spans:
        text = material.documents[one["doc_id"]]["text"][one["start"] : one["end"]]
        answers.append({"text": text, "answer_start": one["start"]})
    known = {"id": row["question_id"], "question": row["question"]}
    return {**known, "answers": answers, "is_impossible": not row["answerable"]}


FORMS: Mapping[str, Callable[[ExportInput], QuestionExport]] = {"ragas": ragas, "beir": beir, "squad": squad}
