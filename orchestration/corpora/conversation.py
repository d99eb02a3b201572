"""A corpus that is open to be asked: one conversation at a terminal, by a cell of its study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.cell_loader import open_talk, places_of
from rag_assay.evals.chat.chat_session import STOPPED, ChatSession, put
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.turn_records import Places, shown_passages
from rag_assay.evals.chat.votes import earlier
from rag_assay.evals.export.loader import open_exported
from rag_assay.evals.generation.contract import Answer
from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.evals.retrieval.bm25 import WordSearch
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import NamedCorpus
from rag_assay.warehouse.conversations import Begun, Conversations, ShownPassage, Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

Choose = Callable[[Study, str | None], Cell]
"""Which cell of a study is meant: the one of a name, or the best to be had."""


class OpenCorpus:
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
        self._held = ExitStack()
        try:
            work = BuildContext(home)
            self._held.callback(work.close)
            self._places: Places = {}
            self.talk = (
                self._export(cell, work) if corpus.kind == "export" else self._cell(cell, choose, work)
            )
            self._held.callback(self.talk.close)
            if not keep:
                passing = self._held.enter_context(TemporaryDirectory(prefix="assay-corpus-"))
                self.talk.chats = Conversations(Home(Path(passing)))
        except BaseException:
            self._held.close()
            raise
        self._conversation: str | None = None
        self._last: Turn | None = None

    def _cell(self, name: str | None, choose: Choose, work: BuildContext) -> ChatSession:
        study = read_study(self.corpus.study, sources_gone=True)
        self.cells = tuple(one.short for one in study.cells() if one.reads_ranking)
        cell = choose(study, name)
        try:
            talk = open_talk(study, cell, work)
        except InputError as error:
            raise InputError(*(self._what_to_do(one) for one in error.findings)) from error
        self._places = places_of(study, cell, work)
        self._words = [study.retrievers[cell.retriever], *study.retrievers.values()]
        return talk

    def _export(self, name: str | None, work: BuildContext) -> ChatSession:
        folder = Path(self.corpus.target)
        pipeline = open_exported(folder, work)
        short = pipeline.cell.short
        if name is not None and name not in {short, pipeline.cell.key}:
            raise InputError(f"{folder} is the export of one cell, {short}, and has no cell {name!r}")
        self.cells = (short,)
        self._words = [pipeline.retrieval.retriever]
        return ChatSession(pipeline, Conversations(work.home))

    def _what_to_do(self, finding: str) -> str:
        if self.corpus.kind != "built":
            return finding
        about = finding.partition("; ")[0] if "assay run" in finding else finding
        return f"{about}; `assay corpus build {quoted_argument(self.corpus.target)}` builds it"

    @property
    def cell(self) -> Cell:
        return self.talk.cell

    @property
    def analyzer(self) -> Analyzer:
        """How the corpus' search by words tells words apart; without function words, which are everywhere."""
        found = next(_word_searches(self._words), None)
        analyzer = found.analyzer if found else Analyzer("stemmed")
        return analyzer._replace(functional=False)

    def ask(self, question: str) -> Turn:
        """Answer a question of this conversation; what was said before it goes along.

        Raises:
            QuestionError: it is empty or too long.
            KeyboardInterrupt: it was stopped; that is kept in place of an answer.
        """
        chats = self.talk.chats
        if self._conversation is None:
            begun = Begun(record_id=token_urlsafe(12), place="terminal")
            self._conversation = chats.begin(self.talk.study, begun)
        (asked,) = put([self.talk], self._conversation, QuestionRequest(question))
        try:
            turn = asked.answered()
        except KeyboardInterrupt:
            asked.keep(asked.failed(Status.NOT_RUN, STOPPED))
            raise
        self._last = asked.keep(turn)
        return self._last

    def more(self) -> Sequence[ShownPassage]:
        """Return all passages that were found for the last question, those that the answer read first."""
        turn = self._last
        if turn is None or self._conversation is None:
            raise InputError("nothing was asked yet")
        there = self.talk.chats.read(self.talk.study, self._conversation)
        history = earlier(there.turns if there else (), turn.number, self.cell.key)
        result = self.talk.pipeline.search_row(self.talk.row(turn, history, turn.asked_at))
        read = {one.chunk_id for one in turn.passages}
        found = shown_passages(result, Answer(Status.OK), self._places, turn.language)
        others = [one for one in found if one.chunk_id not in read]
        numbered = [one.model_copy(update={"number": at}) for at, one in enumerate(others, len(read) + 1)]
        return [*turn.passages, *numbered]

    @property
    def last(self) -> Turn | None:
        """The last question with its answer."""
        return self._last

    def begin_conversation(self) -> None:
        """Let the next question begin a conversation of its own."""
        self._conversation = self._last = None

    def close(self) -> None:
        """Release models, indexes and, where nothing is kept, the conversation."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _word_searches(retrievers: Iterable[Retriever]) -> Iterator[WordSearch]:
    waiting: list[object] = list(retrievers)
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, WordSearch):
            yield part
        elif isinstance(part, BaseModel):
            waiting[:0] = [getattr(part, name) for name in type(part).model_fields]
        elif isinstance(part, list | tuple):
            waiting[:0] = list(part)


def quoted_argument(text: str) -> str:
    """Return a path or URL as a shell takes it."""
    from shlex import quote

    return quote(text)
