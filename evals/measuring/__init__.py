"""Metrics: one file each, found by name (`ndcg@10`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

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
    raise InputError(_unknown(name))


def _unknown(name: str) -> str:
    stem = name.partition("@")[0]
    if stem in AT_K:
        return f"the metric {stem} is written with a depth from 1 to 9999, as in {stem}@10, not {name!r}"
    known = [f"{stem}@K" for stem in AT_K] + list(PLAIN)
    near = get_close_matches(stem, [*AT_K, *PLAIN], n=1, cutoff=0.7)
    hint = f"; did you mean {name.replace(stem, near[0]) if near[0] in AT_K else near[0]}?" if near else ""
    return f"unknown metric {name!r}" + (hint or f"; known are {', '.join(known)} (K: a depth such as 10)")
