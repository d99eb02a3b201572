"""Names of question sets."""

from __future__ import annotations

from pathlib import Path

from rag_assay.evals.question_sets.readers import suffix_of


def set_name(path: Path) -> str:
    """Return the name of a file's question set: that of the file.

    >>> set_name(Path("demo/Energy.questions.yaml")), set_name(Path("xquad.en.json.gz"))
    ('energy', 'xquad-en')
    """
    name = path.name.lower()
    return name.removesuffix(suffix_of(path)).removesuffix(".questions").replace(".", "-")
