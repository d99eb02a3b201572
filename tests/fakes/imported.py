"""Imported studies as `assay ratings import` leaves them, of rows that a test gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assay.evals.spreadsheet_import.bundle import QUESTIONS_FILE, ROWS, STUDY_FILE
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import IMPORTED
from tests.fakes.tiny import Bench

STUDY = """\
study: ferry
description: What do people say of answers about the ferry?
imports: .
questions:
  - file: questions.jsonl
metrics: [rouge_l, exact_match, ndcg@10, answer_latency, tokens]
"""
QUESTIONS = {
    "noon": ("When does the ferry leave?", "At noon."),
    "tickets": ("Where are tickets sold?", "On the quay."),
    "lamp": ("Who lights the lamp?", "The keeper."),
}
TRUE = {question: truth for question, (_, truth) in QUESTIONS.items()}


def row(question: str, answer: str | None, generator: str = "llama", **more: Any) -> dict[str, Any]:
    """Return a row of `IMPORTED`: of the chunking `c128` and the retriever `dense` unless ``more`` says."""
    text, truth = QUESTIONS.get(question, (f"What of {question}?", "Nothing."))
    return {
        "line": 2,
        "question_id": question,
        "question": text,
        "language": "en",
        "ground_truth": truth,
        "answer": answer,
        "contexts": [f"The passage about {question}.", "Another passage."],
        "chunking": "c128",
        "embedder": "-",
        "retriever": "dense",
        "generator": generator,
        "replicate": 1,
        "axes": json.dumps({"retriever": "Dense Search"}),
        "annotator": "anna",
        "scores": [{"rubric": "points", "criterion": None, "value": 5.0}],
        "comment": None,
        "scored_at": None,
        **more,
    }


def grid(
    generator: str = "llama",
    chunkings: Sequence[str] = ("c128", "c256"),
    retrievers: Sequence[str] = ("bm25", "dense"),
) -> list[dict[str, Any]]:
    """Return a whole grid of rows: what `dense` finds is answered rightly, all else is not."""
    return [
        row(
            question,
            TRUE[question] if retriever == "dense" else f"Who knows, says {generator} of {question}.",
            generator,
            chunking=chunking,
            retriever=retriever,
        )
        for chunking in chunkings
        for retriever in retrievers
        for question in QUESTIONS
    ]


def put_sheet(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Put a sheet into the folder of an imported study, in place of one of that name."""
    found = [{**one, "line": line} for line, one in enumerate(rows, start=2)]
    write_parquet(frame(found, IMPORTED), folder / "sheets" / name / ROWS)


def write_questions(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the question file of the rows."""
    asked = {one["question_id"]: one for one in rows}
    lines = [
        json.dumps({"id": name, **{key: one[key] for key in ("question", "ground_truth") if one[key]}})
        for name, one in asked.items()
    ]
    (folder / QUESTIONS_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def imported(
    home: Home, sheets: Mapping[str, Sequence[Mapping[str, Any]]], changes: Mapping[str, str] | None = None
) -> Path:
    """Put sheets into a home as the study `ferry`; return its study file.

    changes: text of the study file -> what stands there instead
    """
    text = STUDY
    for old, new in (changes or {}).items():
        assert old in text, f"{old!r} is not in the study"
        text = text.replace(old, new, 1)
    name = text.split()[1]
    folder = home.root / "imports" / name
    for sheet, rows in sheets.items():
        put_sheet(folder, sheet, rows)
    write_questions(folder, [one for rows in sheets.values() for one in rows])
    path = folder / STUDY_FILE
    path.write_text(text, encoding="utf-8")
    return path


def imported_bench(
    home: Home, sheets: Mapping[str, Sequence[Mapping[str, Any]]], changes: Mapping[str, str] | None = None
) -> Bench:
    """Return the bench of such a study."""
    return Bench(imported(home, sheets, changes), home)
