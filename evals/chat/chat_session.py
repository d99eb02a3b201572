"""A study's cell, opened for conversations: it answers as it was measured, and keeps what was said."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from rag_assay.evals.chat.question_requests import Hear, QuestionRequest, check_question, question_line
from rag_assay.evals.chat.turn_records import LONGEST_PARTIAL, Places, complete_turn
from rag_assay.evals.chat.votes import earlier
from rag_assay.evals.pipeline.pipeline import Pipeline
from rag_assay.evals.query_transforms.rules.courtesies import is_courtesy, reply_to_courtesy
from rag_assay.evals.retrieval.query import Removal
from rag_assay.evals.retrieval.question_words import language as language_of
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.cancellation import CancelledError, is_cancelled
from rag_assay.warehouse.conversations import (
    GONE,
    AnswerSlot,
    Conversation,
    ConversationNotFoundError,
    Conversations,
    QuestionAsked,
    Side,
    Turn,
)
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.streaming import PartialAnswer, on_token
from rag_assay.warehouse.processes import is_running
from rag_assay.warehouse.schemas import Status

Row = dict[str, Any]
ENDED = "the program ended before the answer was there; ask again"
NO_QUESTION = "it asks nothing: nothing was searched, and no model was asked"
STOPPED = "the answer was stopped before it was there"


class ChatSession:
    """One cell of a study, open for questions of any number of conversations.

    Use it as a context manager, or close it. Several talks of one work share indexes, models and servers.

    pipeline: as grid and server ask it; one that does not rewrite follow-ups does so by rules here
    chats: where conversations are kept
    knows: words -> the study's question that has them (a row of `schemas.QUESTIONS`), or None
    places: of the chunks in their documents, as far as they are known
    begin: is called before each question is answered
    """

    def __init__(
        self,
        pipeline: Pipeline,
        chats: Conversations,
        knows: Callable[[str], Row | None] = lambda _words: None,
        places: Places | None = None,
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        self.pipeline = pipeline
        self.chats = chats
        self.knows = knows
        self._places: Places = places or {}
        self._begin = begin

    @property
    def cell(self) -> Cell:
        return self.pipeline.cell

    @property
    def study(self) -> str:
        return self.cell.study

    def ask(self, conversation: str, asking: QuestionRequest, hear: Hear | None = None) -> Turn:
        """Answer a question of a conversation that was begun; its turn is kept when it returns.

        Whatever fails is a turn with its status and a sentence, and is kept, too.

        hear: is given drafts of the answer while a model writes it

        Raises:
            QuestionError: it cannot be asked: empty, too long; nothing is kept.
            GoneError: the conversation is not there (any more).
        """
        (question,) = put([self], conversation, asking)
        return question.keep(question.answered(hear))

    def row(self, turn: Turn, history: Sequence[str], asked_at: str | None) -> Row:
        """Return a question as the pipeline takes it: the study's own, where it is one of them.

        asked_at: as the person said; None: as the study asks its question, else today
        """
        known = self.knows(turn.question)
        if known is not None and list(known["conversation"] or ()) == list(history):
            return {**known, "asked_at": asked_at or known["asked_at"]}
        return {
            "question_id": "asked",
            "question": turn.question,
            "language": turn.language,
            "asked_at": asked_at or today(),
            "conversation": list(history),
            "evidence": [],
        }

    def answered(
        self, turn: Turn, asking: QuestionRequest, history: Sequence[str], hear: Hear | None
    ) -> Turn:
        """Return a turn with the cell's answer; what fails is its status and reason."""
        row = self.row(turn, history, asking.asked_at)
        own_id = None if row["question_id"] == "asked" else row["question_id"]
        said = {"language": row["language"], "asked_at": row["asked_at"], "question_id": own_id}
        turn = turn.model_copy(update=said)
        if own_id is None and is_courtesy(turn.question):
            reply = reply_to_courtesy(turn.question, turn.language)
            return turn.model_copy(update={"status": Status.OK, "reason": NO_QUESTION, "answer": reply})
        try:
            self._begin()
            with on_token(hear or _nobody):
                result = self.pipeline.ask_row(row, without=[Removal.read(one) for one in asking.without])
        except CancelledError:
            return failed_turn(turn, Status.NOT_RUN, STOPPED)
        except Exception as error:  # one question's failure is its turn
            return failed_turn(turn, Status.ERROR, one_line(f"{type(error).__name__}: {error}"))
        if is_cancelled():
            return failed_turn(turn, Status.NOT_RUN, STOPPED)
        return complete_turn(turn, result, self._places)

    def close(self) -> None:
        """Release the retriever's resources."""
        self.pipeline.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class OpenQuestion:
    """A question of a conversation that a cell is to answer; it is kept already, its answer is not."""

    talk: ChatSession
    conversation: str
    asking: QuestionRequest
    turn: Turn
    began: float

    def answered(self, hear: Hear | None = None) -> Turn:
        """Return its turn, which is not kept yet; what was said before it is read now."""
        there = self.talk.chats.read(self.talk.study, self.conversation)
        history = earlier(there.turns if there else (), self.turn.number, self.talk.cell.key)
        turn = self.turn
        if turn.language is None:
            turn = turn.model_copy(update={"language": language_of(turn.question)})
        turn = self.talk.answered(turn, self.asking, history, hear)
        return turn.model_copy(update={"at": _now(), "seconds": time.monotonic() - self.began})

    def failed(self, status: Status, reason: str, partial: str = "") -> Turn:
        """Return a turn without an answer, which is not kept yet."""
        seconds = time.monotonic() - self.began
        known = {"at": _now(), "seconds": seconds, "partial": partial[:LONGEST_PARTIAL] or None}
        return failed_turn(self.turn, status, reason).model_copy(update=known)

    def keep(self, turn: Turn) -> Turn:
        """Store the turn unless one is stored already, and return the stored one.

        Raises:
            ConversationNotFoundError: the conversation was deleted meanwhile.
        """
        chats, study = self.talk.chats, self.talk.study
        if chats.append(study, self.conversation, [turn]):
            return turn
        there = chats.read(study, self.conversation)
        if there is None:
            raise ConversationNotFoundError(GONE)
        return next(one for one in there.turns if one.record_id == turn.record_id)


