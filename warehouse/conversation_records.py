"""What is kept of a conversation with a corpus: lines of its file, each of one kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rag_assay.warehouse.status import Status

Name = Annotated[str, Field(min_length=1, max_length=200)]
Side = Literal["a", "b"]
ASKED = "-asked"
"""What tells the id of a question from that of its turn."""


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


class ConversationRecord(BaseModel):
    """A line; what it does not know of a later version is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    record_id: Name
    at: AwareDatetime = Field(default_factory=now)


class Begun(ConversationRecord):
    """A conversation begins.

    person: who asks, as they called themselves; empty: nobody said
    place: chat | terminal | demo; demo: made to show the pages, never asked by anybody
    title: of the list of conversations; a later line of this kind renames it
    """

    kind: Literal["begun"] = "begun"
    person: Annotated[str, Field(max_length=200)] = ""
    place: Literal["chat", "terminal", "demo"] = "chat"
    title: Annotated[str, Field(max_length=500)] = ""


class AnswerSlot(BaseModel):
    """Who is to answer a question: a cell, by a turn that has this id once it is there."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    turn: Name
    cell: str
    side: Side | None = None


class QuestionAsked(ConversationRecord):
    """A question was put, and is being answered; what ends before it is answered has lost no question.

    places: the cell that it was put to, or two side by side; none: they are not known or not open yet, and
        another line follows, which has them
    process: names who answers it (`warehouse.processes`)
    again: `record_id` of the line without places that this one takes the place of
    """

    kind: Literal["asked"] = "asked"
    again: str | None = None
    question: str
    language: str | None = None
    asked_at: str | None = None
    places: tuple[AnswerSlot, ...] = ()
    process: str = ""

    @property
    def turn(self) -> str:
        """Id of the turn of a question that was put to no cell.

        >>> QuestionAsked(record_id="x-asked", question="Who?").turn
        'x'
        """
        return (self.again or self.record_id).removesuffix(ASKED)


class StoredInterpretation(BaseModel):
    """What was understood of a question beside its words.

    kind: follow_up | time_frame | entities | …: the query transform that understood it
    type: what that calls it: standalone, window, date, club, …
    text: as the question says it
    status: used | unused (it limits nothing) | relaxed (nothing was left with it) | removed
    value: what it was taken for: a question that stands alone, `2021-01-01/2021-12-31` (either end may be
        open), a keyword of the corpus
    removed: the person took it away, and the question was asked without it
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Name
    type: str = ""
    text: str = ""
    value: str = ""
    status: str = "used"
    removed: bool = False

    @property
    def removal(self) -> str:
        """What is said to ask without it, as of `assay ask --without`.

        Of a follow-up it is whatever it is rewritten to: later it goes on from more than it did.

        >>> StoredInterpretation(kind="entities", type="club", text="Rot", value="Rot-Weiß").removal
        'entities:club:Rot-Weiß'
        """
        parts = (self.kind,) if self.kind == "follow_up" else (self.kind, self.type, self.value)
        return ":".join(one for one in parts if one)


class ShownPassage(BaseModel):
    """A passage that an answer was given from.

    number: by which the answer's markers name it
    start, end: characters of the document's text
    evidence: (start, end) in the passage's own text of what the answer rests on, in order and apart
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    chunk_id: str
    doc_id: str
    text: str
    title: str | None = None
    url: str | None = None
    date: str | None = None
    section: tuple[str, ...] = ()
    page: int | None = None
    start: int = 0
    end: int = 0
    score: float = 0.0
    cited: bool = False
    evidence: tuple[tuple[int, int], ...] = ()


class Turn(ConversationRecord):
    """A question and what a cell answered.

    number: of the question in its conversation, from 1; two cells side by side answer the same number
    cell: key of the cell; empty: the question was put to none
    side: which of two cells side by side; None: it was asked alone
    language: two-letter code of the question's language; None: not known
    asked_at: ISO 8601 day or time that words such as "yesterday" are read by
    question_id: of the study's question that it is, word for word; None: it is none of them
    status, reason, answer, model, confidence, …: as `evals.generation.contract.Answer` has them
    declined: what said that the documents do not say (`evals.pipeline.pipeline`)
    partial: what had come of an answer that broke off, failed or was stopped; it is no answer
    turns_left_out: of what was said before, which the model was not given for want of room
    search_seconds, answer_seconds: of understanding and searching, and of generating; NULL where it failed
    seconds: from the question to the answer, as the person waited
    """

    kind: Literal["turn"] = "turn"
    number: int
    cell: str
    question: str
    side: Side | None = None
    language: str | None = None
    asked_at: str | None = None
    question_id: str | None = None
    understood: tuple[StoredInterpretation, ...] = ()
    status: Status
    reason: str | None = None
    answer: str | None = None
    declined: Literal["no_passages", "gate", "min_score", "model"] | None = None
    partial: str | None = None
    model: str | None = None
    confidence: float | None = None
    passages: tuple[ShownPassage, ...] = ()
    turns_left_out: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    cached: bool | None = None
    search_seconds: float | None = None
    answer_seconds: float | None = None
    seconds: float | None = None


class AnswerFeedback(ConversationRecord):
    """What a person thinks of an answer; a later one of the same turn takes its place.

    turn: `record_id` of the turn
    thumbs: 1 up, -1 down, 0: taken back
    """

    kind: Literal["feedback"] = "feedback"
    turn: Name
    thumbs: Literal[-1, 0, 1]
    comment: Annotated[str, Field(max_length=10_000)] = ""


class Vote(ConversationRecord):
    """Which of two cells side by side answered better, by a person who did not know which is which.

    A later one of the same question takes its place.

    number: of the question in its conversation
    a, b: `record_id` of the turns
    """

    kind: Literal["vote"] = "vote"
    number: int
    a: Name
    b: Name
    preferred: Literal["a", "b", "tie"]


AnyRecord = Begun | QuestionAsked | Turn | AnswerFeedback | Vote
_LINE: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="kind")])


def line_of(record: object) -> AnyRecord | None:
    """Return what a line of JSON says; None where it is none of these.

    >>> line_of({"kind": "feedback", "record_id": "f", "turn": "t", "thumbs": 1}).thumbs
    1
    >>> line_of({"kind": "feedback", "record_id": "f", "turn": "t", "thumbs": 7})
    """
    try:
        return _LINE.validate_python(record)
    except ValidationError:
        return None
