"""A question's answer and its passages on a terminal, from 40 columns on."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any

from rich.padding import Padding
from rich.text import Text

from rag_assay.assets.tokenization.words import word_places
from rag_assay.evals.reporting.display import number, plain, quantity, several, truncate
from rag_assay.evals.retrieval.analyzer import Analyzer, question_tokens
from rag_assay.orchestration.terminal.cli_errors import console, text, width
from rag_assay.warehouse.conversations import ShownPassage, Turn

MOST = 20_000  # characters of a text that are looked at
Places = list[tuple[int, int]]


class MatchedWords:
    """The words of a question in one form, and where they stand in texts.

    >>> found = MatchedWords(["How do ferries cross the fjord?"], Analyzer("stemmed", "english", False))
    >>> text = "The Ferry crosses a fjord."
    >>> [text[start:end] for start, end in found.places(text)]
    ['Ferry', 'crosses', 'fjord']
    """

    def __init__(self, questions: Sequence[str], analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        words = [word for text in questions for word in question_tokens(text, contracted=False)]
        self._forms = set(analyzer.counted(words))

    def places(self, text: str) -> Places:
        """Return (start, end) of each word of a text that a search for the question counts."""
        found = list(word_places(text[:MOST]))
        forms = self._analyzer.forms([text[start:end].casefold() for start, end in found])
        return [place for place, form in zip(found, forms, strict=True) if form in self._forms]

    def densest(self, text: str, length: int) -> tuple[int, int]:
        """Return (start, end) of the stretch of a text that holds most of the words, cut between words.

        >>> text = "One two three. The ferry leaves at noon. Four five six seven."
        >>> found = MatchedWords(["When does the ferry leave?"], Analyzer("stemmed", "english", False))
        >>> start, end = found.densest(text, 30)
        >>> text[start:end]
        'The ferry leaves at'
        """
        if len(text) <= length:
            return 0, len(text)
        starts = [start for start, _end in self.places(text)]
        best = max(starts, key=lambda at: sum(at <= one < at + length * 2 // 3 for one in starts), default=0)
        begin = max(0, min(best - length // 3, len(text) - length))
        end = begin + length
        if begin and (space := text.find(" ", begin, best)) >= 0:
            begin = space + 1
        if end < len(text) and (space := text.rfind(" ", begin, end)) > begin:
            end = space
        return begin, end


NARROWEST = 40
EXTRACT = 320  # characters of a passage, unless all of it is wanted
ANSWER = 20_000  # characters
MATCH, EVIDENCE, CITED = "bold yellow", "underline", "bold green"


class By(StrEnum):
    """The order of passages."""

    document = "document"
    rank = "rank"


def show_turn(turn: Turn, words: MatchedWords, by: By) -> None:
    out = console(width=width(NARROWEST))
    for line in _answer(turn):
        out.print(line)
    show_passages(turn.passages, words, by)
    out.print(text(_cost(turn), "dim"))


def show_passages(
    passages: Sequence[ShownPassage], words: MatchedWords, by: By, *, whole: bool = False
) -> None:
    """Print passages in this order; whole: all of their text, not an extract about the question's words."""
    out = console(width=width(NARROWEST))
    for document, parts in documents_of(passages, by):
        out.print()
        out.print(text(truncate(document.title or document.url or document.doc_id, 300), "bold"))
        about = " · ".join(filter(None, [(document.date or "")[:10], document.url]))
        if about:
            out.print(_indented(text(about, "dim")))
        for passage in parts:
            out.print(_indented(_place(passage)))
            out.print(_indented(_extract(passage, words, whole=whole)))


def documents_of(passages: Sequence[ShownPassage], by: By) -> list[tuple[ShownPassage, list[ShownPassage]]]:
    """Return (a passage, all passages) of each document, the best first; by rank: of neighbours."""
    if by is By.rank:
        found = [list(group) for _doc, group in groupby(passages, key=lambda one: one.doc_id)]
    else:
        groups: dict[str, list[ShownPassage]] = {}
        for one in passages:
            groups.setdefault(one.doc_id, []).append(one)
        found = sorted(groups.values(), key=lambda group: -max(one.score for one in group))
        found = [sorted(group, key=lambda one: one.start) for group in found]
    return [(group[0], group) for group in found]


def turn_as_json(turn: Turn, corpus: str) -> str:
    """Return a turn as one line of JSON, without a character that a terminal would act on."""
    said: dict[str, Any] = {"corpus": corpus, **turn.model_dump(mode="json")}
    line = json.dumps(said, ensure_ascii=False)
    return "".join(one if plain(one) == one else f"\\u{ord(one):04x}" for one in line)


def _answer(turn: Turn) -> Iterator[Text]:
    for one in turn.understood:
        if one.value and one.removable and not one.removed:
            yield text(f"{one.kind.replace('_', ' ')}: {truncate(one.value, 300)}", "dim")
    if turn.answer:
        yield text(truncate(turn.answer, ANSWER))
    if turn.reason:
        yield text(f"[{turn.status}] {turn.reason}", "yellow")
    if turn.turns_left_out:
        yield text(f"{several(turn.turns_left_out, 'turn')} of the conversation left out: too long", "yellow")


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, 2), expand=False)


def _place(passage: ShownPassage) -> Text:
    facts = [
        number(passage.score),
        "cited" if passage.cited else "",
        f"page {passage.page}" if passage.page is not None else "",
        " › ".join(passage.section),
    ]
    mark = text(f"[{passage.number}]", CITED if passage.cited else "bold")
    return Text.assemble(mark, " ", text(" · ".join(filter(None, facts)), "dim"))


def _extract(passage: ShownPassage, words: MatchedWords, *, whole: bool) -> Text:
    begin, end = (0, len(passage.text)) if whole else words.densest(passage.text, EXTRACT)
    pairs = ((at, passage.text[at - 1 : at + 1]) for at in range(begin, end))
    kept = [at for at, pair in pairs if whole or at == begin or not pair.isspace()]  # no doubled space
    shown = "".join(" " if passage.text[at].isspace() and not whole else passage.text[at] for at in kept)
    found = text(shown)  # a character that is replaced is one character still, so that places stay
    evidence = [(bisect_left(kept, start), bisect_left(kept, stop)) for start, stop in passage.evidence]
    for style, places in ((MATCH, words.places(shown)), (EVIDENCE, evidence)):
        for start, stop in places:
            found.stylize(style, start, stop)
    ends = ("…" if begin else "", "…" if end < len(passage.text) else "")
    return Text.assemble(ends[0], found, ends[1])


def _cost(turn: Turn) -> str:
    axes = turn.cell.split(".", 1)[-1].replace(".", " · ")
    tokens = (turn.prompt_tokens, turn.completion_tokens)
    facts = [
        axes,
        quantity(turn.seconds, "s") if turn.seconds is not None else "",
        turn.model or "",
        f"{tokens[0]} + {tokens[1]} tokens" if None not in tokens else "",
        f"{turn.usd:.6f} US dollars" if turn.usd else "",
    ]
    return ", ".join(filter(None, facts))
