"""The review file: questions that were made, for a reviewer to accept, edit or drop, and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, ValidationInfo, model_validator

from rag_assay.evals.question_sets.alignment import find_quote
from rag_assay.evals.question_sets.question_files import (
    QuestionFile,
    WrittenQuestion,
    doubled_ids,
    parse_yaml,
    rows_of,
    save_yaml,
    yaml_text,
)
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.validation_errors import Finding, lines_of
from rag_assay.warehouse.yaml_positions import MarkedYaml

HEADING = """\
Questions that a model made, to be read by a person. Give each one its `review`:
  accept  it is good as it is
  mend    you have changed it here (question, ground_truth, evidence …)
  drop    it is of no use; say why in `reason`, if you like
  open    not looked at yet
Then: assay questions review {file}
The quotes of what you take are looked for in the documents again. `passages` is what it was made from.
Those with a `fault` were dropped by a rule or by the model; to take one after all, say accept or mend."""


_KEYS = (
    *("fault", "reason", "made_as", "type", "language", "conversation", "question", "ground_truth"),
    *("asked", "answerable", "evidence", "needs", "time_frame", "asked_at", "passages"),
)


class ReviewPassage(Strict):
    """What a question was made from, for its reviewer."""

    url: str
    text: str


class AskedInChat(Strict):
    """How a question was asked in conversations.

    times: in all its wordings
    up, down: thumbs on the answers
    declined: times that every cell said that the documents do not say
    also_as: other wordings
    comments: on the answers
    """

    times: Annotated[int, Field(ge=1)]
    up: int = 0
    down: int = 0
    declined: int = 0
    also_as: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()


class ReviewedQuestion(WrittenQuestion):
    """A question, and what a person says of it; one that counts has evidence, or says that it has none.

    reason: why it is dropped, or what was edited; for reviewers only
    made_as: the type that the model was asked for
    fault: the rule or verdict by which it was dropped when it was made
    passages: what it was made from, or answered from
    asked: how people asked it; None: they did not
    """

    review: Literal["open", "accept", "mend", "drop"] = "open"
    reason: str | None = None
    made_as: str | None = None
    fault: str | None = None
    passages: tuple[ReviewPassage, ...] = ()
    asked: AskedInChat | None = None

    @model_validator(mode="after")
    def _has_what_it_says(self, _info: ValidationInfo) -> Self:
        return self if self.review in {"open", "drop"} else self.founded()

    @property
    def is_decided(self) -> bool:
        return self.review in {"accept", "mend"} or (self.review == "drop" and self.fault is None)

    def written(self) -> WrittenQuestion:
        return WrittenQuestion.model_validate(
            self.model_dump(include=set(WrittenQuestion.model_fields), by_alias=True)
        )


class NoQuestion(Strict):
    """What the model gave where a question was wanted, and none could be read."""

    made_as: str
    fault: str
    reason: str
    url: str


class ReviewFile(Strict):
    """A question file with what was said of each question.

    study: name, or path seen from the file, of the study whose documents the questions were made from
    made_by: the model, the seed and the digest of the prompts
    faults: rule or verdict -> how many questions it has dropped
    without_question: replies that hold none
    """

    question_set: str
    language: Annotated[str, Field(pattern="^[a-z]{2}$")] = "en"
    study: str
    made_by: dict[str, JsonValue] = Field(default_factory=dict)
    questions: tuple[ReviewedQuestion, ...] = ()
    faults: dict[str, int] = Field(default_factory=dict)
    without_question: tuple[NoQuestion, ...] = ()


def write_review(path: Path, file: ReviewFile, heading: str = HEADING) -> None:
    written = file.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    head = {"question_set": file.question_set, "language": file.language, "study": file.study}
    data = head | written | {"questions": [_ordered(one) for one in file.questions]}
    save_yaml(yaml_text(data, heading.format(file=path.name)), path, "make fewer")


def _ordered(question: ReviewedQuestion) -> dict[str, Any]:
    written = question.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    first = {"id": question.id, "review": question.review}
    return first | {key: written[key] for key in _KEYS if key in written}


def with_earlier_reviews(new: ReviewFile, path: Path, *, keep_open: bool = False) -> ReviewFile:
    """Decided questions stay; open ones give way unless ``keep_open``."""
    marked, old = _parsed(path)
    if old.question_set != new.question_set:
        text = (
            f"this file is of the set {old.question_set}, not of {new.question_set}; write to another by -o"
        )
        raise InputError(Mistake("other_set", path, marked.line(("question_set",)), text))
    decided = {one.id: one for one in old.questions if keep_open or one.is_decided}
    made = {one.id: one for one in new.questions}
    gone = [one for name, one in decided.items() if name not in made]
    kept = [decided.get(name, one) for name, one in made.items()]
    return new.model_copy(update={"questions": (*gone, *kept)})


class Review(NamedTuple):
    """What a review file says: rows of `schemas.QUESTIONS` that count, and review -> questions."""

    file: ReviewFile
    rows: list[dict[str, Any]]
    counts: Counter[str]


def read_review(
    path: Path, texts_of: Callable[[str, str | None], Sequence[str]], *, accept_open: bool = False
) -> Review:
    """Read a review file back; every quote of a question that counts must stand in its document."""
    marked, parsed = _parsed(path)
    wanted = {"accept", "mend"} | ({"open"} if accept_open else set())
    chosen = [(number, one) for number, one in enumerate(parsed.questions) if one.review in wanted]
    findings = [
        *doubled_ids(parsed.questions),
        *_unfounded(chosen),
        *(f for number, one in chosen for f in _lost(number, one, texts_of)),
    ]
    if findings:
        raise InputError(*lines_of(marked, findings))
    counts: Counter[str] = Counter(one.review for one in parsed.questions)
    if not chosen:
        raise InputError(Mistake("nothing_accepted", path, marked.line(("questions",)), _nothing(counts)))
    questions = tuple(one.written() for _, one in chosen)
    file = QuestionFile(question_set=parsed.question_set, language=parsed.language, questions=questions)
    return Review(parsed, rows_of(file, questions), counts)


def _parsed(path: Path) -> tuple[MarkedYaml, ReviewFile]:
    text = "a review file is a mapping with the keys question_set, language, study and questions"
    return parse_yaml(path, ReviewFile, Mistake("no_review_file", path, 1, text))


def study_of_review(path: Path) -> str:
    return _parsed(path)[1].study


def _nothing(counts: Counter[str]) -> str:
    if not counts:
        return "there is no question in the file"
    if counts["open"]:
        return (
            f"none of {counts.total()} questions is accepted or edited, {counts['open']} are open; write "
            "`review: accept` where you agree, or take the open ones too by --accept-open"
        )
    return f"all of {counts.total()} questions are dropped"


def _unfounded(chosen: Sequence[tuple[int, ReviewedQuestion]]) -> list[Finding]:
    text = "an answerable question needs evidence or a ground_truth: nothing could be measured on it"
    return [
        Finding(("questions", number), "nothing_to_measure", text)
        for number, one in chosen
        if one.answerable and not one.evidence and not one.ground_truth
    ]


def _lost(
    number: int, question: ReviewedQuestion, texts_of: Callable[[str, str | None], Sequence[str]]
) -> list[Finding]:
    findings = []
    for at, item in enumerate(question.evidence):
        place = ("questions", number, "evidence", at)
        texts = texts_of(item.url, item.source) if item.url else ()
        if not texts:
            findings.append(Finding((*place, "url"), "no_document", f"no document has the URL {item.url}"))
        elif item.quote and not any(find_quote(text, item.quote) for text in texts):
            text = f"the document does not hold this quote ({item.url}); copy it letter by letter"
            findings.append(Finding((*place, "quote"), "lost_quote", text))
    return findings
