"""Question sets as written, before their evidence is looked up in the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.readers import read_set
from rag_assay.evals.study.grid import Grid


def written_questions(grid: Grid, key: str) -> list[dict[str, Any]]:
    """Read a question set; its rows are those of `schemas.QUESTIONS` whose evidence is not resolved yet.

    Raises:
        InputError: all errors of its file.
    """
    one, source = grid.sets[key], source_of_set(grid, key)
    rows = one.asked(read_set(one.source))
    if one.beir is None:
        return rows
    return [{**row, "evidence": [{**item, "source": source} for item in row["evidence"]]} for row in rows]


def source_of_set(grid: Grid, key: str) -> str | None:
    """Return the source that reads the corpus of a BEIR set's own folder: its qrels mean no other's."""
    question_set = grid.sets[key]
    if question_set.beir is None:
        return None
    for name in grid.build.corpora[question_set.corpus].sources:
        source = grid.build.sources[name]
        path = Path(source.path or "")
        folder = path.parent if path.is_file() else path
        if source.reader == "beir" and folder.resolve() == question_set.path.resolve():
            return name
    return None
