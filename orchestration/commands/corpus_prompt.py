"""The prompt of `assay corpus`: questions to the selected corpus, and words that begin with a colon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from signal import SIGINT, SIGTERM

from rag_assay.evals.reporting.display import plain
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.cell_selection import named_cell, recommended_cell
from rag_assay.orchestration.corpora.conversation import OpenCorpus
from rag_assay.orchestration.corpora.facts import facts_of, first_cell, sentence_of, show_corpora
from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
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
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.suggestions import did_you_mean

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


@dataclass
class DisplayOptions:
    """How answers are shown."""

    by: By = By.document
    as_json: bool = False


class CorpusPrompt:
    """A corpus that is open, and what is typed. Use it as a context manager.

    Args:
        corpus: which is asked first.
        home: of this machine.
        cell: the name of a cell; None: the recommended one.
        shown: how answers are shown.
        keep: whether conversations and lines are kept for later.
    """

    def __init__(
        self, corpus: NamedCorpus, home: Home, cell: str | None, shown: DisplayOptions, *, keep: bool = True
    ) -> None:
        self.home, self.shown, self.keep = home, shown, keep
        self.open = self._opened(corpus, cell)
        self._seen = 0  # passages of the last question that were shown

    def __enter__(self) -> CorpusPrompt:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.open.close()

    def _opened(self, corpus: NamedCorpus, cell: str | None) -> OpenCorpus:
        return OpenCorpus(corpus, self.home, self._choose, cell, keep=self.keep)

    def ask(self, question: str) -> bool:
        """Answer a question and show that; return whether there is an answer, be it that there is none."""
        turn = self.open.ask(question)
        self._seen = len(turn.passages)
        if self.shown.as_json:
            print(turn_as_json(turn, self.open.corpus.name), flush=True)
        else:
            show_turn(turn, self._words(), self.shown.by)
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
            findings = error.findings if isinstance(error, InputError) else [str(error)]
            for finding in findings:
                say(f"error: {finding}")
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
        show_passages(further, self._words(), self.shown.by)

    def _sources(self, _rest: str) -> None:
        turn = self.open.last
        if turn is None:
            raise InputError("nothing was asked yet")
        show_passages(turn.passages, self._words(), self.shown.by, whole=True)

    def _by(self, rest: str) -> None:
        if rest not in list(By):
            raise InputError(f":by {rest or '?'}: say `:by document` or `:by rank`")
        self.shown.by = By(rest)
        if self.open.last is not None:
            show_passages(self.open.last.passages, self._words(), self.shown.by)

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
        self.shown.as_json = not self.shown.as_json
        say("Answers are JSON now." if self.shown.as_json else "Answers are text now.")

    def _go_to(self, corpus: NamedCorpus, cell: str | None) -> None:
        """Open another corpus or cell; where that fails, the one of before stays open."""
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
    """Return the corpus of a name, or of a number as the list shows it."""
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
