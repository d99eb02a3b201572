"""Conversations with a corpus: `<home>/chats/<study>/<conversation>.jsonl`, lines that are never changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, computed_field

from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.journal import append, read_lines
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.status import Status

Name = Annotated[str, Field(min_length=1, max_length=200)]
Side = Literal["a", "b"]
ASKED = "-asked"
"""What tells the id of a question from that of its turn."""


def now() -> datetime:
    return datetime.now(UTC)


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ConversationRecord(_Stored):
    """A line; what it does not know of a later version is passed over."""

    record_id: Name
    at: AwareDatetime = Field(default_factory=now)


class Begun(ConversationRecord):
    """A conversation begins. ``person``: who asks, by the name given; place demo: never asked by anybody."""

    kind: Literal["begun"] = "begun"
    person: Annotated[str, Field(max_length=200)] = ""
    place: Literal["chat", "terminal", "demo"] = "chat"
    title: Annotated[str, Field(max_length=500)] = ""


class AnswerSlot(_Stored):
    """Who is to answer a question: a cell, by a turn that has this id once it is there."""

    turn: Name
    cell: str
    side: Side | None = None


class QuestionAsked(ConversationRecord):
    """A question was put, and is being answered.

    places: the cell that it was put to, or two side by side; none: another line follows, which has them
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
        return (self.again or self.record_id).removesuffix(ASKED)


class StoredInterpretation(_Stored):
    """What was understood of a question beside its words.

    kind: the query transform that understood it: follow_up, time_frame, …; type: what that calls it
    status: used, unused (it limits nothing), relaxed (nothing was left with it) or removed
    value: a question that stands alone, `2021-01-01/2021-12-31` (either end may be open), a keyword
    """

    kind: Name
    type: str = ""
    text: str = ""
    value: str = ""
    status: str = "used"
    removed: bool = False
    removable: bool = True

    @computed_field  # type: ignore[prop-decorator]
    @property
    def removal(self) -> str:
        """The value of `assay ask --without` that removes it; of a follow-up, whatever it is rewritten to.

        >>> StoredInterpretation(kind="entities", type="club", text="Rot", value="Rot-Weiß").removal
        'entities:club:Rot-Weiß'
        """
        parts = (self.kind,) if self.kind == "follow_up" else (self.kind, self.type, self.value)
        return ":".join(one for one in parts if one)


class ShownPassage(_Stored):
    """A passage that an answer was given from.

    number: of the answer's markers; page: of a PDF; score: on the retriever's own scale
    start, end: characters of the document's text
    evidence: (start, end) in `text` of the spans that support the answer, in order, without overlap
    """

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


class StoredCitation(_Stored):
    """A passage that an answer names (`evals.generation.contract.Citation`)."""

    marker: int
    sentence: int | None = None
    chunk_id: str | None = None
    doc_id: str | None = None
    start: int | None = None
    end: int | None = None


