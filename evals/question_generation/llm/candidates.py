"""What a question is made from and becomes: pieces of documents, tasks, drafts, and why one is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, get_args

from rag_assay.warehouse.inference.quoting import Frames

Kind = Literal["normal", "yes_no", "hypothetical", "complex", "multi_hop", "unanswerable", "follow_up"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Reason(StrEnum):
    """Why a question is dropped. The first ones are about the reply, the next about its words, the last are
    verdicts of the model.
    """

    TRUNCATED = "truncated"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    REFUSED = "refused"
    CALL_FAILED = "call_failed"
    NO_PARTNER = "no_partner"
    NO_QUESTION = "no_question"
    NO_ANSWER = "no_answer"
    QUOTE_NOT_FOUND = "quote_not_found"
    QUOTE_TOO_SHORT = "quote_too_short"
    NAMES_THE_PASSAGE = "names_the_passage"
    LEAKS_TITLE = "leaks_title"
    ANSWER_IN_QUESTION = "answer_in_question"
    WRONG_LANGUAGE = "wrong_language"
    WRONG_TYPE = "wrong_type"
    OFF_TOPIC = "off_topic"
    NEAR_DUPLICATE = "near_duplicate"
    NOT_SUPPORTED = "not_supported"
    KNOWN_WITHOUT_DOCUMENT = "known_without_document"
    ONE_DOCUMENT_SUFFICES = "one_document_suffices"
    ANSWERED_BY_CORPUS = "answered_by_corpus"
    STANDS_ALONE = "stands_alone"


class Document(NamedTuple):
    """A document that questions are made about; `text` is what evidence must stand in.

    language: two-letter code; None: not known
    """

    doc_id: str
    source: str
    url: str
    title: str | None
    language: str | None
    text: str


class DocumentPiece(NamedTuple):
    """A chunk of a document, `document.text[start:end]`."""

    document: Document
    start: int
    end: int

    @property
    def text(self) -> str:
        """Its words."""
        return self.document.text[self.start : self.end]


class GenerationTask(NamedTuple):
    """One question to be made.

    number: its place in the plan, from 0
    pieces: what it is made from; two, of two documents, for `multi_hop`, one where no second was found
    wanted: the answer that a `yes_no` question shall have, so that not all of them are answered by yes
    """

    number: int
    kind: Kind
    pieces: tuple[DocumentPiece, ...]
    wanted: Literal["yes", "no"] | None = None


@dataclass(frozen=True)
class QuestionDraft:
    """A question as the model wrote it.

    answer: None for an unanswerable one
    quotes: the words of each piece's document that answer it; once they were found, as they stand there
    conversation: question and answer by turns, oldest first; of a follow-up
    """

    question: str
    answer: str | None = None
    quotes: tuple[str, ...] = ()
    conversation: tuple[str, ...] = ()
    standalone: str | None = None

    @property
    def whole(self) -> str:
        """The question in words that can be understood alone."""
        return self.standalone or self.question


@dataclass(frozen=True)
class RejectedQuestion:
    """Why a question is dropped.

    detail: what was found, in words: the phrase, the other question, the model's reason
    """

    reason: Reason
    detail: str


@dataclass(frozen=True)
class TaskOutcome:
    """What came of a task.

    draft: None where the model's reply holds none
    dropped: None for a question that is kept
    """

    task: GenerationTask
    draft: QuestionDraft | None = None
    dropped: RejectedQuestion | None = None


TAGS = ("passage", "title", "quote", "question", "answer", "conversation")
framed = Frames(*TAGS).framed
