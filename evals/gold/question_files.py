"""Reads question sets: YAML files and BEIR folders, typed, with a line for every mistake."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evals.gold.unanswered import UNANSWERED
from warehouse.errors import InputError, Mistake
from warehouse.files import bounded_lines, check_regular
from warehouse.findings import Finding, in_words, lines_of
from warehouse.marked_yaml import MarkedYaml, load
from warehouse.recipe import Strict

UNFILLED = "Replace this by "
"""How a question of the template of `assay init` begins: it is not asked until somebody has written one."""

_WHOLE = re.compile(r"-?[0-9]{1,9}")
MAX_LINE, MAX_LINES = 1_000_000, 20_000_000  # of a BEIR folder's queries and qrels: bytes, lines


class Evidence(Strict):
    """Where an answer stands: a quote on a page.

    source: which source's page it is, where several have the same URL
    """

    url: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)] | None = None
    quote: Annotated[str, Field(min_length=3)] | None = None
    grade: Annotated[int, Field(ge=1, le=10)] = 1


class TimeFrame(Strict):
    """The window in which what is asked for was published; both ends included."""

    from_: Annotated[date | None, Field(alias="from")] = None
    to: date | None = None


Turn = Annotated[str, Field(min_length=1, max_length=20_000)]


class WrittenQuestion(Strict):
    """One question of a YAML file.

    language: where it is not that of the file
    asked_at: the day on which it is asked, which "last week" and a retriever of recent documents go by
    conversation: what was said before it, oldest first: question and answer by turns
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
    type: Literal["normal", "yes_no", "hypothetical", "complex", "multi_hop"] = "normal"
    language: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    question: Annotated[str, Field(min_length=3)]
    ground_truth: str | None = None
    answerable: bool = True
    evidence: tuple[Evidence, ...] = ()
    needs: Literal["all", "any"] = "all"
    time_frame: TimeFrame | None = None
    asked_at: date | None = None
    conversation: Annotated[tuple[Turn, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _has_what_it_says(self) -> Self:
        if self.answerable and not self.evidence and not self.ground_truth:
            raise ValueError(
                "an answerable question needs evidence or a ground_truth: nothing could be measured on it"
            )
        if not self.answerable and self.evidence:
            raise ValueError("a question with evidence is answerable; drop one of the two")
        return self


class QuestionFile(Strict):
    """A YAML file of questions.

    asked_at: of every question that does not say it itself
    """

    question_set: str
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] = "en"
    asked_at: date | None = None
    questions: Annotated[tuple[WrittenQuestion, ...], Field(min_length=1)]


def read_yaml(path: Path) -> list[dict[str, Any]]:
    """Read a question file; return rows of `schemas.QUESTIONS` whose evidence is not resolved yet.

    Raises:
        InputError: every error of the file, each with its line.
    """
    marked = load(path)
    if not isinstance(marked.data, dict):
        text = "a question file is a mapping with the keys question_set, language and questions"
        raise InputError(Mistake("no_question_file", path, 1, text))
    try:
        parsed = QuestionFile.model_validate(marked.data)
    except ValidationError as error:
        raise InputError(*lines_of(marked, in_words(error, QuestionFile))) from error
    written = _written(parsed, marked)
    doubled = _doubled([question.id for question in parsed.questions])
    if doubled:
        found = [
            Finding(("questions", number, "id"), "doubled_id", f"a second question with the id {name}")
            for number, name in doubled
        ]
        raise InputError(*lines_of(marked, found))
    return rows_of(parsed, written)


def rows_of(parsed: QuestionFile, questions: Iterable[WrittenQuestion]) -> list[dict[str, Any]]:
    """Return questions of a file as rows of `schemas.QUESTIONS` whose evidence is not resolved yet."""
    return [_row(parsed, question) for question in questions]


def _written(parsed: QuestionFile, marked: MarkedYaml) -> list[WrittenQuestion]:
    """Return the questions but those of the template that nobody has filled in.

    Raises:
        InputError: there is none besides; or a question was written, and its ground truth was not.
    """
    half = [
        Finding(
            ("questions", number, "ground_truth"),
            "half_written",
            "this is still the template's; write the answer, or take it out",
        )
        for number, question in enumerate(parsed.questions)
        if (question.ground_truth or "").startswith(UNFILLED) and not question.question.startswith(UNFILLED)
    ]
    if half:
        raise InputError(*lines_of(marked, half))
    written = [question for question in parsed.questions if not question.question.startswith(UNFILLED)]
    if not written:
        text = (
            "all questions are still those of the template, and are not asked; write your own in their place"
        )
        raise InputError(*lines_of(marked, [Finding(("questions",), "unwritten", text)]))
    return written


def _doubled(ids: list[str]) -> list[tuple[int, str]]:
    """Return (position, id) of every id that stands earlier in the list already."""
    first = {name: number for number, name in reversed(list(enumerate(ids)))}
    return [(number, name) for number, name in enumerate(ids) if first[name] != number]


def _row(parsed: QuestionFile, question: WrittenQuestion) -> dict[str, Any]:
    frame = question.time_frame
    asked_at = question.asked_at or parsed.asked_at
    language = question.language or parsed.language
    truth = question.ground_truth or (None if question.answerable else UNANSWERED.get(language))
    return {
        "question_id": question.id,
        "question_set": parsed.question_set,
        "type": question.type,
        "language": language,
        "question": question.question,
        "ground_truth": truth,
        "answerable": question.answerable,
        "needs": question.needs,
        "gold": _gold(question),
        "time_from": frame.from_.isoformat() if frame and frame.from_ else None,
        "time_to": frame.to.isoformat() if frame and frame.to else None,
        "asked_at": asked_at.isoformat() if asked_at else None,
        "conversation": list(question.conversation),
        "evidence": [evidence.model_dump() for evidence in question.evidence],
    }


def _gold(question: WrittenQuestion) -> str:
    """Return what the gold of a question is: quotes, whole documents where nothing is quoted, or nothing."""
    if any(evidence.quote for evidence in question.evidence):
        return "spans"
    return "documents" if question.evidence else "none"


def read_beir(folder: Path, split: str, name: str) -> list[dict[str, Any]]:
    """Read the queries of a BEIR folder that a split grades; grades of 0 are no evidence.

    Raises:
        InputError: a file is missing or not in BEIR's form.
    """
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.is_file():
        there = ", ".join(sorted(p.stem for p in (folder / "qrels").glob("*.tsv"))) or "none"
        raise InputError(f"{qrels}: there is no such split; there are: {there}")
    texts = _queries(folder)
    evidence = _graded(qrels)
    missing = [query for query in evidence if query not in texts]
    if missing:
        others = f" (and {len(missing) - 1} others)" if len(missing) > 1 else ""
        raise InputError(f"{qrels}: the query {missing[0]}{others} is not in the folder's queries.jsonl")
    if not evidence:
        raise InputError(f"{qrels}: no document is graded above 0, so there is nothing to ask")
    return [
        {
            "question_id": query,
            "question_set": name,
            "type": "normal",
            "language": None,
            "question": texts[query],
            "ground_truth": None,
            "answerable": True,
            "needs": "all",
            "gold": "documents",
            "time_from": None,
            "time_to": None,
            "asked_at": None,
            "conversation": [],
            "evidence": found,
        }
        for query, found in evidence.items()
    ]


def _graded(qrels: Path) -> dict[str, list[dict[str, Any]]]:
    """Return query -> its evidence, from rows (query, document, grade) or (query, 0, document, grade)."""
    evidence: dict[str, list[dict[str, Any]]] = {}
    for number, line in _lines(qrels):
        row = line.split("\t")
        grade = _grade(row[-1])
        if not line.strip() or (number == 1 and grade is None):
            continue  # the header
        if len(row) not in {3, 4} or grade is None:
            raise InputError(f"{qrels}:{number}: expected query, document and grade, separated by tabs")
        query, document = row[0], row[-2]
        if grade > 0:
            evidence.setdefault(query, []).append({"url": f"beir:{document}", "grade": grade})
    return evidence


def _grade(text: str) -> int | None:
    """Return a whole number; None where it is none, or longer than any grade."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else None


def _queries(folder: Path) -> dict[str, str]:
    """Return query id -> text."""
    path = next((p for p in (folder / "queries.jsonl", folder / "queries.jsonl.gz") if p.is_file()), None)
    if path is None:
        raise InputError(f"{folder}: there is no queries.jsonl (nor queries.jsonl.gz): not a BEIR folder?")
    texts: dict[str, str] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            query, text = _query(line)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            expected = 'expected a JSON object with "_id" and "text"'
            raise InputError(f"{path}:{number}: {expected} ({type(error).__name__}: {error})") from error
        texts[query] = text
    return texts


def _query(line: str) -> tuple[str, str]:
    """Return the id and the text of a query, a line of JSON."""
    row = json.loads(line)
    if not isinstance(row["text"], str):
        raise TypeError(f"its text is of type {type(row['text']).__name__}")
    return str(row["_id"]), row["text"]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file, unpacked where its name ends in `.gz`, with their numbers from 1.

    A line feed alone ends a line: a JSON string may hold U+2028 and its like, which do not.

    Raises:
        InputError: it cannot be read to its end, or a line or their number is beyond all measure.
    """
    number = 0
    try:
        with _opened(path) as file:
            for number, line in bounded_lines(file, MAX_LINE, b"\r\n"):
                if line is None or number > MAX_LINES:
                    what = (
                        f"has more than {MAX_LINES:,} lines" if line else f"is longer than {MAX_LINE:,} bytes"
                    )
                    raise InputError(f"{path}:{number}: {'the file' if line else 'this line'} {what}")
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{number}: not UTF-8 text ({error})") from error
    except (OSError, EOFError, zlib.error) as error:
        message = "not a whole gzip file" if path.suffix == ".gz" else "cannot be read"
        raise InputError(f"{path}: {message} ({error})") from error


def _opened(path: Path) -> IO[bytes]:
    check_regular(path)
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def read_sets(sets: Iterable[tuple[Path, str | None, str]]) -> list[dict[str, Any]]:
    """Read several question sets that are asked together, each (path, BEIR split or None, name).

    Raises:
        InputError: all errors of all files; and a question id that two of the sets share, since results are
            kept by it.
    """
    rows: list[dict[str, Any]] = []
    findings: list[str] = []
    home: dict[str, Path] = {}
    for path, split, name in sets:
        try:
            found = read_beir(path, split, name) if split is not None else read_yaml(path)
        except InputError as error:
            findings += error.findings
            continue
        shared = [row["question_id"] for row in found if row["question_id"] in home]
        if shared:
            other = home[shared[0]]
            findings.append(
                f"{path}: the question id {shared[0]} stands in {other} too; give one of them another id"
            )
        home |= {row["question_id"]: path for row in found}
        rows += found
    if findings:
        raise InputError(*findings)
    return rows
