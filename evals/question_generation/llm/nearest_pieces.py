"""Finds the pieces of a corpus that lie nearest to a question or to another piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.evals.question_generation.llm.candidates import DocumentPiece
from rag_assay.evals.retrieval.bm25_scores import Bm25Scores, Parameters
from rag_assay.evals.retrieval.question_words import content

CANDIDATES, PARTNERS = 30, 12
"""Pieces with the most words in common whose meaning is looked at, for a question and for a piece."""
COPY = 0.95  # cosine from which on two pieces say the same: they are no two hops
_OKAPI = Parameters("lower_bounded", k1=1.2, b=0.75, epsilon=0.25, delta=1.0)

Embed = Callable[[Sequence[str]], Matrix]


class Nearness:
    """The pieces of a corpus, by shared words and then by meaning: only a few are embedded for each question.

    Args:
        pieces: those that are searched.
        embed: texts -> unit vectors, shape (texts, dimensions).
    """

    def __init__(self, pieces: Sequence[DocumentPiece], embed: Embed) -> None:
        self._pieces = pieces
        self._embed = embed
        self._scores = Bm25Scores.of(lexical_of(piece.text for piece in pieces), _OKAPI)

    def best(self, question: str, k: int) -> list[DocumentPiece]:
        """Return k pieces for a question: by turns the next one by words (BM25), and by meaning.

        Fewer where few share a word with it; meaning is looked at among the CANDIDATES best by words.
        """
        rows = self._by_words(question)
        if not rows:
            return []
        cosines = self._cosines(question, rows)
        by_meaning = [rows[at] for at in np.argsort(-cosines, kind="stable").tolist()]
        turns = [row for pair in zip(rows, by_meaning, strict=True) for row in pair]
        return [self._pieces[row] for row in list(dict.fromkeys(turns))[:k]]

    def partner(self, piece: DocumentPiece) -> DocumentPiece | None:
        """Return the piece of another document that is nearest to one and shares rare words with it.

        None where no other document shares a word. A piece that says the same is left out.
        """
        rows = [
            row
            for row in self._by_words(piece.text)
            if self._pieces[row].document.doc_id != piece.document.doc_id
        ][:PARTNERS]
        if not rows:
            return None
        cosines = self._cosines(piece.text, rows)
        cosines[cosines >= COPY] = -1.0
        at = int(np.argmax(cosines))
        return self._pieces[rows[at]] if cosines[at] > -1.0 else None

    def _by_words(self, text: str) -> list[int]:
        """Return the rows with the highest BM25 of the content words of a text."""
        counts = Counter(word.text.casefold() for word in content(text))
        rows, scores = self._scores.score({word: float(n) for word, n in counts.items()})
        order = np.lexsort((rows, -scores))[:CANDIDATES]
        return [int(rows[at]) for at in order.tolist()]

    def _cosines(self, text: str, rows: Sequence[int]) -> Matrix:
        vectors = self._embed([text, *(self._pieces[row].text for row in rows)])
        return np.asarray(vectors[1:] @ vectors[0], np.float32)
