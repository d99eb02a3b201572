"""Sentences beside the headline: power, chances, replicates, ceilings, and what the metric cannot see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
import polars as pl

from rag_assay.evals.metrics import counts_passages
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    count,
    interval,
    listed,
    number,
    percent,
    quantity,
    several,
    with_sign,
)
from rag_assay.evals.reporting.standings import CellStanding, RankedResult, Result, Subset, varying_axes
from rag_assay.evals.reporting.texts import Language, read_texts, words_in
from rag_assay.evals.statistics.bootstrap import CONFIDENCE, RESAMPLES
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.significance import paired_bootstrap
from rag_assay.evals.statistics.verdict import round_up

OUT_OF_REACH = 20  # times as many questions: a larger number does not help


def power_sentence(open_entries: Sequence[RankedResult], n: int, metric: MetricInfo) -> str:
    """Say how small a difference the study finds, and how many questions would settle open comparisons."""
    results = _open(open_entries)
    finds = [result.detectable for result in results if result.detectable is not None]
    if not results:
        return ""
    if finds:
        text = f"The smallest difference that this study can find is about {_about(median(finds), metric)}"
    else:
        text = "So few questions cannot find any difference"
    enough, settled = settling(open_entries, n)
    if not settled:
        return f"{text}; no number of questions within reach would settle the open comparisons."
    which = "the rest" if settled == len(results) else f"{settled} of the {len(results)} open comparisons"
    return f"{text}; about {count(enough)} questions would settle {which}."


def settling(open_entries: Sequence[RankedResult], n: int) -> tuple[int, int]:
    """Return how many questions would settle at least half of the open comparisons, and how many of them.

    (0, 0): no number within reach settles any.
    """
    results = _open(open_entries)
    needed = sorted(result.questions_needed for result in results if result.questions_needed is not None)
    within = [number for number in needed if number <= OUT_OF_REACH * n]
    if not within:
        return 0, 0
    enough = within[min(len(within), math.ceil(len(results) / 2)) - 1]
    if len(within) == len(results):
        enough = within[-1]
    return round_up(enough), sum(number <= enough for number in within)


def _open(entries: Sequence[RankedResult]) -> list[Result]:
    return [entry.result for entry in entries if entry.result.p is not None]


def chances_sentence(found: Sequence[RankedResult], least: float = 0.005) -> str | None:
    """List the chances of being best, the largest first; None where fewer than two cells have one."""
    likely = sorted(
        ((entry.p_best, entry.label) for entry in found if entry.p_best is not None),
        key=lambda pair: -pair[0],
    )
    if len(likely) < 2:
        return None
    shown = [f"{label} {round(100 * share)} %" for share, label in likely if share >= least]
    if not shown:
        return f"No pipeline of {count(len(likely))} has a notable chance of being best."
    return f"Chance of being best: {listed(shown, 6)}."


METHODS = read_texts("methods")


def unit_phrase(clusters: Clustering, language: Language = "en") -> str:
    by = clusters.by if clusters.by in {"documents", "ids"} else "questions"
    return words_in(METHODS, language)(by, n=clusters.found)


def interval_words(clusters: Clustering, seed: int, language: Language = "en") -> str:
    # A comma is a decimal sign in German.
    resamples = f"{RESAMPLES:,}" if language == "en" else count(RESAMPLES)
    facts = {"level": f"{CONFIDENCE:.0%}", "resamples": resamples, "seed": seed}
    return words_in(METHODS, language)("interval", unit=unit_phrase(clusters, language), **facts)


def _about(value: float, metric: MetricInfo) -> str:
    if metric.unit or not 0 < value < 1:
        return quantity(value, metric.unit)
    return f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"


def replicates_sentence(data: ReportData, subset: Subset) -> str | None:
    metric = next((one for one in data.metrics if one.kind == "answer"), data.primary)
    known = [(one, one.results[metric.name]) for one in subset.standings if metric.name in one.results]
    results = [(one, result) for one, result in known if result.replicates > 1]
    if not results:
        return None
    times = max(result.replicates for _, result in results)
    opening = f"{_whose(len(results), len(subset.standings))} asked {times} times; a value is the mean"
    apart = [(result.spread, one) for one, result in results if result.spread is not None]
    if not apart:
        return f"{opening}."
    widest, standing = max(apart, key=lambda pair: pair[0])
    differ = f"The means of {metric.title} are the same each time"
    if widest:
        differ = f"The means of {metric.title} of one cell lie up to {number(widest, metric.unit)} apart"
        if len(apart) > 1:
            differ += f", the most in {standing.cell.label(varying_axes(subset.standings))}"
    return f"{opening}. {differ}.{_noise([result for _, result in results])}"


def _noise(results: list[Result]) -> str:
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


_WHAT = {"evidence": "from the reference passages", "nothing": "from no passage at all"}


def ceiling_sentences(data: ReportData, subset: Subset) -> list[str]:
    """Compare each model's best retrieval with the reference passages, by the first metric of answers."""
    metric = next((one for one in data.metrics if one.kind == "answer"), None)
    if metric is None:
        return []
    by_model: dict[str, list[CellStanding]] = {}
    for one in subset.standings:
        facts = (data.generators or {}).get(one.cell.generator or "")
        result = one.results.get(metric.name)
        if facts and facts.model and result and result.value is not None:
            by_model.setdefault(facts.model, []).append(one)
    found = (_sentence(data, subset, metric, model, cells) for model, cells in by_model.items())
    return [sentence for sentence in found if sentence]


