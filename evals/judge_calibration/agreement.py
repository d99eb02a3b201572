"""How far the annotators of a study agree, and what each of them does, a row a measure (AGREEMENT)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.rubrics.rubric import Criterion, Rubric, metric_name
from rag_assay.evals.statistics import raters
from rag_assay.evals.statistics.bootstrap import UNIT
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.estimate import Estimate, Floats
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering

Flags: TypeAlias = "npt.NDArray[np.bool_]"


class RatingOverlap(NamedTuple):
    """Human ratings of one criterion; who, items, values: annotator, item and value of each first score.

    at: its place among the annotator's own, 0 to 1; NaN where not known; again: the value given the second
        time
    clusters: of the items, shape (items,); None: each is about a question of its own
    """

    people: Sequence[str]
    who: Codes
    items: Codes
    values: Floats
    at: Floats
    again: Floats
    clusters: Codes | None

    def of(self, chosen: Flags) -> Codes | None:
        return raters.renumber(self.clusters, self.items[chosen])


def overlap(scores: pl.DataFrame, questions: Mapping[str, str], clusters: Clustering) -> RatingOverlap:
    """Arrange the scores of one criterion by annotator and item; a score of one cell is an item of its own.
    A score of all cells counts for each of these items or, if there is none, is one item.
    """
    rows = by_item(scores)
    first = rows.unique(["annotator", "item"], keep="first", maintain_order=True)
    later = rows.join(first.select("annotator", "item", "showing"), on=["annotator", "item"], suffix="_first")
    shown_again = later.filter(pl.col("showing") > pl.col("showing_first"))
    second = shown_again.unique(["annotator", "item"], keep="first", maintain_order=True)
    second = second.select("annotator", "item", again="value")
    first = first.join(second, on=["annotator", "item"], how="left", maintain_order="left")
    ids = first["item"].unique(maintain_order=True)
    number = {name: at for at, name in enumerate(ids)}
    people = sorted(first["annotator"].unique())
    of_people = {name: at for at, name in enumerate(people)}
    of_items = first.unique("item", keep="first", maintain_order=True)
    asked = [
        question or questions.get(item) or item
        for question, item in of_items.select("question_id", "item_id").iter_rows()
    ]
    return RatingOverlap(
        people,
        np.array([of_people[name] for name in first["annotator"]], np.int64),
        np.array([number[name] for name in first["item"]], np.int64),
        first["value"].to_numpy().astype(np.float64),
        first["at"].to_numpy().astype(np.float64),
        first["again"].to_numpy().astype(np.float64),
        clusters.codes(asked),
    )


def ratings_of(rows: pl.DataFrame, rubric: str, criterion: Criterion) -> pl.DataFrame:
    same = pl.col("criterion").eq_missing(pl.lit(criterion.name, pl.String))
    return rows.filter((pl.col("rubric") == rubric) & same)


def by_item(scores: pl.DataFrame) -> pl.DataFrame:
    alone = scores.filter(pl.col("cell").is_not_null())
    everywhere = scores.filter(pl.col("cell").is_null()).drop("cell", "question_id")
    places = alone.select("item_id", "cell", "question_id").unique(maintain_order=True)
    beside = everywhere.join(places, on="item_id", how="left", maintain_order="left")
    name = pl.concat_str("item_id", "cell", "question_id", separator="\x1f", ignore_nulls=True)
    order = pl.struct("scored_at", "position").rank("average").over("annotator")
    many = pl.len().over("annotator")
    known = pl.struct("scored_at", "position").n_unique().over("annotator") > 1
    return (
        pl.concat([alone, beside.select(alone.columns)])
        .with_columns(item=name, at=pl.when(known).then((order - 1) / (many - 1)).otherwise(None))
        .sort("item", "annotator", "showing", "scored_at", nulls_last=True, maintain_order=True)
    )


FEW = 20  # with fewer items that two people have scored, nothing is known of their agreement
MEASURES = {
    "items": "items that were scored",
    "shared": "of them those that two people or more have scored",
    "alpha": "Krippendorff's alpha of these",
    "equal": "share of pairs of scores of an item that are equal",
    "kappa": "Cohen's kappa of two people; of ordered values weighted by the square of their distance",
    "scores": "scores of a person, repeats left out",
    "bias": "mean difference of a person's scores to the mean of the others' of the same items",
    "drift": "that difference in the second half of a person's scores less that in the first",
    "trend": "what that difference changes by from a person's first score to the last, along a line",
    "repeats": "share of the items shown twice that a person gave the same value again",
    "repeats_apart": "mean distance of the two values",
    "repeats_alpha": "Krippendorff's alpha of the two values",
    "minutes": "that a person has looked at items",
}
"""Measure -> what it is. Those without an annotator are of all together."""
_WEIGHTS: Mapping[raters.Level, raters.Weights] = {
    "nominal": "none",
    "ordinal": "quadratic",
    "interval": "quadratic",
}
_ONE_ANNOTATOR = "no other annotator has scored these items"
_NO_REPEATS = "no item was shown twice"


class Agreed(NamedTuple):
    """One row, beside its rubric and criterion."""

    measure: str
    estimate: Estimate
    annotator: str | None = None
    other: str | None = None


def agreement_rows(
    scores: pl.DataFrame,
    rubrics: Mapping[str, Rubric],
    questions: Mapping[str, str],
    seed: int,
    clusters: Clustering = ALONE,
) -> list[dict[str, Any]]:
    """Return rows of `schemas.AGREEMENT`, rubric by rubric and criterion by criterion. A criterion without
    ratings has its rows of all together, with the reason.
    """
    valued = scores.filter((pl.col("status") == "ok") & pl.col("value").is_not_null())
    found = []
    for name, rubric in rubrics.items():
        for criterion in rubric.criteria:
            held = overlap(ratings_of(valued, name, criterion), questions, clusters)
            measured = (*_together(held, rubric.level, seed), *_apart(held, rubric.level, seed))
            found += [_row(name, criterion.name, one) for one in measured]
        found += [_row(name, None, one) for one in _minutes(scores.filter(pl.col("rubric") == name))]
    return found


def agreement_warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    together = (row for row in rows if row["annotator"] is None)
    of_all = {(row["rubric"], row["criterion"], row["measure"]): row for row in together}
    found = []
    for (rubric, criterion, measure), row in of_all.items():
        if measure != "alpha" or not of_all[rubric, criterion, "items"]["n"]:
            continue
        name, alpha, n = metric_name(rubric, criterion), row["value"], row["n"] or 0
        if n < FEW:
            found.append(
                f"{name}: only {n} items were scored by two people; {FEW} or more tell how far they agree"
            )
        elif alpha is None:
            found.append(f"{name}: no agreement can be computed: {row['reason']}")
        elif alpha < raters.TENTATIVE:
            found.append(
                f"{name}: people agree too little (Krippendorff's alpha {alpha:.3f} on {n} items): below "
                f"{raters.TENTATIVE} not even tentative conclusions hold"
            )
    return found


def _row(rubric: str, criterion: str | None, one: Agreed) -> dict[str, Any]:
    named = {"measure": one.measure, "rubric": rubric, "criterion": criterion}
    return {**named, "annotator": one.annotator, "other": one.other, **one.estimate._asdict()}


def _together(held: RatingOverlap, level: raters.Level, seed: int) -> Iterator[Agreed]:
    often = np.bincount(held.items)
    items, shared = len(often), int((often > 1).sum())
    yield Agreed("items", Estimate(items, n=items))
    yield Agreed("shared", Estimate(shared, n=shared))
    if not shared:
        who = held.people[0] if len(held.people) == 1 else ""
        why = f"{who} alone has scored" if who else "no item was scored by two people"
        why = why if items else "there are no ratings by it yet"
        yield Agreed("alpha", Estimate(None, reason=why))
        yield Agreed("equal", Estimate(None, reason=why))
    else:
        yield Agreed("alpha", raters.krippendorffs_alpha(held.items, held.values, level, seed, held.clusters))
        yield Agreed("equal", raters.equal_pairs(held.items, held.values, seed, held.clusters))
    yield from _repeats(held, np.ones(len(held.who), np.bool_), level, seed, None)


def _apart(held: RatingOverlap, level: raters.Level, seed: int) -> Iterator[Agreed]:
    differences = raters.to_the_others(held.items, held.values)
    for number, name in enumerate(held.people):
        own = held.who == number
        n = int(own.sum())
        yield Agreed("scores", Estimate(n, n=n), name)
        yield from _habits(held, own & np.isfinite(differences), differences, seed, name)
        yield from _repeats(held, own, level, seed, name)
    for one, other in combinations(range(len(held.people)), 2):
        yield from _pair(held, one, other, level, seed)


def _habits(
    held: RatingOverlap, chosen: Flags, differences: Floats, seed: int, name: str
) -> Iterator[Agreed]:
    clusters = held.of(chosen)
    yield Agreed("bias", raters.bias_of(differences[chosen], seed, clusters), name)
    at = held.at[chosen]
    if not len(at) or not np.isfinite(at).all():
        why = "the order of these scores is not known" if len(at) else _ONE_ANNOTATOR
        yield Agreed("drift", Estimate(None, reason=why), name)
        yield Agreed("trend", Estimate(None, reason=why), name)
        return
    yield Agreed("drift", raters.change((at >= 0.5).astype(np.float64), differences[chosen], clusters), name)
    yield Agreed("trend", raters.change(at, differences[chosen], clusters), name)


def _repeats(
    held: RatingOverlap, own: Flags, level: raters.Level, seed: int, name: str | None
) -> Iterator[Agreed]:
    chosen = own & np.isfinite(held.again)
    if not chosen.any():
        for measure in ("repeats", "repeats_apart", "repeats_alpha"):
            yield Agreed(measure, Estimate(None, reason=_NO_REPEATS), name)
        return
    first, again, clusters = held.values[chosen], held.again[chosen], held.of(chosen)
    yield Agreed("repeats", raters.mean_of((first == again).astype(np.float64), seed, clusters, UNIT), name)
    yield Agreed("repeats_apart", raters.mean_of(np.abs(first - again), seed, clusters), name)
    items = np.tile(np.arange(len(first)), 2)
    both = np.concatenate([first, again])
    yield Agreed("repeats_alpha", raters.krippendorffs_alpha(items, both, level, seed, clusters), name)


def _pair(held: RatingOverlap, one: int, other: int, level: raters.Level, seed: int) -> Iterator[Agreed]:
    of_one, of_other = np.flatnonzero(held.who == one), np.flatnonzero(held.who == other)
    both = (held.items[of_one], held.items[of_other])
    items, at_one, at_other = np.intersect1d(*both, assume_unique=True, return_indices=True)
    if not len(items):
        return
    first, second = held.values[of_one[at_one]], held.values[of_other[at_other]]
    clusters = raters.renumber(held.clusters, items)
    names = held.people[one], held.people[other]
    yield Agreed("equal", raters.mean_of((first == second).astype(np.float64), seed, clusters, UNIT), *names)
    yield Agreed("kappa", raters.cohens_kappa(first, second, _WEIGHTS[level], clusters), *names)


def _minutes(scores: pl.DataFrame) -> Iterator[Agreed]:
    seconds = pl.col("seconds")
    shown = scores.group_by("annotator", "item_id", "cell", "question_id", "showing").agg(seconds.max())
    total = shown.group_by("annotator").agg(seconds.sum(), n=seconds.count()).sort("annotator")
    for name, spent, n in total.iter_rows():
        unknown = Estimate(None, reason="it was not measured")
        yield Agreed("minutes", Estimate(spent / 60, n=n) if n else unknown, name)
