"""Where the words of a question stand in a passage, as the corpus' search by words tells words apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assay.evals.retrieval.analyzer import Analyzer, question_tokens

_WORD = re.compile(r"\w+")
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
        found = list(_WORD.finditer(text[:MOST]))
        forms = self._analyzer.forms([one[0].casefold() for one in found])
        return [one.span() for one, form in zip(found, forms, strict=True) if form in self._forms]

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
