"""Answers the questions of many conversations at once, each within its time; none is mixed up, none lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, suppress
from functools import partial
from secrets import token_urlsafe
from typing import Literal

from rag_assay.evals.chat.chat_session import (
    STOPPED,
    ChatSession,
    OpenQuestion,
    close_open_questions,
    failed_turn,
    put,
    unanswered_turn,
)
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.votes import Knows, Preferred, vote
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.server.failures import RequestError
from rag_assay.orchestration.server.worker_pool import ServerLimits, Workers
from rag_assay.warehouse.cancellation import LOOK, CancelledError, cancel_scope
from rag_assay.warehouse.conversation_tables import ConversationSync
from rag_assay.warehouse.conversations import (
    GONE,
    AnswerFeedback,
    AnswerSlot,
    AnyRecord,
    Begun,
    Conversation,
    ConversationNotFoundError,
    Conversations,
    QuestionAsked,
    Turn,
    Vote,
)
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.streaming import PartialAnswer
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

AT_ONCE = 64  # questions that are answered at a time
LONGEST_COMMENT = 10_000  # characters of a comment that are kept
LONGEST_TITLE = 200
GRACE = 1.0  # seconds after its time in which an answer may still come
GLANCE = 0.05  # seconds between two looks at a draft
CHAT_LIMITS = ServerLimits(at_once=AT_ONCE, queued=0)


class BusyError(AssayError):
    """A question that is not taken now: too many are being answered, or the program is stopping."""


class PendingQuestion:
    """A question that is being answered by a cell, or by two side by side, in threads of their own.

    It is answered and kept whether somebody waits for it or not.

    questions: what is being answered, side a first
    """

    def __init__(self, questions: Sequence[OpenQuestion], seconds: float) -> None:
        self.questions = tuple(questions)
        self.deadline = time.monotonic() + seconds
        self._seconds = seconds
        self.stopped = threading.Event()
        self._drafts = {one.turn.record_id: "" for one in questions}
        self.futures: list[Future[Turn]] = []

    @property
    def number(self) -> int:
        """Of the question in its conversation."""
        return self.questions[0].turn.number

    @property
    def is_done(self) -> bool:
        """Whether nothing works on it any more."""
        return all(one.done() for one in self.futures)

    @property
    def is_over(self) -> bool:
        """Whether it is answered, or its time is over."""
        return self.is_done or time.monotonic() > self.deadline + GRACE

    @property
    def latest(self) -> dict[str, str]:
        """Id of a turn -> what is written of its answer now."""
        return dict(self._drafts)

    def stop(self) -> None:
        """Let the answers be unwanted: their turns say that they were stopped."""
        self.stopped.set()

    def drafts(self) -> Iterator[dict[str, str]]:
        """Yield id of a turn -> what is written of its answer, whenever that has grown, until it is over."""
        last: dict[str, str] = {}
        while not self.is_over:
            now = self.latest
            if now != last and any(now.values()):
                yield now
                last = now
            wait(self.futures, GLANCE)

    def turns(self) -> list[Turn]:
        """Return the turns, side a first, as they are kept; waits until they are there."""
        wait(self.futures, max(0.0, self.deadline + GRACE - time.monotonic()))
        return [
            self._turn(question, future)
            for question, future in zip(self.questions, self.futures, strict=True)
        ]

    def _turn(self, question: OpenQuestion, future: Future[Turn]) -> Turn:
        if future.cancelled():
            return question.keep(self.stopped_turn(question))
        return future.result() if future.done() else question.keep(self.late(question))

    def late(self, question: OpenQuestion) -> Turn:
        """Return the turn of a question whose time is over."""
        reason = f"there was no answer within {self._seconds:g} s"
        return question.failed(Status.TIMEOUT, reason, self._drafts[question.turn.record_id])

    def stopped_turn(self, question: OpenQuestion) -> Turn:
        return question.failed(Status.NOT_RUN, STOPPED, self._drafts[question.turn.record_id])

    def write(self, turn: str, draft: PartialAnswer) -> None:
        """Take what is written of an answer so far."""
        self._drafts[turn] = draft.text


class ChatService:
    """Takes the questions of a home's conversations from any thread.

    The questions of one conversation are answered one after another, so that each knows what was said before
    it; those of others at the same time, as `Workers` says.
    """

    def __init__(self, home: Home, limits: ServerLimits = CHAT_LIMITS) -> None:
        self.chats = Conversations(home)
        self.limits = limits
        self._sync = ConversationSync(home)
        self._sync.changed()
        self._workers = Workers(limits)
        self._before: dict[tuple[str, str], PendingQuestion] = {}
        self._putting = threading.Lock()
        self._closed = threading.Event()

    def ask(
        self,
        talks: ChatSession | Sequence[ChatSession],
        conversation: str,
        asking: QuestionRequest,
        noted: QuestionAsked | None = None,
    ) -> PendingQuestion:
        """Put a question to a cell, or to two side by side; it is kept when this returns.

        noted: the line by which it was kept before its cells were open; None: it was not

        Raises:
            QuestionError: it cannot be asked: empty, too long; nothing is kept.
            GoneError: the conversation is not there (any more).
            BusyError: too many questions are being answered.
        """
        sides = [talks] if isinstance(talks, ChatSession) else list(talks)
        self._refuse_too_many(len(sides))
        with self._putting:
            questions = put(sides, conversation, asking, noted)
            waiting = PendingQuestion(questions, self.limits.timeout)
            key = (sides[0].study, conversation)
            before = self._before.get(key)
            waiting.futures = [self._begun(question, waiting, before) for question in questions]
            self._before = {name: one for name, one in self._before.items() if not one.is_done} | {
                key: waiting
            }
        return waiting

    def begin(self, study: str, person: str = "", place: Literal["chat", "terminal"] = "chat") -> str:
        """Begin a conversation; return its id."""
        return self.chats.begin(study, Begun(record_id=token_urlsafe(12), person=person, place=place))

    def rename(self, study: str, conversation: str, title: str) -> None:
        """Give a conversation another title."""
        there = self._there(study, conversation)
        line = Begun(
            record_id=token_urlsafe(12),
            person=there.begun.person,
            place=there.begun.place,
            title=title.strip()[:LONGEST_TITLE],
        )
        self._keep(study, conversation, line)

    def conversation(self, study: str, conversation: str) -> Conversation | None:
        """Return a conversation; None: there is none (any more).

        Questions whose process has ended without an answer have a turn that says so.
        """
        return close_open_questions(self.chats, study, conversation)

    def feedback(
        self,
        study: str,
        conversation: str,
        turn: str,
        thumbs: Literal[-1, 0, 1] | None = None,
        comment: str | None = None,
    ) -> None:
        """Keep what a person thinks of an answer; it takes the place of what was said of it before.

        thumbs, comment: None: as it was said before

        Raises:
            GoneError: the conversation is not there (any more), or has no such answer.
        """
        there = self._there(study, conversation)
        if turn not in {one.record_id for one in there.turns}:
            raise ConversationNotFoundError("this answer is not there any more")
        said = there.feedback.get(turn, AnswerFeedback(record_id="none", turn=turn, thumbs=0))
        text = said.comment if comment is None else encodable(comment).strip()[:LONGEST_COMMENT]
        thumbs = said.thumbs if thumbs is None else thumbs
        self._keep(
            study,
            conversation,
            AnswerFeedback(record_id=token_urlsafe(12), turn=turn, thumbs=thumbs, comment=text),
        )

    def vote(self, study: Study, conversation: str, number: int, preferred: Preferred, knows: Knows) -> Vote:
        """Keep which of two answers is better, as `evals.chat.votes.vote` does."""
        said = vote(study, self.chats, conversation, number, preferred, knows)
        self._sync.changed()
        return said

    def delete(self, study: str, conversation: str) -> bool:
        """Remove a conversation for good, from DuckDB soon after; return whether it was there."""
        found = self.chats.delete(study, conversation)
        self._sync.changed()
        return found

    def fail(self, study: str, conversation: str, noted: QuestionAsked, status: Status, reason: str) -> None:
        """Keep the turn of a question that was put to no cell, and never will be.

        Raises:
            GoneError: the conversation was deleted meanwhile.
        """
        there = self._there(study, conversation)
        number = next((one.number for one in there.unanswered if one.place.turn == noted.turn), 0)
        if number:
            turn = unanswered_turn(noted, AnswerSlot(turn=noted.turn, cell=""), number)
            self._keep(study, conversation, failed_turn(turn, status, reason))

    def _there(self, study: str, conversation: str) -> Conversation:
        there = self.chats.read(study, conversation)
        if there is None:
            raise ConversationNotFoundError(GONE)
        return there

    def _keep(self, study: str, conversation: str, line: AnyRecord) -> None:
        self.chats.append(study, conversation, [line])
        self._sync.changed()

    def computing(self) -> AbstractContextManager[None]:
        """Let nothing else compute in the block, as soon as it begins: cells are opened so."""
        return self._workers.turn()

    def close(self, patience: float = 5.0) -> None:
        """Take no more questions; those under way are stopped, and their turns say so.

        patience: seconds that they are waited for
        """
        self._closed.set()
        self._workers.close()
        wait([future for one in self._before.values() for future in one.futures], patience)
        self._sync.close()

    def _refuse_too_many(self, more: int) -> None:
        if self._closed.is_set():
            raise BusyError("the program is stopping, and takes no more questions")
        if self._workers.under_way + more > self.limits.at_once + self.limits.queued:
            raise BusyError(f"{self._workers.under_way} questions are being answered; ask again in a moment")

    def _begun(
        self, question: OpenQuestion, waiting: PendingQuestion, before: PendingQuestion | None
    ) -> Future[Turn]:
        try:
            return self._workers.begin(partial(self._answered, question, waiting, before))
        except RequestError as error:  # the last place was taken meanwhile
            refused: Future[Turn] = Future()
            refused.set_result(question.keep(question.failed(Status.NOT_RUN, str(error))))
            return refused

    def _answered(
        self, question: OpenQuestion, waiting: PendingQuestion, before: PendingQuestion | None
    ) -> Turn:

        def is_unwanted() -> bool:
            return self._closed.is_set() or waiting.stopped.is_set() or time.monotonic() > waiting.deadline

        try:
            with cancel_scope(is_unwanted):
                if before is not None:
                    _wait_for(before, is_unwanted)
                with self._workers.turn():
                    turn = question.answered(partial(waiting.write, question.turn.record_id))
        except CancelledError:
            turn = waiting.stopped_turn(question)
        except Exception as error:  # its turn says so; the other questions go on
            turn = question.failed(Status.ERROR, one_line(f"{type(error).__name__}: {error}"))
        if turn.reason == STOPPED:
            is_late = not (self._closed.is_set() or waiting.stopped.is_set())
            turn = waiting.late(question) if is_late else waiting.stopped_turn(question)
        kept = question.keep(turn)
        self._sync.changed()
        return kept


def _wait_for(before: PendingQuestion, is_unwanted: Callable[[], bool]) -> None:
    """Wait until the question before is answered, or its time is over, which is then kept.

    Raises:
        CancelledError: the question was cancelled.
    """
    while not before.is_over:
        if is_unwanted():
            raise CancelledError
        wait(before.futures, LOOK)
    with suppress(AssayError):  # reported to the client that put that question
        before.turns()
