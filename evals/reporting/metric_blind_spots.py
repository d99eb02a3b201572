"""Finds what the primary metric cannot see: axes without effect on it, and other metrics that disagree."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics import counts_passages
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import number, several
from rag_assay.evals.reporting.standings import CellStanding, Subset, varying_axes


def blind_spot_sentences(data: ReportData, subset: Subset) -> tuple[str, ...]:
    """Return what a reader of the headline must know of ``subset`` beside it, a sentence each."""
    axes = varying_axes(subset.standings)
    ranked = [standing for standing in subset.standings if standing.rank is not None]
    others = [
        metric for metric in data.metrics if metric.kind in ("retrieval", "answer") and metric != data.primary
    ]
    beaten = (_beaten(ranked, metric, axes) for metric in others)
    return (*_blind(data.primary, subset), *(text for text in beaten if text))


def _blind(metric: MetricInfo, subset: Subset) -> list[str]:
    def differ(axis: str) -> bool:
        return len({getattr(standing.cell, axis) for standing in subset.standings}) > 1

    found = []
    if metric.sees == "documents" and differ("chunking"):
        found.append(
            f"{metric.title} reads a ranking as documents, each at its best chunk: it hardly sees where "
            "chunks are cut. To rank chunkings, put a metric of equally long contexts first, such as "
            "evidence_coverage@2000tokens or, where whole documents are gold, recall@2000tokens."
        )
    if counts_passages(metric.name) and metric.sees == "passages" and differ("chunking"):
        found.append(
            f"{metric.title} reads the same number of passages of every chunking, however long they are: as "
            "many long ones hold more text. To compare chunkings at an equal length of context, put "
            "evidence_coverage@2000tokens first."
        )
    if metric.sees in ("documents", "passages") and differ("generator"):
        found.append(
            f"{metric.title} sees no answer: generators on the same ranking have the same value. "
            "To rank generators, put a metric of answers first."
        )
    return found


def _beaten(ranked: Sequence[CellStanding], metric: MetricInfo, axes: Sequence[str]) -> str | None:
    """Say that others do better by ``metric`` than the cell that leads by another, if that is no chance."""
    leader = next((one.results.get(metric.name) for one in ranked), None)
    sign = 1 if metric.higher_is_better else -1
    better = [
        (sign * difference, one)
        for one in ranked
        if (result := one.results.get(metric.name))
        and result.tied is False
        and (difference := result.difference)
        and sign * difference > 0
    ]
    if not better or leader is None:
        return None
    best = max(better, key=lambda pair: pair[0])[1]
    verb = "does" if len(better) == 1 else "do"
    return (
        f"By {metric.title} the leader has {number(leader.value, metric.unit)}; "
        f"{several(len(better), 'ranked cell')} {verb} better than it by more than chance, "
        f"the most {best.cell.label(axes)} with {number(best.results[metric.name].value, metric.unit)}."
    )
