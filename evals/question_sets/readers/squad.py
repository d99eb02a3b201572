"""SQuAD, versions 1 and 2: questions on paragraphs, answers by offset (Rajpurkar 2018, arXiv:1806.03822)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from rag_assay.evals.question_sets.question_files import WrittenQuestion, row_of
from rag_assay.evals.question_sets.readers.contract import MAX_ROWS, Row, SetFile
from rag_assay.evals.question_sets.readers.records import MOST_TOLD, stable_id
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.validation_errors import in_words


class _Asked(NamedTuple):
    """A question of a SQuAD file, its paragraph, and its place in the file."""

    place: str
    question: Mapping[str, Any]
    context: str


def read_squad(data: Any, file: SetFile) -> list[Row]:
    """Read a parsed SQuAD file: any one answer suffices, and the first is the ground truth."""
    rows: dict[str, Row] = {}
    findings: list[str] = []
    for asked in _questions(data):
        if isinstance(asked, str):
            findings.append(f"{file.path}: {asked}")
        else:
            try:
                row = _row(asked, file, rows)
                rows[row["question_id"]] = row
            except ValueError as error:
                findings.append(f"{file.path}: {asked.place}: {error}")
        if len(findings) > MOST_TOLD:
            findings.append(f"{file.path}: and more; fix these first")
            break
        if len(rows) > MAX_ROWS:
            raise InputError(f"{file.path}: more than {MAX_ROWS:,} questions; split it into several files")
    if findings:
        raise InputError(*findings)
    if not rows:
        raise InputError(f"{file.path}: there is no question in it")
    return list(rows.values())


def _questions(data: Any) -> Iterator[_Asked | str]:
    for place, article in _items(data, "data", ""):
        if article is None:
            yield place
            continue
        for where, paragraph in _items(article, "paragraphs", place):
            context = paragraph.get("context") if paragraph else None
            if paragraph is None or not isinstance(context, str):
                yield f"{where}: `context` is missing, or no text" if paragraph is not None else where
                continue
            for at, question in _items(paragraph, "qas", where):
                yield at if question is None else _Asked(at, question, context)


def _items(holder: Any, key: str, place: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    values = holder.get(key) if isinstance(holder, dict) else None
    before = f"{place}." if place else ""
    if not isinstance(values, list):
        yield f"{before}{key}: expected a list, as SQuAD has it", None
        return
    for number, value in enumerate(values):
        where = f"{before}{key}[{number}]"
        is_good = isinstance(value, dict)
        yield where if is_good else f"{where}: expected an object", value if is_good else None


def _row(asked: _Asked, file: SetFile, others: Mapping[str, Row]) -> Row:
    question = asked.question
    is_impossible = question.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise ValueError("`is_impossible` must be true or false")  # noqa: TRY004 -- wrong input, as others
    answers = [] if is_impossible else _answers(question.get("answers"), asked.context)
    try:
        name = stable_id(question.get("id"), f"{asked.context}\n{question.get('question')}", [])
    except ValueError as error:
        raise ValueError(f"id: {error}") from error
    truth = answers[0]["quote"] if answers else None
    said = {"id": name, "question": question.get("question"), "ground_truth": truth}
    said |= {"answerable": not is_impossible, "needs": "any" if len(answers) > 1 else "all"}
    try:
        written = WrittenQuestion.model_validate(said)
    except ValidationError as error:
        raise ValueError("; ".join(one.text for one in in_words(error, WrittenQuestion))) from error
    if written.id in others:
        raise ValueError(f"a second question with the id {written.id}")
    row = row_of(written, file.name, file.language, file.asked_at)
    return {**row, "gold": "spans" if answers else "none", "evidence": answers}


def _answers(answers: Any, context: str) -> list[Row]:
    if not isinstance(answers, list) or not answers:
        raise ValueError("an answerable question needs `answers`")
    found: list[Row] = []
    for answer in answers:
        text = answer.get("text") if isinstance(answer, dict) else None
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not text.strip() or type(start) is not int:
            raise ValueError("an answer needs a `text` and the number `answer_start`")
        if not 0 <= start <= len(context) - len(text):
            raise ValueError(f"the answer at {start} ends beyond its context of {len(context)} characters")
        span = _span(text, start, context)
        item = {"url": None, "context": context, "quote": text, "grade": 1, "start": span[0], "end": span[1]}
        if item not in found:
            found.append(item)
    return found


def _span(text: str, start: int, context: str) -> tuple[int, int]:
    """Return where an answer stands; where its offset is wrong, the place that is nearest to it."""
    if context[start : start + len(text)] == text:
        return start, start + len(text)
    from rag_assay.evals.question_sets.alignment import places_of

    nearest = min(places_of(context, text), key=lambda span: abs(span[0] - start), default=None)
    if nearest is None:
        there = context[start : start + len(text)]
        raise ValueError(f"the answer {text[:60]!r} is not in its context; at {start} stands {there[:60]!r}")
    return nearest
