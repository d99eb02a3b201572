"""Documents whose keywords the question names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from assets.indexing.lexical import plain_tokens
from evals.retrieving.contract import Depth, Query, Ranking, Retriever, Rows, Scores, nothing
from evals.retrieving.index import OpenIndex


class Metadata(Retriever):
    """Chunks of the documents that carry an entity of the question as a keyword.

    The score is 1 / (number of the document's keywords), however many of them are named: a keyword says more
    of a document that has few. Entities come from an understanding step; dates among them are no keywords.
    Where the question has none, the keywords of the index are looked for in its words. Case does not count.
    """

    code_version: ClassVar[str] = "1"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks of the documents that carry a named keyword; nothing where none is named."""
        if not len(index) or not query.text.strip():
            return nothing()
        known: _Keywords = index.made("keywords", lambda: _keywords(index))
        values = {_folded(entity.value) for entity in query.entities if entity.kind != "date"}
        named = values & known.rows.keys() if values else set(_in_words(query.text, known))
        if not named:
            return nothing()
        rows = np.unique(np.concatenate([known.rows[keyword] for keyword in named]))
        rows = rows[query.permitted(rows)]
        return Ranking.best(rows, known.shares[rows], self.k)


class _Keywords(NamedTuple):
    """rows: keyword -> the chunks of its documents; shares: 1 / number of keywords, shape (chunks,).

    words: a keyword's words -> the keywords that are written so
    lengths: how many words keywords have
    """

    rows: dict[str, Rows]
    shares: Scores
    words: dict[tuple[str, ...], list[str]]
    lengths: frozenset[int]


def _folded(keyword: str) -> str:
    return " ".join(keyword.casefold().split())


def _keywords(index: OpenIndex) -> _Keywords:
    rows: dict[str, list[int]] = {}
    shares = np.zeros(len(index), np.float64)
    for row, keywords in enumerate(index.chunks["keywords"].to_list()):
        own = {folded for folded in map(_folded, keywords or ()) if folded}
        if own:
            shares[row] = 1 / len(own)
        for keyword in own:
            rows.setdefault(keyword, []).append(row)
    words: dict[tuple[str, ...], list[str]] = {}
    for keyword in rows:
        tokens = tuple(plain_tokens(keyword))
        if tokens:
            words.setdefault(tokens, []).append(keyword)
    found = {keyword: np.array(own_rows, np.int64) for keyword, own_rows in rows.items()}
    return _Keywords(found, shares, words, frozenset(map(len, words)))


def _in_words(text: str, known: _Keywords) -> Iterable[str]:
    """Yield the keywords whose words stand in ``text`` one after the other."""
    tokens = plain_tokens(text)
    for length in known.lengths:
        for at in range(len(tokens) - length + 1):
            yield from known.words.get(tuple(tokens[at : at + length]), ())
