"""Writes the study file of imported sheets, once; from then on it is the person's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.question_writer import yaml_text
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric, metric_name
from rag_assay.evals.spreadsheet_import.bundle import QUESTIONS_FILE, replace_text
from rag_assay.evals.spreadsheet_import.mapping import ReadMapping
from rag_assay.warehouse.components import as_written

HEADING = """\
Written by `assay ratings import`, once; change it as you like. Its cells are what the sheets beside it have
rows of (sheets/). Add `judges:` to have the answers judged, too (docs/judging.md)."""


def write_study(path: Path, read: ReadMapping) -> None:
    """Write the file of an imported study where there is none."""
    if not path.exists():
        replace_text(path, study_text(read))


def study_text(read: ReadMapping) -> str:
    """Return the text of the study file of a mapping's sheets: their scores are its metrics."""
    language = {"language": read.mapping.language} if read.mapping.language else {}
    data: dict[str, Any] = {
        "study": read.mapping.study,
        "imports": ".",
        "questions": [{"file": QUESTIONS_FILE, **language}],
        "rubrics": {name: _written(rubric) for name, rubric in read.rubrics.items()},
        "metrics": [metric_name(*key) for key in read.criteria],
    }
    return yaml_text(data, HEADING)


def _written(rubric: Rubric) -> Any:
    """Return a rubric as a person would write it: what is as it is unless said is left out."""
    if rubric == Points():
        return {rubric.kind: {}}
    return json.loads(json.dumps(as_written(rubric, exclude_none=True)))
