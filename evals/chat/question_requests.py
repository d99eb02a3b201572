"""A question as a person or a program puts it to a cell, and the errors of one that cannot be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_urlsafe

from rag_assay.warehouse.conversations import ASKED, Conversations, QuestionAsked
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.streaming import PartialAnswer
from rag_assay.warehouse.processes import this_process

LONGEST = 8_000  # characters of a question
Hear = Callable[[PartialAnswer], None]
"""Is given an answer's text so far, repeatedly, while a model writes it (`drafts_to`)."""


class QuestionError(InputError):
    """A question that cannot be asked; nothing is kept of it.

    field: of `QuestionRequest`, the one that is wrong
    """

    def __init__(self, message: str, field: str = "question") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class QuestionRequest:
    """A question, and how it is meant.

    language: two-letter code of the question's language; None: it is detected
    asked_at: ISO 8601 day or time for words such as "yesterday"; None: the day on which the study asks this
        question; else today where a person asks, and not known where a program does
    without: what is not to be understood of it, each as of `assay ask --without`: `time_frame`,
        `entities:club:SV Kohlenbach 07`; of a turn `StoredInterpretation.removal`
    conversation: the turns before it, question and answer, oldest first
    """

    question: str
    language: str | None = None
    asked_at: str | None = None
    without: frozenset[str] = frozenset()
    conversation: tuple[str, ...] = ()


def check_question(asking: QuestionRequest, longest: int = LONGEST) -> QuestionRequest:
    """Return a question as it is asked and kept.

    longest: characters that it may have

    >>> check_question(QuestionRequest("  When does it sail? ", "EN")).language
    'en'

    Raises:
        QuestionError: it is empty or too long, or its day or language is none.
    """
    question = encodable(asking.question).replace("\x00", "").strip()
    if not question:
        raise QuestionError("the question is empty; write what you want to know")
    if len(question) > longest:
        raise QuestionError(
            f"the question has {len(question):,} characters, more than {longest:,}; ask for what you want to "
            "know of the text, without the text"
        )
    from rag_assay.evals.retrieval.query import Removal  # heavy: pages are shown before

    language, day = asking.language, asking.asked_at
    if language is not None and not (len(language) == 2 and language.isascii() and language.isalpha()):
        raise QuestionError(
            f"{language[:40]!r} is not a two-letter code of a language, as in `de`", "language"
        )
    if day is not None:
        try:
            at = datetime.fromisoformat(day[:40])
        except ValueError:
            raise QuestionError(
                f"{day[:40]!r} is not a date; write it as in 2026-03-31", "asked_at"
            ) from None
        day = at.isoformat() if len(day) > 10 else at.date().isoformat()
    for one in asking.without:
        try:
            Removal.read(one)
        except ValueError as error:
            raise QuestionError(str(error), "without") from None
    return replace(asking, question=question, language=language.lower() if language else None, asked_at=day)


def record_question(
    chats: Conversations, study: str, conversation: str, asking: QuestionRequest
) -> QuestionAsked:
    """Keep a question that this process is to answer; it is put to no cell yet.

    Raises:
        QuestionError: it cannot be asked; nothing is kept.
        ConversationNotFoundError: the conversation is not there (any more).
    """
    asking = check_question(asking)
    line = QuestionAsked(
        record_id=f"{token_urlsafe(12)}{ASKED}",  # the turn has an id of its own
        question=asking.question,
        language=asking.language,
        asked_at=asking.asked_at,
        process=this_process(chats.home),
    )
    chats.append(study, conversation, [line])
    return line