def put(
    talks: Sequence[ChatSession],
    conversation: str,
    asking: QuestionRequest,
    noted: QuestionAsked | None = None,
) -> list[OpenQuestion]:
    """Put a question to a cell, or to two side by side; it is kept before anybody answers it.

    Which of the two cells is side a is drawn at random, so that the side does not reveal the cell.

    noted: the line by which it was kept before its cells were open (`noted`); None: it was not

    Raises:
        QuestionError: it cannot be asked: empty, too long; nothing is kept.
        GoneError: the conversation is not there (any more).
    """
    asking, began = check_question(asking), time.monotonic()
    first = talks[0]
    chats, study = first.chats, first.study
    close_open_questions(chats, study, conversation)
    asked = question_line(asking, chats) if noted is None else noted
    name = asked.turn
    sides: list[Side | None] = [None] if len(talks) == 1 else ["a", "b"]
    ordered = list(talks)
    if len(talks) > 1 and is_swapped(name):
        ordered.reverse()
    places = [
        AnswerSlot(turn=f"{name}{f'-{side}' if side else ''}", cell=talk.cell.key, side=side)
        for talk, side in zip(ordered, sides, strict=True)
    ]
    again = {} if noted is None else {"record_id": f"{name}-put", "again": noted.record_id}
    asked = asked.model_copy(update={"places": tuple(places), **again})
    chats.append(study, conversation, [asked])
    there = chats.read(study, conversation)
    numbers = {one.place.turn: one.number for one in there.unanswered} if there else {}
    if not numbers:
        raise ConversationNotFoundError(GONE)
    return [
        OpenQuestion(talk, conversation, asking, unanswered_turn(asked, place, numbers[place.turn]), began)
        for talk, place in zip(ordered, places, strict=True)
    ]


def is_swapped(question: str) -> bool:
    """Return whether the second of two cells is side a, drawn by the id of a question.

    >>> sum(is_swapped(f"question {n}") for n in range(1000))
    478
    """
    return int(digest(["sides", question])[:8], 16) % 2 == 1


def close_open_questions(chats: Conversations, study: str, conversation: str) -> Conversation | None:
    """Return a conversation in which each abandoned question has a turn that says so.

    The process that was to answer them has ended: it was killed, or its machine was.
    """
    there = chats.read(study, conversation)
    left = [
        failed_turn(unanswered_turn(one.asked, one.place, one.number), Status.NOT_RUN, ENDED)
        for one in (there.unanswered if there else ())
        if not is_running(chats.home, one.asked.process, one.asked.at)
    ]
    if not left:
        return there
    chats.append(study, conversation, left)
    return chats.read(study, conversation)


def unanswered_turn(asked: QuestionAsked, place: AnswerSlot, number: int) -> Turn:
    return Turn(
        record_id=place.turn,
        at=asked.at,
        number=number,
        cell=place.cell,
        side=place.side,
        question=asked.question,
        language=asked.language,
        asked_at=asked.asked_at,
        status=Status.NOT_RUN,
        reason="it is being answered",
    )


def failed_turn(turn: Turn, status: Status, reason: str) -> Turn:
    return turn.model_copy(update={"status": status, "reason": reason})


def today() -> str:
    """Return the day, ISO 8601, where this machine is."""
    return datetime.now().astimezone().date().isoformat()


def _nobody(_draft: PartialAnswer) -> None:
    """Listen to nothing: what is answered is the same, and an answer that is stopped ends at once."""


def _now() -> datetime:
    return datetime.now(UTC)
