"""Scored sheets as other projects make them, small, in every form in which they come."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook

COLUMNS = ("question", "contexts", "ground_truth", "answer", "retrieve_methods", "Score", "chunk_strategie")
METHODS = ([], ["keyword"], ["similarity"], ["keyword", "similarity"])
SIZES = ((508, 170), (128, 42))
QUESTIONS = {"Wer gewann?": " Bremen gewann.", "Wie hoch?": "Mit 3:0.", "Wann genau?": None}
MAPPING = """\
study: sport
sheet: llama
language: de
columns:
  question: question
  answer: answer
  contexts: contexts
  ground_truth: ground_truth
cell:
  chunking: {column: chunk_strategie}
  retriever: {column: retrieve_methods}
  generator: llama-2
scores:
  points: Score
annotator: vanny
"""
Row = dict[str, Any]


def rows(model: str = "Llama") -> list[Row]:
    """Return the rows of a sheet: 3 questions x 4 combinations x 2 chunk sizes, a score each."""
    found = []
    for size in SIZES:
        for number, (question, truth) in enumerate(QUESTIONS.items()):
            for methods in METHODS:
                score = (5, 3, 0)[(number + len(methods)) % 3]
                contexts = [f"Über {one}: „so“, it's {question}" for one in methods]
                found.append(
                    {
                        "question": question,
                        "contexts": str(contexts),
                        "ground_truth": truth,
                        "answer": f"{model} sagt {number} nach {len(methods)}.",
                        "retrieve_methods": str(methods),
                        "Score": score,
                        "chunk_strategie": str(size),
                    }
                )
    return found


def table(found: Sequence[Row]) -> list[list[Any]]:
    """Return rows as a table, the names of the columns first."""
    columns = list(dict.fromkeys(name for row in found for name in row))
    return [columns, *([row.get(name) for name in columns] for row in found)]


def write_xlsx(path: Path, found: Sequence[Row], change: Callable[[Any], None] | None = None) -> Path:
    """Write a workbook; ``change`` is given its sheet before it is saved."""
    book = Workbook()
    for values in table(found):
        book.active.append(values)
    if change:
        change(book.active)
    book.save(path)
    return path


def write_csv(path: Path, found: Sequence[Row], parted_by: str = ",", encoding: str = "utf-8") -> Path:
    """Write a table of text."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=parted_by).writerows(table(found))
    path.write_bytes(out.getvalue().encode(encoding))
    return path


def write_jsonl(path: Path, found: Sequence[Row]) -> Path:
    """Write lines of JSON."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found), encoding="utf-8")
    return path


def write_mapping(folder: Path, text: str = MAPPING, **changes: str) -> Path:
    """Write a mapping file; ``changes``: key of a line -> what stands behind it instead."""
    for key, value in changes.items():
        line = next(one for one in text.splitlines() if one.strip().startswith(f"{key}:"))
        text = text.replace(line, line.partition(":")[0] + f": {value}")
    path = folder / "mapping.yaml"
    path.write_text(text, encoding="utf-8")
    return path
