"""The prompt of `assay corpus`: questions to the selected corpus, and words that begin with a colon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from shlex import quote
from signal import SIGINT, SIGTERM
from tempfile import TemporaryDirectory

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.open_questions import earlier
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.turn_records import shown_passages
from rag_assay.evals.generation.contract import Answer
from rag_assay.evals.reporting.display import plain
from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.evals.retrieval.bm25 import word_searches
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.cell_selection import named_cell, recommended_cell
from rag_assay.orchestration.corpora.facts import facts_of, first_cell, sentence_of, show_corpora
from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell, open_folder
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.question_service.worker_pool import ServiceLimits
from rag_assay.orchestration.shutdown import grace, was_stopped
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, say
from rag_assay.orchestration.terminal.line_input import Lines
from rag_assay.orchestration.terminal.turn_view import (
    By,
    MatchedWords,
    show_passages,
    show_turn,
    turn_as_json,
)
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.conversations import ShownPassage, Turn
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.suggestions import did_you_mean

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


HELP = """\
  :more 3        three further passages of the last question; :more alone: five
  :sources       the passages of the last answer, whole, with their addresses
  :by rank       passages in the order of the ranking; :by document: together, as they stand in it
  :cell NAME     another cell of the corpus answers; :cell alone: which there are
  :select NAME   another corpus, by its name or number; :select alone: which there are
  :new           start a new conversation
  :json          answers as JSON, or as text again
  :help  :quit   Ctrl-C drops the line, Ctrl-D ends"""
FURTHER = 5


class CorpusPrompt(Closeable):
    """A corpus that is open, and what is typed; keep: conversations and lines for later."""

    def __init__(
        self, corpus: NamedCorpus, home: Home, cell: str | None, by: By, *, as_json: bool, keep: bool
    ) -> None:
        self.home, self.by, self.as_json, self.keep = home, by, as_json, keep
        self.open = self._opened(corpus, cell)
        self._seen = 0  # passages of the last question that were shown

    def close(self) -> None:
        self.open.close()

    def _opened(self, corpus: NamedCorpus, cell: str | None) -> OpenCorpus:
        return OpenCorpus(corpus, self.home, self._choose, cell, keep=self.keep)

    def ask(self, question: str) -> bool:
        """Answer a question and show that; return whether there is an answer, be it that there is none."""
        turn = self.open.ask(question)
        self._seen = len(turn.passages)
        if self.as_json:
            print(turn_as_json(turn, self.open.corpus.name), flush=True)
        else:
            show_turn(turn, self._words(), self.by)
        return turn.status in {Status.OK, Status.REFUSED, Status.NO_CONTEXT, Status.TRUNCATED}

    def run(self) -> int:
        """Answer what is typed until that ends; return the exit code: of a pipe, whether all was answered."""
        lines = Lines(self.home.root / "corpora" / "history" if self.keep else None)
        if lines.is_typed:
            corpus = self.open.corpus
            say(f"{corpus.name}: {sentence_of(facts_of(corpus, self.home))}. Ask, or :help; Ctrl-D ends.")
        failed = False
        with ExitStack() as stack:
            stack.callback(lines.keep)
            if lines.is_typed:
                stack.enter_context(grace(inf, SIGINT))  # Ctrl-C drops a line or an answer
            for line in lines.read(lambda: f"\n{plain(self.open.corpus.name)}> "):
                words = line.strip()
                if words in {":quit", ":q", ":exit"}:
                    break
                if words:
                    failed |= not self._heard(words, typed=lines.is_typed)
        return FAILED if failed and not lines.is_typed else DONE

    def _heard(self, words: str, *, typed: bool) -> bool:
        try:
            if not words.startswith(":"):
                return self.ask(words)
            name, _, rest = words[1:].partition(" ")
            self._do(name, rest.strip())
        except AssayError as error:
            findings = error.findings if isinstance(error, InputError) else [error]
            say(*(f"error: {finding}" for finding in findings))
            return False
        except KeyboardInterrupt:
            if not typed or was_stopped(SIGTERM):
                raise
            say("stopped")
        return True

    def _do(self, name: str, rest: str) -> None:
        does: dict[str, Callable[[str], None]] = {
            "more": self._more,
            "sources": self._sources,
            "by": self._by,
            "cell": self._cell,
            "select": self._select,
            "new": self._new,
            "json": self._json,
            "help": lambda _rest: say(HELP),
        }
        if name not in does:
            raise InputError(f":{name} is not a command of the prompt; {did_you_mean(name, does)}")
        does[name](rest)

    def _more(self, rest: str) -> None:
        n = rest or str(FURTHER)
        if not n.isdecimal() or not 1 <= int(n[:9]) <= 1_000:
            raise InputError(f":more {n}: say how many, as in `:more 3`")
        found = self.open.more()
        further = found[self._seen : self._seen + int(n)]
        if not further:
            say("There are no further passages.")
        self._seen += len(further)
        show_passages(further, self._words(), self.by)

    def _sources(self, _rest: str) -> None:
        turn = self.open.last
        if turn is None:
            raise InputError("nothing was asked yet")
        show_passages(turn.passages, self._words(), self.by, whole=True)

    def _by(self, rest: str) -> None:
        if rest not in list(By):
            raise InputError(f":by {rest or '?'}: say `:by document` or `:by rank`")
        self.by = By(rest)
        if self.open.last is not None:
            show_passages(self.open.last.passages, self._words(), self.by)

    def _cell(self, rest: str) -> None:
        if not rest:
            now = self.open.cell.short
            say("\n".join(f"{'*' if name == now else ' '} {name}" for name in self.open.cells))
            return
        self._go_to(self.open.corpus, _cell_named(rest, self.open.cells))

    def _select(self, rest: str) -> None:
        corpora = Corpora(self.home)
        there = corpora.all()
        if not rest:
            show_corpora([facts_of(one, self.home) for one in there], self.open.corpus.name)
            return
        corpus = pick_corpus(rest, corpora)
        self._go_to(corpus, None)
        corpora.select(corpus)

    def _new(self, _rest: str) -> None:
        self.open.begin_conversation()
        say("A new conversation starts with the next question.")

    def _json(self, _rest: str) -> None:
        self.as_json = not self.as_json
        say("Answers are JSON now." if self.as_json else "Answers are text now.")

    def _go_to(self, corpus: NamedCorpus, cell: str | None) -> None:
        opened = self._opened(corpus, cell)
        self.open.close()
        self.open, self._seen = opened, 0
        say(f"{corpus.name}, {opened.cell.short}; the next question starts a conversation.")

    def _words(self) -> MatchedWords:
        turn = self.open.last
        said = [turn.question, *(one.value for one in turn.understood if not one.removed)] if turn else []
        return MatchedWords(said, self.open.analyzer)

    def _choose(self, study: Study, name: str | None) -> Cell:
        """Return the cell of a name; else the recommended one of a measured study, else the first built."""
        if name is not None:
            return named_cell(study, name)
        store = ArtifactStore(self.home)
        measured = store.current("leaderboard", study.study) is not None
        return recommended_cell(study, self.home) if measured else first_cell(study, store)


def pick_corpus(said: str, corpora: Corpora) -> NamedCorpus:
    there = corpora.all()
    if corpora.named(said) is None and said.isdecimal() and 1 <= int(said[:9]) <= len(there):
        return there[int(said) - 1]
    return corpora.find(said)


def _cell_named(said: str, cells: Sequence[str]) -> str:
    """Return the cell of a name, or the first that has a part of that name.

    >>> _cell_named("dense", ["t.minilm.hybrid.x", "t.minilm.dense.x"])
    't.minilm.dense.x'
    """
    having = [one for one in cells if said in one.split(".")]
    return said if said in cells or not having else having[0]
