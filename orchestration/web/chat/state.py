"""What all who look at the page share: the study, its opened cells, and the service that answers.

Nothing is kept here alone: questions and answers stand in the conversations' files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.web.chat.catalogue import Catalogue, read_catalogue
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
        """Return what a page of a conversation shows: when it is another, the page is."""
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
