"""A corpus that is open to be asked: one conversation at a terminal, by a cell of its study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.open_questions import earlier
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.turn_records import shown_passages
from rag_assay.evals.generation.contract import Answer
from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.evals.retrieval.bm25 import word_searches
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import NamedCorpus
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell, open_folder
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.question_service.worker_pool import ServiceLimits
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.conversations import ShownPassage, Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

Choose = Callable[[Study, str | None], Cell]
"""Which cell of a study is meant: the one of a name, or the best to be had."""
LIMITS = ServiceLimits(at_once=1, timeout=86_400.0)  # at a terminal Ctrl-C stops it


class OpenCorpus(Closeable):
    """A corpus, open for one conversation. Use it as a context manager, or close it.

    Args:
        corpus: the corpus.
        home: of this machine.
        choose: says which cell a name means, and which is asked where none is named.
        cell: the name of a cell; None: the one that is chosen.
        keep: whether the conversation stays in the home; else nothing of it is left when this is closed.

    Raises:
        InputError: it is not built, is damaged, or has no such cell.
    """

    def __init__(
        self, corpus: NamedCorpus, home: Home, choose: Choose, cell: str | None = None, *, keep: bool = True
    ) -> None:
        self.corpus = corpus
        self.last: Turn | None = None
        """The last question with its answer."""
        self._conversation: str | None = None
        with ExitStack() as held:
            work = BuildContext(home)
            held.callback(work.close)
            self._opened = (
                self._export(cell, work) if corpus.kind == "export" else self._cell(cell, choose, work)
            )
            held.callback(self._opened.close)
            if not keep:
                home = Home(Path(held.enter_context(TemporaryDirectory(prefix="assay-corpus-"))))
            self._service = QuestionService(home, LIMITS, fills_tables=False)
            held.callback(self._service.close, 2.0)
            self._held = held.pop_all()

    def _cell(self, name: str | None, choose: Choose, work: BuildContext) -> OpenedCell:
        study = read_study(self.corpus.study, sources_gone=True)
        self.cells = tuple(one.short for one in study.cells() if one.reads_ranking)
        cell = choose(study, name)
        self._words = [study.retrievers[cell.retriever], *study.retrievers.values()]
        try:
            return open_cell(study, cell, work)
        except InputError as error:
            raise InputError(*(self._what_to_do(one) for one in error.findings)) from error

    def _export(self, name: str | None, work: BuildContext) -> OpenedCell:
        folder = Path(self.corpus.target)
        opened = open_folder(folder, work)
        short = opened.cell.short
        if name is not None and name not in {short, opened.key}:
            raise InputError(f"{folder} is the export of one cell, {short}, and has no cell {name!r}")
        self.cells = (short,)
        self._words = [opened.pipeline.retrieval.retriever]
        return opened

    def _what_to_do(self, finding: str) -> str:
        if self.corpus.kind != "built":
            return finding
        about = finding.partition("; ")[0] if "assay run" in finding else finding
        return f"{about}; `assay corpus build {quote(self.corpus.target)}` builds it"

    @property
    def cell(self) -> Cell:
        return self._opened.cell

    @property
    def analyzer(self) -> Analyzer:
        found = next(word_searches(self._words), None)
        index = self._opened.pipeline.retrieval.index
        analyzer = found.analyzer(index) if found else Analyzer("stemmed", index.stems)
        return analyzer._replace(functional=False)

    def ask(self, question: str) -> Turn:
        """Answer a question of this conversation; what was said before it goes along."""
        study = self._opened.study
        if self._conversation is None:
            self._conversation = self._service.begin_conversation(study, place="terminal")
        pending = self._service.ask(study, self._conversation, QuestionRequest(question), [self._opened])
        try:
            (self.last,) = pending.turns()
        except KeyboardInterrupt:
            pending.stop()
            raise
        return self.last

    def more(self) -> Sequence[ShownPassage]:
        turn = self.last
        if turn is None or self._conversation is None:
            raise InputError("nothing was asked yet")
        there = self._service.chats.read(self._opened.study, self._conversation)
        history = earlier(there.turns if there else (), turn.number, self.cell.key)
        asking = QuestionRequest(turn.question, turn.language, turn.asked_at, conversation=history)
        with self._service.turn():
            result = self._opened.search(asking)
        read = {one.chunk_id for one in turn.passages}
        found = shown_passages(result, Answer(Status.OK), self._opened.places(), turn.language)
        others = [one for one in found if one.chunk_id not in read]
        numbered = [one.model_copy(update={"number": at}) for at, one in enumerate(others, len(read) + 1)]
        return [*turn.passages, *numbered]

    def begin_conversation(self) -> None:
        self._conversation = self.last = None

    def close(self) -> None:
        self._held.close()
