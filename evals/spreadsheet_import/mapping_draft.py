"""Writes a guessed mapping as a file that a person reads, mends and keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.spreadsheet_import.column_inference import MOST_VALUES, Guess
from rag_assay.evals.spreadsheet_import.column_names import AXES_TOLD
from rag_assay.warehouse.yaml_positions import escape_text

_PLAIN = re.compile(r"[A-Za-z_ÄÖÜäöüß][\w ÄÖÜäöüß.-]*(?<! )")
_WORDS = frozenset({"yes", "no", "true", "false", "null", "on", "off", "y", "n", "none"})
_COLUMNS = (
    *("question", "answer", "contexts", "ground_truth", "question_id"),
    *("language", "annotator", "comment", "scored_at"),
)
_NEEDED = ("question", "answer")


def quote_yaml(text: str) -> str:
    """Return a text as a value of YAML.

    >>> quote_yaml("Score"), quote_yaml("yes"), quote_yaml("a: b")
    ('Score', '"yes"', '"a: b"')
    """
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(escape_text(text), ensure_ascii=True)


def write_mapping(found: Guess, file: Path) -> str:
    """Return the text of a mapping file; what could not be told is a line of comment, or an empty value."""
    return "\n".join(_lines(found, file)) + "\n"


def _lines(found: Guess, file: Path) -> Iterator[str]:
    yield f"# Guessed from {_comment(file.name)} by `assay ratings import --guess`; read it first."
    yield f"study: {found.study}  # a name of your choice; the same for all sheets of one study"
    yield f"sheet: {found.study}"
    if found.worksheet:
        yield f"worksheet: {quote_yaml(found.worksheet)}  # others are {_comment(', '.join(found.others))}"
    yield f"language: {found.language}" if found.language else "# language: en"
    yield "columns:"
    for role in _COLUMNS:
        yield from _column(found, role)
    yield "cell:"
    for axis in AXES_TOLD:
        yield from _axis(found, axis)
    yield from _scores(found)
    if "annotator" not in found.roles:
        yield "# annotator: NAME  # who scored? the sheet does not say"
    yield from _answers(found)
    for name in found.unread:
        yield f"# not read: the column {_comment(name)}"


def _column(found: Guess, role: str) -> Iterator[str]:
    if role in found.roles:
        yield f"  {role}: {quote_yaml(found.roles[role].column)}"
    elif role in _NEEDED:
        yield f"  {role}:  # which column? none looks like it"
    elif role in {"contexts", "ground_truth"}:
        yield f"  # {role}: NAME OF A COLUMN"


def _axis(found: Guess, axis: str) -> Iterator[str]:
    if axis in found.roles:
        yield f"  {axis}: {{column: {quote_yaml(found.roles[axis].column)}}}"
    elif axis == "generator":
        yield "  generator:  # who answered? the sheet does not say: a name, as in llama-2-13b"
    else:
        yield f"  # {axis}: NAME, or {{column: NAME OF A COLUMN}}"


def _scores(found: Guess) -> Iterator[str]:
    yield "scores:"
    if "score" not in found.roles or not found.values:
        yield "  points:  # which column? none has few different numbers alone"
        return
    column = quote_yaml(found.roles["score"].column)
    if found.words:
        words = ", ".join(f"{quote_yaml(word)}: {value:g}" for word, value in found.words.items())
        yield f"  points: {{column: {column}, values: {{{words}}}}}"
    else:
        yield f"  points: {column}"
    if found.is_default:
        return
    yield "rubrics:"
    yield "  points:"
    yield "    points:"
    if not 2 <= len(found.values) <= MOST_VALUES:
        yield f"      anchors:  # value: what it is given for; {len(found.values)} values are there"
        return
    yield "      anchors:  # write what each is given for: scores by other words are not mixed with these"
    for value in found.values:
        yield f"        {value:g}: {quote_yaml(f'{value:g} in the sheet')}"


def _answers(found: Guess) -> Iterator[str]:
    if found.unanswered is None:
        yield "# empty_answers: keep  # some rows have no answer, but a score that is not the lowest one"
    elif found.unanswered:
        yield f"empty_answers: keep  # {found.unanswered} rows have no answer, and the lowest score"


def reasons(found: Guess) -> Iterator[str]:
    """Say why each column is taken for what it is, and what could not be told."""
    for role, one in found.roles.items():
        yield (
            f"{role}: the column {one.column!r}, by {one.why}"
            if one.why == "its name"
            else (f"{role}: the column {one.column!r}: {one.why}")
        )
    if found.language:
        yield f"language: {found.language}, as the questions are written"
    if found.values:
        told = ", ".join(f"{value:g}" for value in found.values)
        rubric = ", ".join(f"{value:g}" for value in Points().anchors)
        what = f"as the rubric of {rubric}" if found.is_default else "no rubric is known: say what each means"
        yield f"scores: {told}: {what}"
    if found.unanswered:
        yield f"empty_answers: keep: {found.unanswered} rows have no answer and the lowest score"
    if found.others:
        others = ", ".join(map(repr, found.others))
        yield f"worksheet: {found.worksheet!r} is the first; there are {others}, too"
    lacking = [role for role in ("question", "answer", "score", "generator") if role not in found.roles]
    for role in lacking:
        yield f"{role}: not told; fill it in"
    if found.unread:
        yield f"not read: {', '.join(map(repr, found.unread[:20]))}"


def _comment(text: str) -> str:
    """Return a text that cannot end a comment."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:120]
