"""Approximate nearest-neighbour indexes, and search parameters that reach the wanted recall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.embedding.windows import unit
from rag_assay.assets.indexing.index_recipe import IndexRecipe, SearchParameters
from rag_assay.assets.indexing.index_rows import IndexRows

if TYPE_CHECKING:
    from lancedb.table import Table

RECALL = 0.95
"""Recall@10 that an approximate index must reach."""
AIM = 0.97  # what is looked for, so that other questions than the sampled ones reach RECALL too
DEPTH = 10
SAMPLE = 100
NOISE = 0.75  # length of what is added to a stored unit vector: the two then have a cosine near 0.8
_SAME = 1e-5  # cosines nearer than this are ties
_EF = (100, 200, 400, 800, 1_600, 3_200, 6_400)
_SHARES = (0.125, 0.25, 0.5)  # of the partitions of graphs, before all are looked into
_MANY = 8  # partitions, below which a search that leaves some out saves little
_REFINE = (10, 30, 100, 300, 1_000)


def create_vector_index(table: Table, recipe: IndexRecipe, chunks: int) -> None:
    from lancedb.index import HnswSq, IvfPq

    partitions = recipe.partitions_of(chunks)
    config = (
        IvfPq(distance_type="cosine", num_partitions=partitions)
        if recipe.kind(chunks) == "ivf_pq"
        else HnswSq(
            distance_type="cosine",
            num_partitions=partitions,
            m=recipe.m,
            ef_construction=recipe.ef_construction,
        )
    )
    table.create_index("vector", config=config, replace=True)


def nearest(
    table: Table,
    vector: npt.NDArray[np.float32],
    limit: int,
    search: SearchParameters,
    where: str | None = None,
) -> Any:
    query = table.search(vector, vector_column_name="vector").distance_type("cosine").limit(limit)
    if where:
        query = query.where(where, prefilter=True)
    if search.nprobes:
        query = query.nprobes(search.nprobes)
    refine = search.refine_factor or 1  # with 1, too, distances are those of the exact vectors
    query = query.refine_factor(refine)
    if search.kind == "hnsw":
        # As far beyond the wanted rows as for the ten of which the recall was measured; Lance refuses less.
        query = query.ef(max(search.ef or 0, 2 * limit * refine))
    return query.select(["chunk_id", "_distance"]).to_arrow()


def tune_search(table: Table, rows: IndexRows, recipe: IndexRecipe) -> SearchParameters:
    """Return the cheapest search parameters that reach the recall, or the best found, with their recall.

    Recall@10 is averaged over 100 questions: stored vectors of length 1 with Gaussian noise of length 0.75,
    so that the cosine to their chunk is near 0.8. A chunk as near as the tenth counts as found.
    """
    queries = sample(rows)
    tenth = _exact_tenth(queries, rows)
    best = SearchParameters(recall=-1.0)
    for search in _ladder(recipe, rows.count):
        recall = _recall(table, queries, tenth, min(DEPTH, rows.count), search)
        if recall > best.recall:
            best = replace(search, recall=recall)
        if recall >= AIM:
            break
    return best


def sample(rows: IndexRows) -> Matrix:
    random = np.random.default_rng(7)
    chosen = np.sort(random.choice(rows.count, min(SAMPLE, rows.count), replace=False))
    found, begin = [], 0
    for part in rows.vectors():
        inside = chosen[(chosen >= begin) & (chosen < begin + len(part))] - begin
        found.append(part[inside])
        begin += len(part)
    noise = random.standard_normal((len(chosen), rows.dimensions))
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    return unit((unit(np.concatenate(found)) + noise).astype(np.float32))


def _exact_tenth(queries: Matrix, rows: IndexRows) -> npt.NDArray[np.float32]:
    """Return the cosine of each query's tenth nearest row, shape (queries,)."""
    depth = min(DEPTH, rows.count)
    best = np.full((len(queries), depth), -np.inf, np.float32)
    for part in rows.vectors():
        both = np.concatenate([best, queries @ unit(part).T], axis=1)
        best = -np.partition(-both, depth - 1, axis=1)[:, :depth]
    tenth: npt.NDArray[np.float32] = best.min(axis=1)
    return tenth


def _recall(
    table: Table, queries: Matrix, tenth: npt.NDArray[np.float32], depth: int, search: SearchParameters
) -> float:
    found = 0
    for query, bound in zip(queries, tenth, strict=True):
        cosines = 1 - nearest(table, query, depth, search)["_distance"].to_numpy()
        found += int((cosines >= bound - _SAME).sum())
    return round(found / (len(queries) * depth), 4)


def _ladder(recipe: IndexRecipe, chunks: int) -> Iterator[SearchParameters]:
    partitions = recipe.partitions_of(chunks)
    search = SearchParameters(recipe.kind(chunks), recipe.ef, recipe.nprobes, recipe.refine_factor)
    if search.ef or search.nprobes or search.refine_factor:
        yield search
    elif search.kind == "hnsw":
        for share in _SHARES if partitions >= _MANY else ():
            yield replace(search, ef=_EF[0], nprobes=round(share * partitions), refine_factor=2)
        for ef in _EF:
            yield replace(search, ef=ef, nprobes=partitions, refine_factor=2)
    else:
        for share, refine in zip((0.1, 0.2, 0.5, 1, 1), _REFINE, strict=True):
            yield replace(search, nprobes=max(1, round(share * partitions)), refine_factor=refine)
