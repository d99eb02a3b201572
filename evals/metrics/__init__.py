"""Metrics, found by name (`ndcg@10`, `evidence_coverage@2000tokens`)."""

from __future__ import annotations

import re

from rag_assay.evals.metrics.contract import Metric, RetrievalMetric
from rag_assay.evals.metrics.token_budget import EvidenceCoverageInTokens, InTokens, RecallInTokens
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.registry import Registry
from rag_assay.warehouse.suggestions import near_names

METRICS: Registry[Metric] = Registry("metrics", Metric, called="stem")
METRICS.add_places(
    "rag_assay.evals.metrics",
    hit_rate="ranking_metrics:HitRate",
    mrr="ranking_metrics:Mrr",
    ndcg="ranking_metrics:Ndcg",
    recall="ranking_metrics:Recall",
    precision="ranking_metrics:Precision",
    map="ranking_metrics:MeanAveragePrecision",
    hit_rate_in_time="time_window:HitRateInTime",
    mrr_in_time="time_window:MrrInTime",
    ndcg_in_time="time_window:NdcgInTime",
    recall_in_time="time_window:RecallInTime",
    hit_rate_by_title="time_window:HitRateByTitle",
    mrr_by_title="time_window:MrrByTitle",
    ndcg_by_title="time_window:NdcgByTitle",
    recall_by_title="time_window:RecallByTitle",
    evidence_coverage="ranking_metrics:EvidenceCoverage",
    token_precision="token_overlap:TokenPrecision",  # noqa: S106 -- a name
    token_recall="token_overlap:TokenRecall",  # noqa: S106 -- a name
    token_iou="token_overlap:TokenIou",  # noqa: S106 -- a name
    semantic_similarity="semantic_similarity:SemanticSimilarity",
    rouge_l="text_overlap:RougeL",
    bleu="text_overlap:Bleu",
    chrf="text_overlap:Chrf",
    exact_match="text_overlap:ExactMatch",
    abstention="abstention:Abstention",
    citation_precision="citations:CitationPrecision",
    citation_recall="citations:CitationRecall",
    retrieval_latency="costs:RetrievalLatency",
    answer_latency="costs:AnswerLatency",
    tokens="costs:Tokens",
)
IN_TOKENS: dict[str, type[InTokens]] = {
    kind.stem: kind for kind in (EvidenceCoverageInTokens, RecallInTokens)
}
"""What a stem is with a budget of context in place of a depth: `recall@2000tokens`."""
_NAME = re.compile(r"^([a-z][a-z0-9_]*)(?:@(?:([1-9][0-9]{0,3})|([1-9][0-9]{0,6})tokens))?$")


def get_metric(name: str) -> Metric:
    match = _NAME.match(name)
    stem, depth, tokens = match.groups() if match else ("", None, None)
    if tokens and stem in IN_TOKENS:
        return IN_TOKENS[stem](int(tokens))
    kind = METRICS[stem] if stem in METRICS and not tokens else None
    if kind is None or issubclass(kind, RetrievalMetric) != (depth is not None):
        raise InputError(_unknown(name))
    return kind(int(depth)) if issubclass(kind, RetrievalMetric) and depth else kind()


def has_depth(stem: str) -> bool:
    return issubclass(METRICS[stem], RetrievalMetric)


def counts_passages(name: str) -> bool:
    return name.rpartition("@")[2].isdecimal()


def counts_tokens(name: str) -> bool:
    return name.rpartition("@")[2].endswith("tokens") and "@" in name


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
