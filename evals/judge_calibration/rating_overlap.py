"""Scores of one criterion as arrays: who has scored which item, first and once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.resampling import Floats

Flags: TypeAlias = npt.NDArray[np.bool_]


class RatingOverlap(NamedTuple):
    """What people said of the items of one criterion, first and once more.

    people: names, in order
    who, items, values: of each first score the person's and the item's number, and what was given
    at: the place of each first score among the person's own, 0 to 1; NaN where the order is not known
    again: of each first score what the same person gave the second time; NaN: was not asked again
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
        """Return the clusters of some scores by their items, numbered without gaps."""
        if self.clusters is None:
            return None
        return np.unique(self.clusters[self.items[chosen]], return_inverse=True)[1].astype(np.int64)


def overlap(scores: pl.DataFrame, questions: Mapping[str, str], clusters: Clustering) -> RatingOverlap:
    """Arrange the scores of one criterion that hold.

    A score of one cell alone is of an item of its own: equal contents may have been scored unequally there. A
    score of all cells stands beside each of those, or where there is none beside the others like it.

    Args:
        scores: rows of `annotation_schemas.HUMAN_SCORES` of one criterion, with values.
        questions: id of an item -> its question, where the scores do not say it.
        clusters: which questions are not independent of each other.
    """
    rows = by_item(scores)
    first = rows.unique(["annotator", "item"], keep="first", maintain_order=True)
    later = rows.join(first.select("annotator", "item", "showing"), on=["annotator", "item"], suffix="_first")
    second = (
        later.filter(pl.col("showing") > pl.col("showing_first"))
        .unique(["annotator", "item"], keep="first", maintain_order=True)
        .select("annotator", "item", again="value")
    )
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


def by_item(scores: pl.DataFrame) -> pl.DataFrame:
    """Return rows with `item`, what is scored by itself, and `at`; the first showing first."""
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
