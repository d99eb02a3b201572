"""The words of an index by one analyzer, and what lexical search derives from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.evals.retrieval.bm25_scores import Bm25Scores, Parameters


@dataclass(frozen=True)
class WordsOfChunks:
    """The words of each chunk: a lexical index the other way round.

    begins: where each chunk's words begin, shape (chunks + 1,)
    numbers: word numbers, shape (postings,)
    shares: count / length of the chunk, shape (postings,)
    holding: in how many chunks each word stands, shape (words,)
    """

    lexical: Lexical
    begins: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float64]
    holding: npt.NDArray[np.int64]

    @classmethod
    def of(cls, lexical: Lexical) -> WordsOfChunks:
        """Turn postings round."""
        holding = np.diff(lexical.begins)
        order = np.argsort(lexical.rows, kind="stable")
        rows = lexical.rows[order]
        numbers = np.repeat(np.arange(len(lexical.words), dtype=np.int32), holding)[order]
        shares = lexical.counts[order] / lexical.lengths[rows]
        begins = np.searchsorted(rows, np.arange(len(lexical.lengths) + 1)).astype(np.int64)
        return cls(lexical, begins, numbers, shares, holding)

    def chunk(self, row: int) -> slice:
        """Where a chunk's words stand."""
        return slice(int(self.begins[row]), int(self.begins[row + 1]))


@dataclass(frozen=True)
class TermIndex:
    """Postings of an index's words, and the models of them that searches share."""

    lexical: Lexical
    _models: dict[Parameters, Bm25Scores] = field(default_factory=dict, repr=False)

    def bm25(self, parameters: Parameters) -> Bm25Scores:
        """Return the BM25 model with these parameters, computed once."""
        if parameters not in self._models:
            self._models[parameters] = Bm25Scores.of(self.lexical, parameters)
        return self._models[parameters]

    @cached_property
    def of_chunks(self) -> WordsOfChunks:
        """The words of each chunk."""
        return WordsOfChunks.of(self.lexical)
