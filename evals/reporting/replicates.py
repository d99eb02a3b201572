"""What asking cells more than once has shown: how far the same cell lies from itself."""

from __future__ import annotations

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import number, percent
from rag_assay.evals.reporting.standings import Result, Subset, varying_axes


def replicates_sentence(data: ReportData, subset: Subset) -> str | None:
    """Say how often cells were asked, and how far replicates lie apart; None where each was asked once."""
    metric = next((one for one in data.metrics if one.kind == "answer"), data.primary)
    results = [
        (one, result)
        for one in subset.standings
        if (result := one.results.get(metric.name)) and result.replicates > 1
    ]
    if not results:
        return None
    times = max(result.replicates for _, result in results)
    opening = f"{_whose(len(results), len(subset.standings))} asked {times} times; a value is the mean"
    apart = [(result.spread, one) for one, result in results if result.spread is not None]
    if not apart:
        return f"{opening}."
    widest, standing = max(apart, key=lambda pair: pair[0])
    where = (
        f", the most in {standing.cell.label(varying_axes(subset.standings))}"
        if len(apart) > 1 and widest
        else ""
    )
    return f"{opening}. {_apart(metric, widest)}{where}.{_noise([result for _, result in results])}"


def _noise(results: list[Result]) -> str:
    """Say how much of the variance of a value comes from asking again; "" where it was not computed."""
    shares = [
        result.replicate_sd**2 / result.replicates / total
        for result in results
        if result.replicate_sd is not None
        and result.question_sd is not None
        and (total := result.question_sd**2 + result.replicate_sd**2 / result.replicates)
    ]
    if not shares or max(shares) < 0.0005:
        return ""
    return (
        f" Asking again is {percent(max(shares))} of the variance of a mean at most; the rest is the "
        "questions', which only more questions make smaller."
    )


def _whose(some: int, of: int) -> str:
    if some == of:
        return "Each cell was" if of > 1 else "The cell was"
    return f"{some} of {of} cells {'were' if some > 1 else 'was'}"


def _apart(metric: MetricInfo, widest: float) -> str:
    if not widest:
        return f"The means of {metric.title} are the same each time"
    return f"The means of {metric.title} of one cell lie up to {number(widest, metric.unit)} apart"
