"""The state of the chat: what all its visitors share, and one run of its page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import streamlit as st

from rag_assay.evals.chat.question_requests import LONGEST, QuestionRequest, check_question
from rag_assay.orchestration.question_service.question_service import PendingQuestion, QuestionService
from rag_assay.orchestration.web.chat.catalogue import Catalogue, Choice, read_catalogue
from rag_assay.orchestration.web.languages import Words
from rag_assay.orchestration.web.page_context import PERSON, PageContext, person_of, set_address
from rag_assay.warehouse.conversations import Conversation, Conversations, Stamp, Turn
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.orchestration.question_service.opened_cell import OpenedCell


Wanted = Callable[[Catalogue], Sequence[str]]
"""What the study offers -> keys of the cells that a question is put to, one or two."""


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
        self.service = QuestionService(home)
        self.home = home
        self.usd = usd
        self._name = study
        self._model = model
        self._passages_of = passages_of
        self._lock = threading.Lock()
        self._opening = ThreadPoolExecutor(1, thread_name_prefix="open")
        self._work: BuildContext | None = None
        self._catalogue: Future[Catalogue] | None = None
        self._cells: dict[str, Future[OpenedCell]] = {}

    def catalogue(self) -> Future[Catalogue]:
        """Return what the study offers; it is read in the background when this is asked first."""
        with self._lock:
            if self._catalogue is None or _failed(self._catalogue):
                self._catalogue = self._opening.submit(self._read)
            return self._catalogue

    def cell(self, key: str) -> Future[OpenedCell]:
        """Return an opened cell; it is opened in the background when this is asked first, and once."""
        catalogue = self.catalogue()
        with self._lock:
            found = self._cells.get(key)
            if found is None or _failed(found):
                found = self._cells[key] = self._opening.submit(self._open, catalogue, key)
            return found

    def cells(self, wanted: Wanted) -> list[OpenedCell]:
        opening = [self.cell(key) for key in wanted(self.catalogue().result())]
        return [one.result() for one in opening]

    def state(self, study: str, conversation: str | None) -> tuple[object, ...]:
        pending = self.service.pending(study, conversation) if conversation else []
        asked = [(one.question, len(one.sides), one.error) for one in pending]
        stamp = self.service.chats.stamp(study, conversation) if conversation else None
        return self.catalogue().done(), asked, stamp

    def _read(self) -> Catalogue:
        from rag_assay.assets.engine.stage import BuildContext

        self._work = self._work or BuildContext(self.home)
        return read_catalogue(self._name, self._work, self._model, self._passages_of)

    def _open(self, catalogue: Future[Catalogue], key: str) -> OpenedCell:
        from rag_assay.orchestration.question_service.opened_cell import open_cell

        there = catalogue.result()
        choice = there.of(key)
        if choice is None or self._work is None:
            raise AssayError(f"the study {there.study.study} has no cell {key} that can be asked")
        with self.service.turn():
            return open_cell(there.study, choice.cell, self._work, self.usd)


def _failed(one: Future[Catalogue] | Future[OpenedCell]) -> bool:
    return one.done() and one.exception() is not None


@dataclass(frozen=True)
class ConversationItem:
    """A conversation in the list."""

    conversation: str
    title: str
    person: str
    last_at: datetime


class Listing:
    """What the conversations of a study are called, whose they are, and when they last grew."""

    def __init__(self, chats: Conversations, study: str) -> None:
        self._chats = chats
        self._study = study
        self._known: dict[str, tuple[Stamp, ConversationItem | None]] = {}
        self._lock = threading.Lock()

    def of(self, person: str) -> list[ConversationItem]:
        with self._lock:
            now = {
                name: stamp for (study, name), stamp in self._chats.stamps().items() if study == self._study
            }
            self._known = {name: one for name, one in self._known.items() if now.get(name) == one[0]}
            for name in now.keys() - self._known.keys():
                found = self._chats.read(self._study, name)
                if found is not None:
                    item = ConversationItem(name, found.title, found.begun.person, found.last_at)
                    self._known[name] = (now[name], None if found.begun.place == "demo" else item)
            mine = [one for _, one in self._known.values() if one is not None and one.person == person]
        return sorted(mine, key=lambda one: one.last_at, reverse=True)


CONVERSATION, CELL, RIVAL = "c", "cell", "against"


@dataclass(frozen=True)
class ChatLocation:
    """Where a session is.

    conversation: its id; None: one that is not begun yet
    cell: key of the cell that was chosen; None: the recommended one
    rival: key of the cell beside it; None: one answers alone
    """

    conversation: str | None
    person: str
    cell: str | None
    rival: str | None


def place_here() -> ChatLocation:
    said = st.query_params
    return ChatLocation(said.get(CONVERSATION), person_of(said.get(PERSON)), said.get(CELL), said.get(RIVAL))


NOTICE = "notice"
Thumbs = Literal[-1, 0, 1]
Preferred = Literal["a", "b", "tie"]


@dataclass(frozen=True)
class ChatPageSession:
    """One run of the page.

    first: key of the cell that the command named; None: the recommended one
    conversation: as its file has it; None: none is chosen, or it is not there
    state: of the room before conversation and catalogue were read: what comes later makes the page outdated
    """

    context: PageContext
    room: ChatState
    listing: Listing
    study: str
    first: str | None
    place: ChatLocation
    words: Words
    conversation: Conversation | None
    catalogue: Catalogue | None
    state: tuple[object, ...]

    @property
    def is_outdated(self) -> bool:
        return self.room.state(self.study, self.place.conversation) != self.state

    @property
    def pending(self) -> list[PendingQuestion]:
        conversation = self.place.conversation
        return self.room.service.pending(self.study, conversation) if conversation else []

    @property
    def choice(self) -> Choice | None:
        return self.chosen(self.catalogue)[0] if self.catalogue else None

    @property
    def rival(self) -> Choice | None:
        found = self.chosen(self.catalogue) if self.catalogue else []
        return found[1] if len(found) > 1 else None

    def chosen(self, catalogue: Catalogue) -> list[Choice]:
        found = (catalogue.of(one) for one in (self.place.cell, self.first))
        own = next((one for one in found if one is not None), catalogue.choices[0])
        rival = catalogue.of(self.place.rival)
        return [own] if rival in {None, own} else [own, *([rival] if rival else [])]

    def ask(
        self, question: str, cells: Sequence[str] | None = None, without: frozenset[str] = frozenset()
    ) -> None:
        if len(question) > LONGEST:
            notify(self.words("too_long", n=f"{len(question):,}", most=f"{LONGEST:,}"))
            return
        try:
            asking = check_question(QuestionRequest(question, without=without))
            service, place = self.room.service, self.place
            known = place.conversation if self.conversation else None
            conversation = known or service.begin_conversation(self.study, place.person)
            wanted = self._wanted if cells is None else lambda _catalogue: cells
            service.ask(self.study, conversation, asking, lambda: self.room.cells(wanted))
        except (AssayError, OSError) as error:
            notify(self.words("not_done", why=error))
        else:
            set_address(c=conversation)

    def _wanted(self, catalogue: Catalogue) -> list[str]:
        return [one.key for one in self.chosen(catalogue)]

    def opine(self, turn: Turn, thumbs: Thumbs | None = None, comment: str | None = None) -> bool:
        conversation = self.place.conversation or ""
        return self.did(
            lambda: self.room.service.feedback(self.study, conversation, turn.record_id, thumbs, comment)
        )

    def vote(self, number: int, preferred: Preferred, cell: str) -> None:
        """cell: one that answered, by which the study's own questions are known again"""
        conversation = self.place.conversation or ""
        if self.catalogue is not None:
            study, opened = self.catalogue.study, self.room.cell(cell)
            self.did(
                lambda: self.room.service.vote(study, conversation, number, preferred, opened.result().knows)
            )

    def did(self, what: Callable[[], object]) -> bool:
        try:
            what()
        except (AssayError, OSError, ValueError) as error:
            notify(self.words("not_done", why=error))
            return False
        return True


def notify(sentence: str, kind: Literal["warning", "success"] = "warning") -> None:
    st.session_state[NOTICE] = (kind, sentence)
