"""Semantic similarity between answer and ground truth, as ragas computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.contract import MetricContext

JUDGE = EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=512, overflow="average")
"""The same embedder judges every cell, whatever embedder the cell itself searches with."""


class SemanticSimilarity(AnswerMetric):
    """Cosine of the all-MiniLM-L6-v2 embeddings of answer and ground truth (ragas SemanticSimilarity)."""

    stem, title = "semantic_similarity", "Semantic similarity"
    bounds = (-1.0, 1.0)

    def versions(self) -> list[str]:
        return [self.code_version, JUDGE.revision()]

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        pairs = [case.pair for case in cases]
        texts = sorted({text for pair in pairs for text in pair})
        # In the order of ragas' operations, whose import takes seconds.
        vectors = context.embedder(JUDGE).passages(texts).vectors.astype(np.float64)
        known = {text: vector / np.linalg.norm(vector) for text, vector in zip(texts, vectors, strict=True)}
        return [Score(Status.OK, float(known[one] @ known[other])) for one, other in pairs]
