"""Tells the columns of a table of questions, ours or those of ragas and AutoRAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assay.evals.question_sets.readers.cells import is_empty
from rag_assay.evals.question_sets.readers.records import NAMES
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.suggestions import did_you_mean

_SHARED = {name: name for name in ("type", "language", "answerable", "needs", "asked_at")}
RAGAS: Mapping[str, str] = {
    **{"question_id": "id", "id": "id", "user_input": "question", "question": "question"},
    **{"reference": "ground_truth", "ground_truth": "ground_truth", "ground_truths": "truths"},
    **{"reference_contexts": "contexts", "contexts": "contexts", "reference_context_ids": "context_ids"},
    **_SHARED,
}
"""Columns of a ragas data set -> ours: those of today, and those of versions before 0.2."""

OURS: Mapping[str, str] = {name: name for name in NAMES}
_ANSWERED = frozenset({"answer", "response", "retrieved_contexts"})


def naming_of(columns: Sequence[str], form: str | None, place: str) -> Mapping[str, str]:
    """Return column -> our name of it; what is passed over is left out.

    A column whose name begins with `_` is a note of somebody's. Of ragas, others are passed over as ragas
    does; `contexts` beside an `answer` are what a system retrieved, and no evidence.

    Args:
        columns: of the table, or all keys of its lines.
        form: as the study says it; None: ragas where its columns are there.
        place: FILE:LINE for errors.

    Raises:
        InputError: a column comes twice, is not known, or the question's is missing.
    """
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if doubled:
        raise InputError(f"{place}: more than one column {doubled[0]!r}")
    if form == "ragas" or (form is None and is_ragas(columns)):
        known = {name: RAGAS[name] for name in columns if name in RAGAS}
        if not {"reference_contexts"} & known.keys() and _ANSWERED & set(columns):
            known.pop("contexts", None)
        return _one_each(known, place)
    findings = [
        f"{place}: unknown column {name!r}; {did_you_mean(name, NAMES)}; "
        "begin its name with `_` to pass it over"
        for name in columns
        if name not in OURS and name and not name.startswith("_")
    ]
    if "question" not in columns:
        findings.append(f"{place}: no column 'question'; there are {', '.join(columns[:20]) or 'none'}")
    if findings:
        raise InputError(*findings)
    return {name: OURS[name] for name in columns if name in OURS}


def is_ragas(columns: Sequence[str]) -> bool:
    """Return whether a table has the columns of a ragas data set, of any version."""
    names = set(columns)
    return "user_input" in names or ("question" in names and bool(names & {"contexts", "ground_truths"}))


def _one_each(known: Mapping[str, str], place: str) -> Mapping[str, str]:
    """Keep the first of several columns that mean the same; refuse a table that lacks the question."""
    found: dict[str, str] = {}
    for name in RAGAS:  # in the order of preference
        if name in known and known[name] not in found.values():
            found[name] = known[name]
    if "question" not in found.values():
        raise InputError(f"{place}: no column 'user_input' or 'question': not a ragas data set?")
    return found


def cells_of(row: Mapping[str, Any], naming: Mapping[str, str]) -> dict[str, Any]:
    """Return the cells of a row under our names; an empty one is absent, but an id that is NaN stays."""
    named = {naming[name]: value for name, value in row.items() if name in naming}
    return {
        name: value
        for name, value in named.items()
        if not is_empty(value) or (name == "id" and isinstance(value, float))
    }