def _sentence(
    data: ReportData, subset: Subset, metric: MetricInfo, model: str, cells: Sequence[CellStanding]
) -> str | None:
    of = {
        what: [one for one in cells if ((data.generators or {})[one.cell.generator or ""].reads) == what]
        for what in ("ranking", *_WHAT)
    }
    if not of["ranking"] or not of["evidence"]:
        return None
    best = _best(of["ranking"], metric)
    label = best.cell.label(varying_axes(subset.standings))
    chosen = f", the best of {several(len(of['ranking']), 'cell')}" if len(of["ranking"]) > 1 else ""
    parts = [f"{number(_value(best, metric), metric.unit)} from retrieved passages ({label}{chosen})"]
    for what, words in _WHAT.items():
        if of[what]:
            other = _best(of[what], metric)
            apart = _difference(data, metric, other, best)
            parts.append(f"{number(_value(other, metric), metric.unit)} {words} ({apart})")
    listed = "; ".join(parts)
    return f"{metric.title} of {model}: {listed}; differences are to the retrieved passages."


def _difference(data: ReportData, metric: MetricInfo, one: CellStanding, other: CellStanding) -> str:
    rows = data.values.filter(pl.col("metric") == metric.name).drop_nulls("value")
    first, second = (
        dict(rows.filter(pl.col("cell") == each.cell.key).select("question_id", "value").iter_rows())
        for each in (one, other)
    )
    both = sorted(first.keys() & second.keys())
    if not both:
        return "on no common question"
    apart = np.array([[first[question] - second[question]] for question in both], np.float64)
    found = paired_bootstrap(apart, data.seed, clusters=data.clusters.codes(both))
    low, high = float(found.low[0]), float(found.high[0])
    ends = "no interval" if math.isnan(low) else interval(low, high, metric.unit)
    return f"{with_sign(float(found.mean[0]), metric.unit)} [{ends}] on {several(len(both), 'question')}"


def _best(cells: Sequence[CellStanding], metric: MetricInfo) -> CellStanding:
    sign = 1 if metric.higher_is_better else -1
    return max(cells, key=lambda one: (one.results[metric.name].covered, sign * _value(one, metric)))


def _value(standing: CellStanding, metric: MetricInfo) -> float:
    value = standing.results[metric.name].value
    return 0.0 if value is None else value  # cells without a value are not among those that are compared


def blind_spot_sentences(data: ReportData, subset: Subset) -> tuple[str, ...]:
    axes = varying_axes(subset.standings)
    ranked = [standing for standing in subset.standings if standing.rank is not None]
    others = (one for one in data.metrics if one.kind in ("retrieval", "answer") and one != data.primary)
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
    """Say that other cells are significantly better than the leader by ``metric``."""
    leader = next((one.results.get(metric.name) for one in ranked), None)
    sign = 1 if metric.higher_is_better else -1
    known = ((one.results[metric.name], one) for one in ranked if metric.name in one.results)
    apart = [(sign * (found.difference or 0.0), one) for found, one in known if found.tied is False]
    better = [(by, one) for by, one in apart if by > 0]
    if not better or leader is None:
        return None
    best = max(better, key=lambda pair: pair[0])[1]
    verb = "is" if len(better) == 1 else "are"
    return (
        f"By {metric.title} the leader has {number(leader.value, metric.unit)}; "
        f"{several(len(better), 'ranked cell')} {verb} significantly better, "
        f"the most {best.cell.label(axes)} with {number(best.results[metric.name].value, metric.unit)}."
    )
