"""What all who look at the page share: the study, its opened cells, and the questions under way.

Nothing is kept here alone: questions and answers stand in the conversations' files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rag_assay.evals.chat.question_requests import QuestionRequest, record_question
from rag_assay.orchestration.web.chat.catalogue import Catalogue, read_catalogue
from rag_assay.warehouse.conversations import Conversation, Conversations, QuestionAsked
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.chat.chat_session import ChatSession
    from rag_assay.orchestration.chat.chat_service import ChatService, PendingQuestion

STOPPED_BEFORE = "it was stopped before it was put to a cell"
Cells = Callable[[Catalogue], Sequence[str]]
"""What the study offers -> keys of the cells that a question is put to, one or two."""


@dataclass
class UnderWay:
    """A question that is being answered.

    n_cells: one, or two side by side
    waiting: None: its cells are being opened
    error: why it could not even be kept, empty where its turn says it; None: it is kept and goes its way
    is_put: set when its cells have it, or never will: questions of a conversation are put in their order
    """

    question: str
    began: float = field(default_factory=time.monotonic)
    n_cells: int = 1
    waiting: PendingQuestion | None = None
    error: str | None = None
    is_unwanted: bool = False
    is_put: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float:
        """Since it was asked."""
        return time.monotonic() - self.began

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.error is not None or (self.waiting is not None and self.waiting.is_over)

    def stop(self) -> None:
        """Cancel it."""
        self.is_unwanted = True
        if self.waiting is not None:
            self.waiting.stop()


class _Put(NamedTuple):
    """A question on its way to its cells.

    before: set when the question before it has been put; None: there is none
    noted: the line by which it is kept
    """

    begun: UnderWay
    before: threading.Event | None
    study: str
    conversation: str
    noted: QuestionAsked
    asking: QuestionRequest


class ChatState:
    """One study, for any number of sessions and conversations."""

    def __init__(
        self,
        study: str,
        home: Home,
        usd: float | None,
        model: str | None = None,
        passages_of: str | None = None,
    ) -> None:
        self.chats = Conversations(home)
        self.home = home
        self.usd = usd
        self._name = study
        self._model = model
        self._passages_of = passages_of
        self._lock = threading.Lock()
        self._opening = ThreadPoolExecutor(1, thread_name_prefix="open")
        self._work: BuildContext | None = None
        self._catalogue: Future[Catalogue] | None = None
        self._talks: dict[str, Future[ChatSession]] = {}
        self._under_way: dict[str, list[UnderWay]] = {}
        self._desk_of_all: ChatService | None = None

    # What is opened ----------------------------------------------------------------------------------------

    def catalogue(self) -> Future[Catalogue]:
        """Return what the study offers; it is read in the background when this is asked first."""
        with self._lock:
            if self._catalogue is None or _failed(self._catalogue):
                self._catalogue = self._opening.submit(self._read)
            return self._catalogue

    def talk(self, cell: str) -> Future[ChatSession]:
        """Return an opened cell; it is opened in the background when this is asked first, and once."""
        catalogue = self.catalogue()
        with self._lock:
            found = self._talks.get(cell)
            if found is None or _failed(found):
                found = self._talks[cell] = self._opening.submit(self._open, catalogue, cell)
            return found

    def _read(self) -> Catalogue:
        from rag_assay.assets.engine.stage import BuildContext

        self._work = self._work or BuildContext(self.home)
        return read_catalogue(self._name, self._work, self._model, self._passages_of)

    def _open(self, catalogue: Future[Catalogue], cell: str) -> ChatSession:
        from rag_assay.evals.chat.cell_loader import open_talk

        there = catalogue.result()
        choice = there.of(cell)
        if choice is None or self._work is None:
            raise AssayError(f"the study {there.study.study} has no cell {cell} that can be asked")
        with self.desk().computing():
            return open_talk(there.study, choice.cell, self._work, self.usd)

    # Questions ---------------------------------------------------------------------------------------------

    def ask(self, study: str, conversation: str, cells: Cells, asking: QuestionRequest) -> None:
        """Begin to answer a question of a conversation, by cells that are known when the study is read.

        It is on disk when this returns, whatever becomes of this process before its cells are open.

        Raises:
            QuestionError: it cannot be asked; nothing is kept.
            AssayError: it cannot be kept: the conversation was deleted, the disk is full.
        """
        begun = UnderWay(asking.question)
        line = record_question(self.chats, study, conversation, asking)
        with self._lock:
            there = [one for one in self._under_way.get(conversation, ()) if not one.is_over]
            self._under_way[conversation] = [*there, begun]
        to = _Put(begun, there[-1].is_put if there else None, study, conversation, line, asking)
        threading.Thread(target=self._put, args=(to, cells), name="put", daemon=True).start()

    def under_way(self, conversation: str) -> list[UnderWay]:
        """Return the questions of a conversation that are being answered here, or could not be asked."""
        with self._lock:
            return list(self._under_way.get(conversation, ()))

    def state(self, study: str, conversation: str | None) -> tuple[object, ...]:
        """Return what a page of a conversation shows: when it is another, the page is."""
        under_way = self.under_way(conversation) if conversation else []
        asked = [(one.question, one.is_over, one.error) for one in under_way]
        stamp = self.chats.stamp(study, conversation) if conversation else None
        return self.catalogue().done(), asked, stamp

    def read(self, study: str, conversation: str) -> Conversation | None:
        """Return a conversation; questions whose process has ended have turns that say so."""
        there = self.chats.read(study, conversation)
        if there is None or not there.unanswered or self.under_way(conversation):
            return there
        from rag_assay.evals.chat.chat_session import close_open_questions

        return close_open_questions(self.chats, study, conversation)

    def _put(self, one: _Put, cells: Cells) -> None:
        begun = one.begun
        try:
            opening = [self.talk(cell) for cell in cells(self.catalogue().result())]
            begun.n_cells = len(opening)
            talks = [talk.result() for talk in opening]
            if one.before is not None:
                one.before.wait()
            if begun.is_unwanted:
                self._fail(one, Status.NOT_RUN, STOPPED_BEFORE)
                return
            begun.waiting = self.desk().ask(talks, one.conversation, one.asking, one.noted)
            if begun.is_unwanted:  # it was stopped meanwhile
                begun.waiting.stop()
        except Exception as error:
            self._fail(one, Status.ERROR, _reason(error))
        finally:
            begun.is_put.set()

    def _fail(self, one: _Put, status: Status, reason: str) -> None:
        """Let a question's turn say why it was put to no cell; where that cannot be kept, the page does."""
        try:
            self.desk().fail(one.study, one.conversation, one.noted, status, reason)
            one.begun.error = ""
        except Exception:
            one.begun.error = reason

    def desk(self) -> ChatService:
        """Return the desk that answers and keeps; it is made when this is asked first."""
        from rag_assay.orchestration.chat.chat_service import ChatService

        with self._lock:
            self._desk_of_all = self._desk_of_all or ChatService(self.home)
            return self._desk_of_all


def _failed(one: Future[Catalogue] | Future[ChatSession]) -> bool:
    return one.done() and one.exception() is not None


def _reason(error: BaseException) -> str:
    return one_line(str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}")
