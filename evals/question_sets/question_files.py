"""Reads question sets that are written by hand: YAML files, typed, with a line for every mistake."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, model_validator

from rag_assay.evals.question_sets.no_answer_sentence import UNANSWERED
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.validation_errors import Finding, display_place, in_words, lines_of
from rag_assay.warehouse.yaml_positions import MAX_BYTES, MarkedYaml, escape_text, load

Parsed = TypeVar("Parsed", bound=Strict)
UNFILLED = "Replace this by "
"""How a question of the template of `assay init` begins: it is not used until a real question is written."""


class EvidenceQuote(Strict):
    """Where an answer is: a quote on a page, or in any document if no page is named.

    url: of the page; for files, the path within the source
    source: whose page it is, if several sources have the same URL
    quote: words of the page; default: the whole document is evidence
    grade: relevance, 1 to 10
    start, end: offsets of the quote in the text of the document; default: the nearest match
    """

    url: Annotated[str | None, Field(min_length=1)] = None
    source: Annotated[str, Field(min_length=1)] | None = None
    quote: Annotated[str, Field(min_length=3)] | None = None
    grade: Annotated[int, Field(ge=1, le=10)] = 1
    start: Annotated[int | None, Field(ge=0)] = None
    end: Annotated[int | None, Field(ge=1)] = None

    @model_validator(mode="after")
    def _can_be_looked_for(self) -> Self:
        if self.url is None and self.quote is None:
            raise ValueError("say where the answer stands: a `url`, a `quote`, or both")
        if (self.start is None) != (self.end is None):
            raise ValueError("`start` and `end` come together")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("`end` must be more than `start`")
        if self.start is not None and self.url is None:
            raise ValueError("`start` and `end` are of the text of a page; say its `url`")
        return self

    def item(self) -> dict[str, object]:
        return self.model_dump(exclude=set() if self.start is not None else {"start", "end"})


class PublicationWindow(Strict):
    """The publication window of the documents in question.

    from, to: first and last day, both included; default: open
    """

    from_: Annotated[date | None, Field(alias="from")] = None
    to: date | None = None


JUDGED_ALONE = "judged_alone"
"""By which key the context of validation says that answers are there already, which people have judged."""
Turn = Annotated[str, Field(min_length=1, max_length=20_000)]
EMPTY = "a question needs a letter, digit or symbol"
SHORT = 3
"""Fewer letters, digits and symbols than this are likely to be a part of a question."""
NAMED = 5  # questions in a sentence about all short ones
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that no reader sees


def _signs(text: str) -> list[str]:
    found = (unicodedata.category(sign) for sign in text if sign not in _BLANK)
    return [one for one in found if one[0] not in "MPZ" and one not in {"Cc", "Cf", "Cs"}]


def is_empty(question: str) -> bool:
    """Return whether a question holds no letter, digit or symbol, so that it cannot be asked."""
    return not _signs(question)


def _not_empty(question: str) -> str:
    if is_empty(question):
        raise ValueError(EMPTY)
    return question


def is_short(question: str) -> bool:
    """Return whether a question is so short that it may be cut off.

    A single letter of a script without capitals, such as Chinese, Thai or Arabic, can be a word.

    >>> is_short("q0"), is_short("Why?"), is_short("何?")
    (True, False, False)
    """
    signs = _signs(question)
    return len(signs) < SHORT and "Lo" not in signs


def short_questions(questions: Iterable[tuple[str, str]]) -> str | None:
    short = [f"{question!r} ({place})" for place, question in questions if is_short(question)]
    if not short:
        return None
    more = f" and {len(short) - NAMED} more" if len(short) > NAMED else ""
    what = "1 question has" if len(short) == 1 else f"{len(short)} questions have"
    return (
        f"{what} fewer than {SHORT} letters or digits, check for lost text: {', '.join(short[:NAMED])}{more}"
    )


class WrittenQuestion(Strict):
    """One question of a YAML file.

    id: results are kept by it: keep it when the words change
    type: a row of the report's breakdown; the evidence of `multi_hop` is in several documents
    language: default: that of the file
    question: needs a letter, digit or symbol
    ground_truth: the right answer, in a sentence; answer metrics need it
    answerable: `false`: no document answers it, so a refusal is correct
    evidence: where the answer is; retrieval metrics need it
    needs: `all` evidence, or `any` one piece of it
    time_frame: publication dates that count, for the metrics `…_in_time`
    asked_at: the day on which it is asked, which "last week" and a retriever of recent documents go by;
        default: that of the file
    conversation: turns before it, oldest first: question and answer in turn
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
    type: Literal["normal", "yes_no", "hypothetical", "complex", "multi_hop"] = "normal"
    language: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    question: Annotated[str, Field(min_length=1), AfterValidator(_not_empty)]
    ground_truth: str | None = None
    answerable: bool = True
    evidence: tuple[EvidenceQuote, ...] = ()
    needs: Literal["all", "any"] = "all"
    time_frame: PublicationWindow | None = None
    asked_at: date | None = None
    conversation: Annotated[tuple[Turn, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _has_what_it_says(self, info: ValidationInfo) -> Self:
        return self.founded(judged_alone=bool(info.context and info.context.get(JUDGED_ALONE)))

    def founded(self, *, judged_alone: bool = False) -> Self:
        if self.answerable and not self.evidence and not self.ground_truth and not judged_alone:
            raise ValueError(
                "an answerable question needs evidence or a ground_truth: nothing could be measured on it"
            )
        if not self.answerable and self.evidence:
            raise ValueError("a question with evidence is answerable; drop one of the two")
        return self


class QuestionFile(Strict):
    """A YAML file of questions.

    question_set: its name
    language: of the questions; chooses the words of refusals, stop words and prompts
    asked_at: the day on which the questions are asked
    questions: one or more
    """

    question_set: str
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] = "en"
    asked_at: date | None = None
    questions: Annotated[tuple[WrittenQuestion, ...], Field(min_length=1)]


def parse_yaml(path: Path, kind: type[Parsed], no_mapping: Mistake) -> tuple[MarkedYaml, Parsed]:
    marked = load(path)
    if not isinstance(marked.data, dict):
        raise InputError(no_mapping)
    try:
        return marked, kind.model_validate(marked.data)
    except ValidationError as error:
        raise InputError(*lines_of(marked, in_words(error, kind))) from error


def read_yaml(path: Path) -> list[dict[str, Any]]:
    text = "a question file is a mapping with the keys question_set, language and questions"
    marked, parsed = parse_yaml(path, QuestionFile, Mistake("no_question_file", path, 1, text))
    written = _written(parsed, marked)
    if doubled := doubled_ids(parsed.questions):
        raise InputError(*lines_of(marked, doubled))
    return rows_of(parsed, written)


def rows_of(parsed: QuestionFile, questions: Iterable[WrittenQuestion]) -> list[dict[str, Any]]:
    asked_at = parsed.asked_at.isoformat() if parsed.asked_at else None
    return [row_of(question, parsed.question_set, parsed.language, asked_at) for question in questions]


def _written(parsed: QuestionFile, marked: MarkedYaml) -> list[WrittenQuestion]:
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


def doubled_ids(questions: Sequence[WrittenQuestion]) -> list[Finding]:
    first: dict[str, int] = {}
    return [
        Finding(("questions", number, "id"), "doubled_id", f"a second question with the id {one.id}")
        for number, one in enumerate(questions)
        if first.setdefault(one.id, number) != number
    ]


def row_of(
    question: WrittenQuestion, question_set: str, language: str | None, asked_at: str | None
) -> dict[str, Any]:
    """Return a row of `schemas.QUESTIONS` with unresolved evidence; language and day default to the set's."""
    frame = question.time_frame
    language = question.language or language
    truth = question.ground_truth or (None if question.answerable else UNANSWERED.get(language or "en"))
    return {
        "question_id": question.id,
        "question_set": question_set,
        "type": question.type,
        "language": language,
        "question": question.question,
        "ground_truth": truth,
        "answerable": question.answerable,
        "needs": question.needs,
        "gold": _gold(question),
        "time_from": frame.from_.isoformat() if frame and frame.from_ else None,
        "time_to": frame.to.isoformat() if frame and frame.to else None,
        "asked_at": question.asked_at.isoformat() if question.asked_at else asked_at,
        "conversation": list(question.conversation),
        "evidence": [evidence.item() for evidence in question.evidence],
    }


def _gold(question: WrittenQuestion) -> str:
    if any(evidence.quote or evidence.start is not None for evidence in question.evidence):
        return "spans"
    return "documents" if question.evidence else "none"


_DEFAULTS: dict[str, Any] = {"type": "normal", "answerable": True, "needs": "all"}
_UNPLAIN = r"[^\t -\x7e\u00a0-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff\uf900-\ufdcf\ufdf0-\ufdff]"
"""What an editor may show as nothing, or YAML reads as the end of a line: written as an escape."""


def write_yaml(rows: Sequence[Mapping[str, Any]], path: Path, heading: str = "") -> Path:
    """Write a question file, whole or not at all; heading: comment without `#`"""
    save_yaml(as_yaml(rows, heading), path, "write fewer")
    return path


def save_yaml(text: str, path: Path, advice: str) -> None:
    if len(text.encode()) > MAX_BYTES:
        raise InputError(f"{path}: the file would be larger than {MAX_BYTES // 1_000_000} MB; {advice}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8", newline="\n")


def as_yaml(rows: Sequence[Mapping[str, Any]], heading: str = "") -> str:
    sets = {row["question_set"] for row in rows}
    if len(sets) != 1:
        raise InputError(f"a question file holds one set of questions; these are of {len(sets)}")
    language = next((row["language"] for row in rows if row.get("language")), "en")
    data = {
        "question_set": sets.pop(),
        "language": language,
        "questions": [dict(_question(row, language)) for row in rows],
    }
    _check(data)
    return yaml_text(data, heading)


def yaml_text(data: Mapping[str, Any], heading: str = "") -> str:
    """Return YAML that `warehouse.yaml_positions` reads back the same; heading: comment without `#`"""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    return comment + yaml.dump(
        _escaped(dict(data)),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=False,
    )


def _check(data: dict[str, Any]) -> None:
    try:
        QuestionFile.model_validate(data)
    except ValidationError as error:
        found = in_words(error, QuestionFile)
        raise InputError(*(f"{display_place(one.place)}: {one.text}" for one in found)) from error
    ids = [question["id"] for question in data["questions"]]
    doubled = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    if doubled:
        raise InputError(*(f"two questions have the id {name}" for name in doubled))


def _question(row: Mapping[str, Any], language: str) -> Iterator[tuple[str, Any]]:
    yield "id", row["question_id"]
    if row.get("language") not in (None, language):
        yield "language", row["language"]
    yield "question", row["question"]
    truth = row.get("ground_truth")
    is_refusal = row.get("answerable") is False and truth == UNANSWERED.get(row.get("language") or language)
    if truth is not None and not is_refusal:
        yield "ground_truth", truth
    for name, default in _DEFAULTS.items():
        if row.get(name, default) != default:
            yield name, row[name]
    frame = {key: row[name] for key, name in (("from", "time_from"), ("to", "time_to")) if row.get(name)}
    if frame:
        yield "time_frame", frame
    if row.get("asked_at"):
        yield "asked_at", row["asked_at"]
    if row.get("conversation"):
        yield "conversation", list(row["conversation"])
    if row.get("evidence"):
        yield "evidence", [_evidence(item) for item in row["evidence"]]


def _evidence(item: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("url", "source", "quote") if "similarity" in item else ("url", "source", "quote", "start", "end")
    found = {key: item[key] for key in keys if item.get(key) is not None}
    return found | ({"grade": item["grade"]} if item.get("grade", 1) != 1 else {})


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return escape_text(value) if isinstance(value, str) else value


class _Dumper(yaml.CSafeDumper):
    """Writes every list and mapping in full, never a reference to one that was written before."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if re.search(_UNPLAIN, text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
