"""Answers the questions of many conversations at once, each within its time; none is mixed up, none lost.

Pages import this before anything is opened, so what is heavy is imported where it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Literal

from rag_assay.evals.chat.open_questions import (
    LONGEST_PARTIAL,
    STOPPED,
    close_open_questions,
    earlier,
    failed_turn,
    place_question,
    unanswered_turn,
)
from rag_assay.evals.chat.question_requests import QuestionRequest, check_question, record_question
from rag_assay.orchestration.question_service.worker_pool import BusyError, ServiceLimits, Workers
from rag_assay.warehouse.cancellation import LOOK, CancelledError, cancel_scope
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
    now,
)
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.evals.chat.votes import Knows, Preferred
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.question_service.opened_cell import OpenedCell
    from rag_assay.warehouse.conversation_tables import ConversationSync

AT_ONCE = 64  # questions that are answered at a time
LONGEST_COMMENT = 10_000  # characters of a comment that are kept
LONGEST_TITLE = 200
GRACE = 1.0  # seconds after its time in which an answer may still come
CHAT_LIMITS = ServiceLimits(at_once=AT_ONCE, queued=0)
STOPPED_BEFORE = "it was stopped before it was put to a cell"
Key = tuple[str, str]
"""Study and conversation."""
Cells = Callable[[], Sequence["OpenedCell"]]
"""Opens the cells that a question is put to, one or two."""


@dataclass
class AnswerSide:
    """The answer of one cell, while it comes; draft: what is written so far; turn: without an answer."""

    cell: OpenedCell
    turn: Turn
    draft: str = ""
    future: Future[Turn] | None = None

    @property
    def is_done(self) -> bool:
        return self.future is not None and self.future.done()


@dataclass(eq=False)
class PendingQuestion:
    """A question of a conversation that is on its way to its answer, or to two side by side.

    It is answered and kept whether somebody waits for it or not.

    before: the question before it in its conversation that was not answered yet
    timeout: seconds that its answers may take from when its cells have it
    keep: stores a turn
    sides: by the cells that it was put to, side a first; none until they are open
    refused: its turn, where it was put to no cell
    error: why not even that could be kept
    placed: set when its cells have it, or never will: questions of a conversation are put in their order
    """

    key: Key
    asking: QuestionRequest
    asked: QuestionAsked
    before: PendingQuestion | None
    timeout: float
    keep: Callable[[Key, Turn], Turn]
    sides: tuple[AnswerSide, ...] = ()
    refused: Turn | None = None
    error: str = ""
    placed: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)
    deadline: float = inf

    @property
    def question(self) -> str:
        return self.asked.question

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_done(self) -> bool:
        return self.placed.is_set() and all(one.is_done for one in self.sides)

    @property
    def is_over(self) -> bool:
        return self.is_done or time.monotonic() > self.deadline + GRACE

    def stop(self) -> None:
        self.stopped.set()

    def place(self, sides: Sequence[AnswerSide]) -> None:
        self.deadline = time.monotonic() + self.timeout
        self.sides = tuple(sides)

    def turns(self) -> list[Turn]:
        self.placed.wait()
        if self.error:
            raise AssayError(self.error)
        if self.refused is not None:
            return [self.refused]
        futures = [one.future for one in self.sides if one.future]
        wait(futures, max(0.0, self.deadline + GRACE - time.monotonic()))
        return [
            one.future.result()
            if one.future and one.is_done and not one.future.cancelled()
            else self.keep(self.key, self.unfinished(one))
            for one in self.sides
        ]

    def unfinished(self, side: AnswerSide, *, is_closed: bool = False) -> Turn:
        if is_closed or self.stopped.is_set() or (side.future and side.future.cancelled()):
            return self.failed(side, Status.NOT_RUN, STOPPED)
        return self.failed(side, Status.TIMEOUT, f"there was no answer within {self.timeout:g} s")

    def failed(self, side: AnswerSide, status: Status, reason: str) -> Turn:
        turn = failed_turn(self.timed(side.turn), status, reason)
        return turn.model_copy(update={"partial": side.draft[:LONGEST_PARTIAL] or None})

    def timed(self, turn: Turn) -> Turn:
        return turn.model_copy(
            update={"at": now(), "seconds": time.monotonic() - self.deadline + self.timeout}
        )


class QuestionService(Workers):
    """Answers questions by opened cells, from any thread.

    The questions of one conversation are answered one after another, so that each knows what was said before
    it; those of others at the same time, as `Workers` says.

    home: where conversations are kept
    fills_tables: whether DuckDB is filled from them, soon after each change; else the next run does
    """

    def __init__(self, home: Home, limits: ServiceLimits = CHAT_LIMITS, *, fills_tables: bool = True) -> None:
        super().__init__(limits)
        self.chats = Conversations(home)
        self._fills_tables = fills_tables
        self._sync: ConversationSync | None = None
        self._pending: dict[Key, list[PendingQuestion]] = {}
        self._writing = threading.RLock()
        self._closed = threading.Event()

    def ask(
        self, study: str, conversation: str, asking: QuestionRequest, cells: Sequence[OpenedCell] | Cells
    ) -> PendingQuestion:
        """Put a question to a cell, or to two side by side; it is on disk when this returns.

        cells: those that answer; or what opens them, in a thread: the question is kept, whatever becomes of
            this process before they are open

        Raises:
            QuestionError: it cannot be asked: empty, too long; nothing is kept.
            ConversationNotFoundError: the conversation is not there (any more).
            BusyError: too many questions are being answered; nothing is kept.
        """
        asking = check_question(asking, self.limits.question)
        if self._closed.is_set():
            raise BusyError("the program is stopping, and takes no more questions", None)
        if self.under_way + (1 if callable(cells) else len(cells)) > self.limits.at_once + self.limits.queued:
            raise BusyError(f"{self.under_way} questions are being answered; ask again in a moment")
        key = (study, conversation)
        with self._writing:
            asked = record_question(self.chats, study, conversation, asking)
            before = [one for one in self.pending(*key) if not one.is_over]
            last = before[-1] if before else None
            pending = PendingQuestion(key, asking, asked, last, self.limits.timeout, self._kept)
            self._pending = {
                name: left
                for name, every in self._pending.items()
                if (left := [one for one in every if one.error or not one.is_over])
            } | {key: [*before, pending]}
        if callable(cells):
            threading.Thread(target=self._put, args=(pending, cells), name="put", daemon=True).start()
        else:
            self._put(pending, lambda: cells)
        return pending

    def pending(self, study: str, conversation: str) -> list[PendingQuestion]:
        return [one for one in self._pending.get((study, conversation), ()) if one.error or not one.is_over]

    def _put(self, pending: PendingQuestion, cells: Cells) -> None:
        try:
            opened = {one.key: one for one in cells()}
            if pending.before is not None:
                pending.before.placed.wait()
            if pending.stopped.is_set():
                self._refuse(pending, Status.NOT_RUN, STOPPED_BEFORE)
                return
            with self._writing:
                turns = place_question(self.chats, *pending.key, pending.asked, list(opened))
                pending.place([AnswerSide(opened[cell], turn) for cell, turn in turns.items()])
                for side in pending.sides:
                    try:
                        side.future = self.begin(partial(self._answered, pending, side))
                    except BusyError as error:  # the last place was taken meanwhile
                        side.future = Future()
                        refused = pending.failed(side, Status.NOT_RUN, str(error))
                        side.future.set_result(self._kept(pending.key, refused))
        except Exception as error:  # its turn says so
            self._refuse(pending, Status.ERROR, reason_of(error))
        finally:
            pending.placed.set()

    def _refuse(self, pending: PendingQuestion, status: Status, reason: str) -> None:
        try:
            there = self._there(*pending.key).unanswered
            asked, number = next(
                (one.asked, one.number) for one in there if one.place.turn == pending.asked.turn
            )
            turn = unanswered_turn(asked, AnswerSlot(turn=asked.turn, cell=""), number)
            pending.refused = self._kept(pending.key, failed_turn(turn, status, reason))
        except Exception:
            pending.error = reason

    def _answered(self, pending: PendingQuestion, side: AnswerSide) -> Turn:
        before = pending.before

        def is_unwanted() -> bool:
            return self._closed.is_set() or pending.stopped.is_set() or time.monotonic() > pending.deadline

        try:
            with cancel_scope(is_unwanted):
                if before is not None:
                    _wait_for(before, is_unwanted)
                with self.turn():
                    there = self.chats.read(*pending.key)
                    history = earlier(there.turns if there else (), side.turn.number, side.cell.key)
                    asking = replace(pending.asking, conversation=history)
                    turn = side.cell.answer(
                        asking, side.turn, lambda draft: setattr(side, "draft", draft.text)
                    )
        except CancelledError:
            turn = failed_turn(side.turn, Status.NOT_RUN, STOPPED)
        except Exception as error:  # its turn says so; the other questions go on
            turn = pending.failed(side, Status.ERROR, reason_of(error))
        if turn.reason == STOPPED:
            turn = pending.unfinished(side, is_closed=self._closed.is_set())
        pending.before = None  # it is over, and holds its own one before
        return self._kept(pending.key, pending.timed(turn))

    def _kept(self, key: Key, turn: Turn) -> Turn:
        is_new = self.chats.append(*key, [turn])
        self.changed()
        if is_new:
            return turn
        return next(one for one in self._there(*key).turns if one.record_id == turn.record_id)

    # What people do with conversations ----------------------------------------------------------------------

    def begin_conversation(
        self, study: str, person: str = "", place: Literal["chat", "terminal"] = "chat"
    ) -> str:
        return self.chats.begin(study, Begun(record_id=token_urlsafe(12), person=person, place=place))

    def rename(self, study: str, conversation: str, title: str) -> None:
        begun = self._there(study, conversation).begun
        title = title.strip()[:LONGEST_TITLE]
        self._keep(
            study, conversation, begun.model_copy(update={"record_id": token_urlsafe(12), "title": title})
        )

    def conversation(self, study: str, conversation: str) -> Conversation | None:
        """Return a conversation, or None; questions of processes that ended get a failed turn."""
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
            ConversationNotFoundError: the conversation is not there (any more), or has no such answer.
        """
        there = self._there(study, conversation)
        if turn not in {one.record_id for one in there.turns}:
            raise ConversationNotFoundError("this answer is not there any more")
        said = there.feedback.get(turn, AnswerFeedback(record_id="none", turn=turn, thumbs=0))
        text = said.comment if comment is None else encodable(comment).strip()[:LONGEST_COMMENT]
        thumbs = said.thumbs if thumbs is None else thumbs
        line = AnswerFeedback(record_id=token_urlsafe(12), turn=turn, thumbs=thumbs, comment=text)
        self._keep(study, conversation, line)

    def vote(self, study: Study, conversation: str, number: int, preferred: Preferred, knows: Knows) -> Vote:
        from rag_assay.evals.chat.votes import vote

        said = vote(study, self.chats, conversation, number, preferred, knows)
        self.changed()
        return said

    def delete(self, study: str, conversation: str) -> bool:
        found = self.chats.delete(study, conversation)
        self.changed()
        return found

    def _there(self, study: str, conversation: str) -> Conversation:
        there = self.chats.read(study, conversation)
        if there is None:
            raise ConversationNotFoundError(GONE)
        return there

    def _keep(self, study: str, conversation: str, line: AnyRecord) -> None:
        self.chats.append(study, conversation, [line])
        self.changed()

    def changed(self) -> None:
        if not self._fills_tables:
            return
        from rag_assay.warehouse.conversation_tables import ConversationSync

        with self._writing:
            self._sync = self._sync or ConversationSync(self.chats.home)
        self._sync.changed()

    def close(self, patience: float = 5.0) -> None:
        """Stop the questions under way, whose turns say so; patience: seconds that they are waited for."""
        self._closed.set()
        super().close()
        sides = [side for every in self._pending.values() for one in every for side in one.sides]
        wait([one.future for one in sides if one.future], patience)
        if self._sync is not None:
            self._sync.close()


def _wait_for(before: PendingQuestion, is_unwanted: Callable[[], bool]) -> None:
    """Wait until the question before is answered or timed out; CancelledError: this one was cancelled."""
    while not before.is_over:
        if is_unwanted():
            raise CancelledError
        wait([one.future for one in before.sides if one.future], LOOK)
    with suppress(AssayError):  # reported to the client that put that question
        before.turns()


def reason_of(error: BaseException) -> str:
    return one_line(str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}")
