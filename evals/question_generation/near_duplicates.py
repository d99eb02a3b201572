"""Near duplicates among texts as short as questions and titles: by their words, and by their embeddings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_assay.evals.retrieval.question_words import content

Matrix = npt.NDArray[np.float32]
NEAR = 0.9  # cosine from which on two questions ask the same
SAME_WORDS = 0.8  # share of the words that two questions have in common, from which on they ask the same
CROWDED = 0.5  # mean cosine of unrelated texts from which on a model's cosines are put in relation to it
UNRELATED = (
    "How is bread baked?",
    "The parliament of the island in the seventeenth century",
    "Wann fährt der letzte Bus?",
    "A cure for diseases of apple trees",
    "Neue Schuhe für den Torwart",
    "Error handling in network protocols",
    "Die Bildung von Wolken",
    "Who sold the painting?",
)
"""Texts that have nothing to do with each other."""


def chance_cosine(vectors: Matrix) -> float:
    """Return the mean cosine of texts that have nothing to do with each other, where that is high; else 0.

    Of all-MiniLM-L6-v2 it is about 0.1; of the e5 family, whose vectors all lie close together, about 0.8: a
    threshold that is right for the one would call all texts of the other duplicates.

    Args:
        vectors: unit vectors of UNRELATED, shape (texts, dimensions).
    """
    if len(vectors) < 2:
        return 0.0
    cosines = vectors @ vectors.T
    mean = float(cosines[np.triu_indices(len(vectors), 1)].mean())
    return min(mean, 0.99) if mean > CROWDED else 0.0


def beyond_chance(cosines: Matrix, chance: float) -> Matrix:
    """Return cosines on a scale where unrelated texts have 0 and equal ones 1, as Cohen's kappa does.

    >>> beyond_chance(np.array([0.8, 0.9, 1.0], np.float32), 0.8).round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray((cosines - chance) / (1 - chance), np.float32)


class NearDuplicates:
    """Questions that were kept; says of another one which of them it repeats.

    Args:
        chance: `chance_cosine` of the embedder.
        cosine: from which on, beyond chance, two questions ask the same.
        words: the Jaccard similarity of their content words from which on they do.

    >>> kept = NearDuplicates()
    >>> kept.keep("When does the ferry leave the harbour?", np.array([1, 0], np.float32))
    >>> kept.like("When did the ferry leave the harbour", np.array([0, 1], np.float32))
    'When does the ferry leave the harbour?'
    >>> kept.like("Who is the mayor?", np.array([0, 1], np.float32)) is None
    True
    """

    def __init__(self, chance: float = 0.0, cosine: float = NEAR, words: float = SAME_WORDS) -> None:
        self._chance, self._cosine, self._words = chance, cosine, words
        self._kept: list[tuple[str, frozenset[str]]] = []
        self._vectors: list[Matrix] = []

    def like(self, question: str, vector: Matrix) -> str | None:
        """Return the kept question that this one repeats, the nearest one; None where it repeats none.

        vector: of length 1, shape (dimensions,)
        """
        if not self._kept:
            return None
        own = _words(question)
        cosines = beyond_chance(np.stack(self._vectors) @ vector, self._chance)
        shared = [_jaccard(own, other) for _, other in self._kept]
        near = [
            at for at in range(len(self._kept)) if cosines[at] >= self._cosine or shared[at] >= self._words
        ]
        nearest = max(near, key=lambda at: max(float(cosines[at]), shared[at]), default=None)
        return None if nearest is None else self._kept[nearest][0]

    def keep(self, question: str, vector: Matrix) -> None:
        """Keep a question; later ones are compared with it."""
        self._kept.append((question, _words(question)))
        self._vectors.append(vector)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.text.casefold() for word in content(text))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0
