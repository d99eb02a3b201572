"""Metrics: one file each, found by name (`ndcg@10`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from evals.measuring.abstention import Abstention
from evals.measuring.contract import Metric
from evals.measuring.costs import AnswerLatency, RetrievalLatency, Tokens
from evals.measuring.coverage import EvidenceCoverage
from evals.measuring.hit_rate import HitRate
from evals.measuring.mrr import Mrr
from evals.measuring.ndcg import Ndcg
from evals.measuring.recall import Recall
from evals.measuring.rouge import RougeL
from evals.measuring.semantic_similarity import SemanticSimilarity
from warehouse.errors import InputError

AT_K: dict[str, Callable[[int], Metric]] = {
    "hit_rate": HitRate,
    "mrr": Mrr,
    "ndcg": Ndcg,
    "recall": Recall,
    "evidence_coverage": EvidenceCoverage,
}
PLAIN: dict[str, Callable[[], Metric]] = {
    "semantic_similarity": SemanticSimilarity,
    "rouge_l": RougeL,
    "abstention": Abstention,
    "retrieval_latency": RetrievalLatency,
    "answer_latency": AnswerLatency,
    "tokens": Tokens,
}
_AT = re.compile(r"^([a-z_]+)@([1-9][0-9]{0,3})$")


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    >>> get_metric("ndcg@10").name
    'ndcg@10'

    Raises:
        InputError: no such metric; lists those that there are.
    """
    match = _AT.match(name)
    if match and match[1] in AT_K:
        return AT_K[match[1]](int(match[2]))
    if name in PLAIN:
        return PLAIN[name]()
    known = [f"{stem}@K" for stem in AT_K] + list(PLAIN)
    raise InputError(f"unknown metric {name!r}; known are {', '.join(known)} (K: a depth such as 10)")
