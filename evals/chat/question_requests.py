"""A question as a person puts it to a cell, and what makes it none."""

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

LONGEST = 8_000  # characters of a question, as `assay serve` takes them
Hear = Callable[[PartialAnswer], None]
"""Is given an answer's text so far, repeatedly, while a model writes it (`drafts_to`)."""


class QuestionError(InputError):
    """A question that cannot be asked; nothing is kept of it."""


@dataclass(frozen=True)
class QuestionRequest:
    """A question, and how it is meant.

    language: two-letter code of the question's language; None: it is told from its words
    asked_at: ISO 8601 day or time for words such as "yesterday"; None: today, or the day on which the study
        asks this question
    without: what is not to be understood of it, each as of `assay ask --without`: `time_frame`,
        `entities:club:SV Kohlenbach 07`; of a turn `Understood.removal`
    """

    question: str
    language: str | None = None
    asked_at: str | None = None
    without: frozenset[str] = frozenset()


def check_question(asking: QuestionRequest) -> QuestionRequest:
    """Return a question as it is asked and kept.

    >>> check_question(QuestionRequest("  When does it sail? ", "EN")).language
    'en'

    Raises:
        QuestionError: it is empty or too long, or its day or language is none.
    """
    question = encodable(asking.question).replace("\x00", "").strip()
    if not question:
        raise QuestionError("the question is empty; write what you want to know")
    if len(question) > LONGEST:
        raise QuestionError(
            f"the question has {len(question):,} characters, more than {LONGEST:,}; ask for what you want to "
            "know of the text, without the text"
        )
    from rag_assay.evals.retrieval.query import Removal  # heavy: pages are shown before

    language, day = asking.language, asking.asked_at
    if language is not None and not (len(language) == 2 and language.isascii() and language.isalpha()):
        raise QuestionError(f"{language[:40]!r} is no two-letter code of a language, as in `de`")
    if day is not None:
        try:
            day = datetime.fromisoformat(day[:40]).isoformat() if len(day) > 10 else _day(day)
        except ValueError:
            raise QuestionError(f"{day[:40]!r} is no date; write it as in 2026-03-31") from None
    for one in asking.without:
        try:
            Removal.read(one)
        except ValueError as error:
            raise QuestionError(str(error)) from None
    return replace(asking, question=question, language=language.lower() if language else None, asked_at=day)


def question_line(asking: QuestionRequest, chats: Conversations) -> QuestionAsked:
    """Return the line of a question that this process is to answer; it is put to no cell yet."""
    return QuestionAsked(
        record_id=f"{token_urlsafe(12)}{ASKED}",  # the turn has an id of its own
        question=asking.question,
        language=asking.language,
        asked_at=asking.asked_at,
        process=this_process(chats.home),
    )


def record_question(
    chats: Conversations, study: str, conversation: str, asking: QuestionRequest
) -> QuestionAsked:
    """Keep a question whose cells are not open yet; it is on disk when this returns.

    Raises:
        QuestionError: it cannot be asked; nothing is kept.
        GoneError: the conversation is not there (any more).
    """
    line = question_line(check_question(asking), chats)
    chats.append(study, conversation, [line])
    return line


def _day(text: str) -> str:
    return datetime.fromisoformat(text).date().isoformat()
