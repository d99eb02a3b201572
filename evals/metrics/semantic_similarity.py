"""Semantic similarity between answer and ground truth, by ragas."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from ragas.embeddings.base import BaseRagasEmbedding

    from rag_assay.evals.metrics.context import MetricContext

JUDGE = EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=512, overflow="average")
"""The same embedder judges every cell, whatever embedder the cell itself searches with."""


class SemanticSimilarity(AnswerMetric):
    """Cosine of the embeddings of answer and ground truth: ragas' SemanticSimilarity, all-MiniLM-L6-v2."""

    stem, title = "semantic_similarity", "Semantic similarity"
    bounds = (-1.0, 1.0)
    explanation = (
        "Cosine of the all-MiniLM-L6-v2 embeddings of answer and ground truth (ragas SemanticSimilarity)."
    )

    def versions(self) -> list[str]:
        return [self.code_version, JUDGE.revision()]

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
        from ragas.metrics.collections import SemanticSimilarity as RagasSimilarity

        pairs = [case.pair for case in cases]
        texts = sorted({text for pair in pairs for text in pair})
        vectors = context.embedder(JUDGE).passages(texts).vectors
        metric = RagasSimilarity(embeddings=_prepared(texts, vectors))

        async def score() -> dict[tuple[str, str], float]:
            return {
                pair: float((await metric.ascore(reference=pair[0], response=pair[1])).value)
                for pair in sorted(set(pairs))
            }

        import asyncio

        found = asyncio.run(score())
        return [Score(Status.OK, found[pair]) for pair in pairs]


def _prepared(texts: list[str], vectors: Matrix) -> BaseRagasEmbedding:
    from ragas.embeddings.base import BaseRagasEmbedding

    known = {text: vector.tolist() for text, vector in zip(texts, vectors, strict=True)}

    class Prepared(BaseRagasEmbedding):
        def embed_text(self, text: str, **_: object) -> list[float]:
            return known[text]

        async def aembed_text(self, text: str, **_: object) -> list[float]:
            return known[text]

    return Prepared()
