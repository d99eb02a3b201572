"""What a study could have found, what would settle the rest, and who is how likely the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.display import count, listed, quantity
from rag_assay.evals.reporting.entries import RankedResult
from rag_assay.evals.statistics.question_clusters import Clustering

OUT_OF_REACH = 20  # times as many questions: nobody is helped by a larger number


def power_sentence(open_entries: Sequence[RankedResult], n: int, metric: MetricInfo) -> str:
    """Say how small a difference the study finds, and how many questions would settle open comparisons.

    "" where that was not computed (a leaderboard of an earlier version) or there is nothing to settle.

    Args:
        open_entries: what is not significantly different from the leader.
        n: questions.
    """
    results = [entry.result for entry in open_entries if entry.result.p is not None]
    finds = [result.detectable for result in results if result.detectable is not None]
    needed = sorted(result.questions_needed for result in results if result.questions_needed is not None)
    within = [number for number in needed if number <= OUT_OF_REACH * n]
    if not results:
        return ""
    if finds:
        text = f"The smallest difference that this study can find is about {_about(median(finds), metric)}"
    else:
        text = "So few questions cannot find any difference"
    if not within:
        return f"{text}; no number of questions within reach would settle what is open."
    enough = within[min(len(within), math.ceil(len(results) / 2)) - 1]
    if len(within) == len(results):
        enough = within[-1]
    settled = sum(number <= enough for number in within)
    which = "the rest" if settled == len(results) else f"{settled} of the {len(results)} open comparisons"
    return f"{text}; about {count(_rounded(enough))} questions would settle {which}."


def chances_sentence(found: Sequence[RankedResult], least: float = 0.005) -> str | None:
    """List the chances of being best, the largest first; None where there are not two."""
    likely = sorted(
        ((entry.p_best, entry.label) for entry in found if entry.p_best is not None),
        key=lambda pair: -pair[0],
    )
    if len(likely) < 2:
        return None
    shown = [f"{label} {_share(share)}" for share, label in likely if share >= least]
    if not shown:
        return f"No pipeline of {count(len(likely))} has a notable chance of being best."
    return f"Chance of being best: {listed(shown, 6)}."


def unit_phrase(clusters: Clustering) -> str:
    """Say what is drawn again: questions, or clusters of them."""
    if clusters.by == "documents":
        return f"clusters of questions that share documents ({clusters.found})"
    if clusters.by == "ids":
        return f"clusters of questions by their ids ({clusters.found})"
    return "the questions"


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _about(value: float, metric: MetricInfo) -> str:
    if metric.unit or not 0 < value < 1:
        return quantity(value, metric.unit)
    return f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"


def _rounded(n: int) -> int:
    """Round up to two digits that say something.

    >>> _rounded(87), _rounded(238), _rounded(1001)
    (87, 240, 1100)
    """
    step = 10 ** max(0, len(str(n)) - 2)
    return math.ceil(n / step) * step
