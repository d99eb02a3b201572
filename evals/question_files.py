"""Question sets as people write them: our YAML form and BEIR folders; typed, every error with its line."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from warehouse.errors import InputError
from warehouse.marked_yaml import load
from warehouse.recipe import Strict

UNANSWERED = {"en": "The documents do not say.", "de": "Die Dokumente sagen dazu nichts."}


class Evidence(Strict):
    """Where an answer stands: a quote on a page."""

    url: Annotated[str, Field(min_length=1)]
    quote: Annotated[str, Field(min_length=3)] | None = None
    grade: Annotated[int, Field(ge=1, le=10)] = 1


class TimeFrame(Strict):
    """The window in which what is asked for was published; both ends included."""

    from_: Annotated[date | None, Field(alias="from")] = None
    to: date | None = None


class WrittenQuestion(Strict):
    """One question of a YAML file."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
    type: Literal["normal", "yes_no", "hypothetical", "complex"] = "normal"
    question: Annotated[str, Field(min_length=3)]
    ground_truth: str | None = None
    answerable: bool = True
    evidence: tuple[Evidence, ...] = ()
    needs: Literal["all", "any"] = "all"
    time_frame: TimeFrame | None = None

    @model_validator(mode="after")
    def _has_what_it_says(self) -> Self:
        if self.answerable and not self.evidence and not self.ground_truth:
            raise ValueError("an answerable question needs evidence or a ground_truth: nothing could be measured on it")
        if not self.answerable and self.evidence:
            raise ValueError("a question with evidence is answerable; drop one of the two")
        return self


class QuestionFile(Strict):
    """A YAML file of questions."""

    question_set: str
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] = "en"
    questions: Annotated[tuple[WrittenQuestion, ...], Field(min_length=1)]


def read_yaml(path: Path) -> list[dict[str, Any]]:
    """Read a question file; return rows of `schemas.QUESTIONS` whose evidence is not resolved yet.

    Raises:
        InputError: every error of the file, each with its line.
    """
    marked = load(path)
    try:
        parsed = QuestionFile.model_validate(marked.data)
    except ValidationError as error:
        findings = [
            f"{marked.at(detail['loc'])}: {'.'.join(str(part) for part in detail['loc'])}: "
            f"{detail['msg'].removeprefix('Value error, ')}"
            for detail in error.errors()
        ]
        raise InputError(*findings) from error
    seen: set[str] = set()
    for number, question in enumerate(parsed.questions):
        if question.id in seen:
            raise InputError(f"{marked.at(('questions', number, 'id'))}: the id {question.id} stands here a second time")
        seen.add(question.id)
    return [_row(parsed, question) for question in parsed.questions]


def _row(parsed: QuestionFile, question: WrittenQuestion) -> dict[str, Any]:
    frame = question.time_frame
    truth = question.ground_truth or (None if question.answerable else UNANSWERED.get(parsed.language))
    return {
        "question_id": question.id,
        "question_set": parsed.question_set,
        "type": question.type,
        "language": parsed.language,
        "question": question.question,
        "ground_truth": truth,
        "answerable": question.answerable,
        "needs": question.needs,
        "gold": "spans" if question.evidence else "none",
        "time_from": frame.from_.isoformat() if frame and frame.from_ else None,
        "time_to": frame.to.isoformat() if frame and frame.to else None,
        "evidence": [evidence.model_dump() for evidence in question.evidence],
    }


def read_beir(folder: Path, split: str, name: str) -> list[dict[str, Any]]:
    """Read the queries of a BEIR folder that a split grades; grades of 0 are no evidence.

    Raises:
        InputError: a file is missing or not in BEIR's form.
    """
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.is_file():
        there = ", ".join(sorted(p.stem for p in (folder / "qrels").glob("*.tsv"))) or "none"
        raise InputError(f"{qrels}: there is no such split; there are: {there}")
    texts = {str(row["_id"]): str(row["text"]) for row in _jsonl(folder, "queries")}
    evidence: dict[str, list[dict[str, Any]]] = {}
    with qrels.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file, delimiter="\t"), 1):
            if number == 1 and row and not row[-1].lstrip("-").isdigit():
                continue  # the header
            try:
                query, document, grade = row[0], row[-2], int(row[-1])
            except (IndexError, ValueError):
                raise InputError(f"{qrels}:{number}: expected query, document and grade, separated by tabs") from None
            if grade > 0:
                evidence.setdefault(query, []).append({"url": f"beir:{document}", "grade": grade})
    missing = [query for query in evidence if query not in texts]
    if missing:
        raise InputError(f"{qrels}: the query {missing[0]} is not in the folder's queries.jsonl")
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
            "evidence": found,
        }
        for query, found in evidence.items()
    ]


def _jsonl(folder: Path, stem: str) -> list[dict[str, Any]]:
    for path in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.gz"):
        if not path.is_file():
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows = []
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            if line.strip():
                try:
                    rows.append(json.loads(line))
                except ValueError as error:
                    raise InputError(f"{path}:{number}: not a JSON object ({error})") from error
        return rows
    raise InputError(f"{folder}: there is no {stem}.jsonl (nor {stem}.jsonl.gz): not a BEIR folder?")