class Turn(ConversationRecord):
    """A question and the answer of a cell.

    number: of the question in its conversation, from 1; two cells side by side answer the same number
    cell: its key; empty: the question was put to none; side: None: it was asked alone
    asked_at: ISO 8601 day or time that words such as "yesterday" are read by
    question_id: of the study's question that it is, word for word
    confidence: a feature of the retrieval scores
    declined: what refused: no_passages, gate, min_score (no sentence is similar enough) or model
    partial: text of an answer that failed or was stopped
    chunk_ids: chunks that the generator was given; those without room in the prompt are not in `passages`
    turns_left_out: turns of the conversation that did not fit into the prompt
    search_seconds, answer_seconds: None: it failed; seconds: as the person waited
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
    citations: tuple[StoredCitation, ...] = ()
    passages: tuple[ShownPassage, ...] = ()
    chunk_ids: tuple[str, ...] = ()
    turns_left_out: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    cached: bool | None = None
    search_seconds: float | None = None
    answer_seconds: float | None = None
    seconds: float | None = None


class AnswerFeedback(ConversationRecord):
    """What a person thinks of an answer (1 up, -1 down, 0: taken back); a later one takes its place."""

    kind: Literal["feedback"] = "feedback"
    turn: Name
    thumbs: Literal[-1, 0, 1]
    comment: Annotated[str, Field(max_length=10_000)] = ""


class Vote(ConversationRecord):
    """Which of two cells side by side answered better, by a person who did not know which is which; ``a``
    and ``b``: `record_id` of the turns.
    """

    kind: Literal["vote"] = "vote"
    number: int
    a: Name
    b: Name
    preferred: Literal["a", "b", "tie"]


AnyRecord = Begun | QuestionAsked | Turn | AnswerFeedback | Vote
_LINE: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="kind")])


def line_of(record: object) -> AnyRecord | None:
    """Return what a line of JSON says; None for anything else.

    >>> line_of({"kind": "feedback", "record_id": "f", "turn": "t", "thumbs": 1}).thumbs
    1
    >>> line_of({"kind": "feedback", "record_id": "f", "turn": "t", "thumbs": 7})
    """
    try:
        return _LINE.validate_python(record)
    except ValidationError:
        return None


_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


GONE = "this conversation is not there any more: it was deleted"


class ConversationNotFoundError(InputError):
    """There is no such conversation any more."""


class Stamp(NamedTuple):
    """What tells whether a file was written to since."""

    size: int
    changed_ns: int


class Unanswered(NamedTuple):
    """A question that a cell has not answered yet; ``number`` counts within its conversation."""

    number: int
    asked: QuestionAsked
    place: AnswerSlot


@dataclass(frozen=True)
class Conversation:
    """A conversation as its file has it: of feedback and votes the last, by id of the turn or number of the
    question.

    turns: in the order in which they were answered
    unanswered: being answered now or left by a process that has ended
    """

    study: str
    conversation_id: str
    begun: Begun
    turns: tuple[Turn, ...]
    feedback: dict[str, AnswerFeedback]
    unanswered: tuple[Unanswered, ...] = ()
    votes: dict[int, Vote] = field(default_factory=dict)

    @property
    def last_at(self) -> datetime:
        asked = (one.asked.at for one in self.unanswered)
        return max([self.begun.at, *(turn.at for turn in self.turns), *asked])

    @property
    def title(self) -> str:
        questions = [turn.question for turn in self.turns] + [one.asked.question for one in self.unanswered]
        return self.begun.title or next(iter(questions), "")


class _Questions:
    def __init__(self) -> None:
        self.open: dict[str, Unanswered] = {}
        self.last = 0
        self._noted: dict[str, int] = {}  # by id of the line: put to no cell yet -> its number

    def add(self, asked: QuestionAsked) -> None:
        number = self._noted.pop(asked.again or "", 0) or self.last + 1
        self.last = max(self.last, number)
        if asked.again:
            self.open.pop(asked.turn, None)
        if not asked.places:
            self._noted[asked.record_id] = number
        places = asked.places or (AnswerSlot(turn=asked.turn, cell=""),)
        self.open |= {place.turn: Unanswered(number, asked, place) for place in places}


class Conversations:
    """The conversations of a workspace; safe for several threads and processes at once."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.root = home.chats

    def path(self, study: str, conversation: str) -> Path:
        if not _STUDY.fullmatch(study):
            raise InputError(f"no study can be called {study[:80]!r}")
        if not _ID.fullmatch(conversation):
            raise InputError(f"no conversation can be called {conversation[:80]!r}")
        return self.root / study / f"{conversation}.jsonl"

    def begin(self, study: str, begun: Begun) -> str:
        conversation = token_urlsafe(12)
        self.append(study, conversation, [begun])
        return conversation

    def append(self, study: str, conversation: str, records: Iterable[AnyRecord]) -> int:
        """Add lines whose ids are not there yet, on disk; only `Begun` makes a file."""
        path, kept = self.path(study, conversation), list(records)
        if not any(isinstance(one, Begun) for one in kept) and not path.exists():
            raise ConversationNotFoundError(GONE)
        rows = [record.model_dump(mode="json") for record in kept]
        return append(path, rows, "record_id", lambda one: line_of(one) is not None)

    def read(self, study: str, conversation: str) -> Conversation | None:
        try:
            data = self.path(study, conversation).read_bytes()
        except FileNotFoundError:
            return None
        begun, turns, feedback = None, dict[str, Turn](), dict[str, AnswerFeedback]()
        questions, votes = _Questions(), dict[int, Vote]()
        for line in read_lines(data):
            match line_of(line.record):
                case Begun() as found:
                    kept: dict[str, Any] = {} if begun is None else {"at": begun.at, "place": begun.place}
                    begun = found.model_copy(update=kept)
                case QuestionAsked() as question:
                    questions.add(question)
                case Turn() as turn:
                    turns.setdefault(turn.record_id, turn)
                    questions.last = max(questions.last, turn.number)
                case AnswerFeedback() as said:
                    feedback[said.turn] = said
                case Vote() as vote:
                    votes[vote.number] = vote
        times = [*(turn.at for turn in turns.values()), *(one.asked.at for one in questions.open.values())]
        if begun is None and not times:
            return None
        begun = begun or Begun(record_id=conversation, at=min(times))
        open_ones = tuple(one for name, one in questions.open.items() if name not in turns)
        return Conversation(study, conversation, begun, tuple(turns.values()), feedback, open_ones, votes)

    def delete(self, study: str, conversation: str) -> bool:
        """Return whether it was there. Its rows leave DuckDB when that is filled the next time."""
        try:
            if mirror := mirror_of(self.home):
                mirror.remove(self.path(study, conversation))
            self.path(study, conversation).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise AssayError(
                f"the conversation {conversation} cannot be deleted ({error.strerror})"
            ) from error
        return True

    def stamp(self, study: str, conversation: str) -> Stamp | None:
        try:
            at = self.path(study, conversation).stat()
        except (FileNotFoundError, InputError):
            return None
        return Stamp(at.st_size, at.st_mtime_ns)

    def stamps(self) -> dict[tuple[str, str], Stamp]:
        names = ((path.parent.name, path.stem) for path in sorted(self.root.glob("*/*.jsonl")))
        return {name: stamp for name in names if (stamp := self.stamp(*name))}

    def of(self, study: str, persons: Sequence[str] | None = None) -> Iterator[Conversation]:
        found = [self.read(study, name) for of, name in self.stamps() if of == study]
        kept = [one for one in found if one and (persons is None or one.begun.person in persons)]
        yield from sorted(kept, key=lambda one: one.last_at, reverse=True)
