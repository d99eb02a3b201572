"""Metrics, found by name (`ndcg@10`, `evidence_coverage@2000tokens`)."""

from __future__ import annotations

import re

from rag_assay.evals.metrics.abstention import Abstention
from rag_assay.evals.metrics.citations import CitationPrecision, CitationRecall
from rag_assay.evals.metrics.contract import Metric, RetrievalMetric
from rag_assay.evals.metrics.costs import AnswerLatency, RetrievalLatency, Tokens
from rag_assay.evals.metrics.coverage import EvidenceCoverage
from rag_assay.evals.metrics.ranking_metrics import (
    HitRate,
    MeanAveragePrecision,
    Mrr,
    Ndcg,
    Precision,
    Recall,
)
from rag_assay.evals.metrics.semantic_similarity import SemanticSimilarity
from rag_assay.evals.metrics.text_overlap import Bleu, Chrf, ExactMatch, RougeL
from rag_assay.evals.metrics.time_window import (
    HitRateByTitle,
    HitRateInTime,
    MrrByTitle,
    MrrInTime,
    NdcgByTitle,
    NdcgInTime,
    RecallByTitle,
    RecallInTime,
)
from rag_assay.evals.metrics.token_budget import EvidenceCoverageInTokens, InTokens, RecallInTokens
from rag_assay.evals.metrics.token_overlap import TokenIou, TokenPrecision, TokenRecall
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.registry import Registry
from rag_assay.warehouse.suggestions import near_names

METRICS: Registry[Metric] = Registry("metrics", Metric, called="stem")
METRICS.add(
    HitRate,
    Mrr,
    Ndcg,
    Recall,
    Precision,
    MeanAveragePrecision,
    HitRateInTime,
    MrrInTime,
    NdcgInTime,
    RecallInTime,
    HitRateByTitle,
    MrrByTitle,
    NdcgByTitle,
    RecallByTitle,
    EvidenceCoverage,
    TokenPrecision,
    TokenRecall,
    TokenIou,
    SemanticSimilarity,
    RougeL,
    Bleu,
    Chrf,
    ExactMatch,
    Abstention,
    CitationPrecision,
    CitationRecall,
    RetrievalLatency,
    AnswerLatency,
    Tokens,
)
IN_TOKENS: dict[str, type[InTokens]] = {
    kind.stem: kind for kind in (EvidenceCoverageInTokens, RecallInTokens)
}
"""What a stem is with a budget of context in place of a depth: `recall@2000tokens`."""
_NAME = re.compile(r"^([a-z][a-z0-9_]*)(?:@(?:([1-9][0-9]{0,3})|([1-9][0-9]{0,6})tokens))?$")


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    >>> get_metric("ndcg@10").name, get_metric("evidence_coverage@2000tokens").title
    ('ndcg@10', 'Evidence coverage in 2,000 tokens')
    """
    match = _NAME.match(name)
    stem, depth, tokens = match.groups() if match else ("", None, None)
    if tokens and stem in IN_TOKENS:
        return IN_TOKENS[stem](int(tokens))
    kind = METRICS[stem] if stem in METRICS and not tokens else None
    if kind is None or issubclass(kind, RetrievalMetric) != (depth is not None):
        raise InputError(_unknown(name))
    return kind(int(depth)) if issubclass(kind, RetrievalMetric) and depth else kind()


def has_depth(stem: str) -> bool:
    """Return whether a metric is written with a depth, as in `ndcg@10`.

    >>> has_depth("ndcg"), has_depth("rouge_l")
    (True, False)
    """
    return issubclass(METRICS[stem], RetrievalMetric)


def counts_passages(name: str) -> bool:
    """Return whether a metric reads a fixed number of passages or documents, whatever their length.

    >>> counts_passages("evidence_coverage@5"), counts_passages("evidence_coverage@2000tokens")
    (True, False)
    """
    return name.rpartition("@")[2].isdecimal()


def _unknown(name: str) -> str:
    stem = name.partition("@")[0]
    if stem in METRICS and has_depth(stem):
        how = f"the metric {stem} is written with a depth from 1 to 9999, as in {stem}@10"
        if stem in IN_TOKENS:
            how += f", or with a budget of 1 to 9999999 tokens of context, as in {stem}@2000tokens"
        elif "tokens" in name:
            how += f" (those with a budget of tokens are {' and '.join(IN_TOKENS)})"
        return f"{how}, not {name!r}"
    near = near_names(stem, METRICS)
    if near:
        deep = near[0] in METRICS.built_in and has_depth(near[0])
        return f"unknown metric {name!r}; did you mean {name.replace(stem, near[0]) if deep else near[0]}?"
    known = [f"{one}@K" if has_depth(one) else one for one in METRICS.built_in]
    known += [f"{one}@Ntokens" for one in IN_TOKENS]
    others = [one for one in METRICS if one not in METRICS.built_in]
    letters = "K: a depth such as 10; N: a budget of context such as 2000"
    return f"unknown metric {name!r}; known are {', '.join([*known, *others])} ({letters})"
