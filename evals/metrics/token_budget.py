"""Metrics of what a ranking holds within a budget of context: every ranking is read up to the same length
(`context_curve`), which no chunk size is favoured by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, Sees
from rag_assay.evals.metrics.ranking_metrics import EvidenceCoverage, Recall, covered_share
from rag_assay.warehouse.spans import Span

CHARACTERS_A_TOKEN = 4
"""By this contexts are measured in tokens: the same for all cells, whatever tokenizer or model they have."""

FEW_CHARACTERS = frozenset({"zh", "ja", "ko"})
"""Languages whose tokens have far fewer characters: 1.5 in Chinese, by multilingual-e5-small on XQuAD, where
eight languages in other scripts have 3.3 to 4.3.
"""


def equal_budget(language: str | None) -> int:
    """
    >>> equal_budget("en"), equal_budget(None), equal_budget("zh")
    (2000, 2000, 750)
    """
    return 750 if language in FEW_CHARACTERS else 2_000


class ContextCurve(NamedTuple):
    """After each passage: characters so far (repeated ones count again), and the share of the gold so far."""

    characters: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, tokens: int) -> float:
        """Return the share in so many tokens; a passage that the budget ends in counts in part.

        >>> ContextCurve((400, 2_000), (0.25, 0.75)).at(300)  # 800 of 1,600 characters of the second passage
        0.5
        """
        return self.at_each([tokens])[0]

    def at_each(self, tokens: Sequence[int]) -> list[float]:
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
    if not gold.spans and not gold.missing:
        found = len({hit.doc_id for hit in hits} & gold.documents.keys())
        return found / len(gold.documents) if gold.needs_all else float(found > 0)
    return covered_share(gold, hits)


class InTokens(RetrievalMetric):
    """A share of the gold in the first so many tokens of context, written `STEM@Ntokens`.

    A token is four characters, whatever tokenizer a pipeline has. A passage that the budget ends in counts in
    part: that share of its gain that fits. What passages repeat is read, and counted, again. A ranking that
    ends before the budget keeps what it has.
    """

    sees: Sees = "passages"

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)  # no more passages than that can fit
        self.tokens = tokens
        self.name = f"{self.stem}@{tokens}tokens"
        self.title = f"{self.label} in {tokens:,} tokens"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        lengths = accumulate((hit.end - hit.start for hit in hits), initial=0)
        read = sum(before < self.tokens * CHARACTERS_A_TOKEN for before in lengths)
        return context_curve(gold, hits[:read]).at(self.tokens)


class EvidenceCoverageInTokens(InTokens, EvidenceCoverage):
    """Share of the characters of the evidence quotes that the first N tokens of the passages hold together:
    every pipeline is read up to the same length, so that no chunk size is favoured.
    """


class RecallInTokens(InTokens, Recall):
    """Share of the gold documents (any one where one suffices) in the first N tokens of the passages: every
    pipeline is read up to the same length, so that no chunk size is favoured.
    """

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return super().value(replace(gold, spans=(), missing=0), hits)
