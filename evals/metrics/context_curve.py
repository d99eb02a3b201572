"""How much of the gold a reader has after each passage, and how long what it has read is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.metrics.coverage import covered_characters
from rag_assay.warehouse.spans import Span

CHARACTERS_A_TOKEN = 4
"""By this contexts are measured in tokens: the same for all cells, whatever tokenizer or model they have."""


class ContextCurve(NamedTuple):
    """After each passage of a ranking.

    characters: how long the passages are so far; what they repeat counts again, since it is read again
    values: share of the gold that they hold so far
    """

    characters: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, tokens: int) -> float:
        """Return the share of the gold in so many tokens of context.

        Of a passage that the budget ends in, that part of its gain counts that fits: a budget that is a word
        short of a passage is not worth a whole passage less. A ranking that is shorter keeps its last share.

        >>> ContextCurve((400, 2_000), (0.25, 0.75)).at(300)  # 800 of 1,600 characters of the second passage
        0.5
        """
        return self.at_each([tokens])[0]

    def at_each(self, tokens: Sequence[int]) -> list[float]:
        """Return the share in each of several lengths of context."""
        lengths, values = [0, *self.characters], [0.0, *self.values]
        found: list[float] = np.interp([one * CHARACTERS_A_TOKEN for one in tokens], lengths, values).tolist()
        return found


def context_curve(gold: Gold, hits: Sequence[Span]) -> ContextCurve:
    """Return the curve of a ranking: by evidence coverage, or by recall where whole documents are gold.

    >>> context_curve(Gold({"a": 1}, (Span("a", 0, 10),)), [Span("b", 0, 30), Span("a", 5, 25)])
    ContextCurve(characters=(30, 50), values=(0.0, 0.5))
    """
    characters, values = [], []
    length, value = 0, 0.0
    for number, hit in enumerate(hits, 1):
        length += hit.end - hit.start
        if hit.doc_id in gold.documents:
            value = _held(gold, hits[:number])
        characters.append(length)
        values.append(value)
    return ContextCurve(tuple(characters), tuple(values))


def _held(gold: Gold, hits: Sequence[Span]) -> float:
    """Return the share of the gold in all of the hits, as the metrics count it."""
    if not gold.spans and not gold.missing:
        found = len({hit.doc_id for hit in hits} & gold.documents.keys())
        return found / len(gold.documents) if gold.needs_all else float(found > 0)
    covered = [covered_characters(span, hits) for span in gold.spans]
    lengths = [span.end - span.start for span in gold.spans]
    if gold.needs_all:
        return sum(covered) / (sum(lengths) + gold.missing)
    return max((c / n for c, n in zip(covered, lengths, strict=True)), default=0.0)
