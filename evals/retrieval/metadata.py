"""Retrieves documents whose keywords the question names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, IndexRetriever
from rag_assay.evals.retrieval.gazetteer import SPECIFIC, learnt
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, Rows, Scores, nothing

AS_WRITTEN = 1.0  # how alike a name must be: misspelt ones, which cost a comparison with all, are the step's


class Metadata(IndexRetriever):
    """Chunks of the documents that carry an entity of the question as a keyword.

    The score is 1 / (number of the document's keywords), however many of them are named: a keyword says more
    of a document that has few. Case does not count. Entities come from an understanding step; dates among
    them are no keywords. Where there is none, the keywords of the index are found in the question as the step
    `entities` finds them by default, misspelt ones aside.
    """

    kind: ClassVar[str] = "metadata"
    code_version: ClassVar[str] = "2"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        known = index.derived(_keywords)
        entities = {_folded(entity.value) for entity in query.entities if entity.kind != "date"}
        named = (entities or set(_named(query.text, index))) & known.rows.keys()
        if not named:
            return nothing()
        rows = np.unique(np.concatenate([known.rows[keyword] for keyword in named]))
        rows = rows[query.permitted(rows)]
        return Ranking.best(rows, known.shares[rows], self.k)


class _Keywords(NamedTuple):
    """rows: keyword -> the chunks of its documents; shares: 1 / number of keywords, shape (chunks,)."""

    rows: dict[str, Rows]
    shares: Scores


def _folded(keyword: str) -> str:
    return " ".join(unicodedata.normalize("NFC", keyword).casefold().split())


def _keywords(index: OpenIndex) -> _Keywords:
    rows: dict[str, list[int]] = {}
    shares = np.zeros(len(index), np.float64)
    for row, keywords in enumerate(index.column("keywords").to_list()):
        folded_keywords = {folded for folded in map(_folded, keywords or ()) if folded}
        if folded_keywords:
            shares[row] = 1 / len(folded_keywords)
        for keyword in folded_keywords:
            rows.setdefault(keyword, []).append(row)
    return _Keywords({keyword: np.array(those, np.int64) for keyword, those in rows.items()}, shares)


def _named(text: str, index: OpenIndex) -> Iterator[str]:
    for found in learnt(index, {}, SPECIFIC).find(text, AS_WRITTEN):
        yield from map(_folded, found.values)
