"""What makes a stored score out of date: the metric's code, and its judge."""

from __future__ import annotations

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.semantic_similarity import JUDGE


def test_semantic_similarity_hangs_on_its_judge() -> None:
    assert get_metric("semantic_similarity").versions() == ["1", JUDGE.revision()]
    assert get_metric("ndcg@10").versions() == ["1"]
