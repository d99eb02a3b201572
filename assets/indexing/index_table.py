"""Builds an index: a LanceDB table, postings and ordered rows. Readers open the tag in `facts.json`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from operator import attrgetter
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pydantic

from rag_assay.assets.embedding.windows import unit
from rag_assay.assets.indexing.index_recipe import (
    FACTS,
    IndexFacts,
    IndexRecipe,
    SearchParameters,
    read_facts,
    write_facts,
)
from rag_assay.assets.indexing.index_rows import IndexRows, schema_digest, schema_of
from rag_assay.assets.indexing.lexical import invert
from rag_assay.assets.indexing.row_files import ROWS, OrderedRows, read_columns, read_texts
from rag_assay.assets.indexing.upsert import RowChanges, clone, compare, upsert
from rag_assay.warehouse.errors import CorruptFileError

if TYPE_CHECKING:
    from lancedb.table import Table

    from rag_assay.assets.embedding.embedder import Matrix

RECALL = 0.95
"""Recall@10 that an approximate index must reach."""
AIM = 0.97  # what is looked for, so that other questions than the sampled ones reach RECALL too
DEPTH = 10
SAMPLE = 100
_BATCH = 20  # questions of a call, a third of the time of single ones; divides SAMPLE
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
    """``vector``: one, or a matrix of several; their rows then have a `query_index`."""
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
    """Return the cheapest search parameters that reach the recall, or the best found, with their recall:
    recall@10 over 100 stored vectors of length 1 with Gaussian noise of length 0.75. A chunk as near as the
    tenth counts.
    """
    queries = sample(rows)
    tenth = _exact_tenth(queries, rows)
    *cheaper, last = _ladder(recipe, rows.count)
    for search in cheaper:
        if (found := _measured(table, queries, tenth, search, AIM)).recall >= AIM:
            return found
    found = _measured(table, queries, tenth, last)
    if found.recall >= AIM:
        return found
    return max([*(_measured(table, queries, tenth, one) for one in cheaper), found], key=attrgetter("recall"))


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
    depth = min(DEPTH, rows.count)
    best = np.full((len(queries), depth), -np.inf, np.float32)
    for part in rows.vectors():
        both = np.concatenate([best, queries @ unit(part).T], axis=1)
        best = -np.partition(-both, depth - 1, axis=1)[:, :depth]
    tenth: npt.NDArray[np.float32] = best.min(axis=1)
    return tenth


def _measured(
    table: Table,
    queries: Matrix,
    tenth: npt.NDArray[np.float32],
    search: SearchParameters,
    enough: float = 0.0,
) -> SearchParameters:
    """Return the parameters with their recall, or with less of it once it cannot be ``enough``."""
    found, wanted = 0, DEPTH * len(queries)
    for begin in range(0, len(queries), _BATCH):
        rows = nearest(table, queries[begin : begin + _BATCH], DEPTH, search)
        bounds = tenth[begin + rows["query_index"].to_numpy()]
        found += int((1 - rows["_distance"].to_numpy() >= bounds - _SAME).sum())
        if round((found + wanted - DEPTH * (begin + _BATCH)) / wanted, 4) < enough:
            break
    return replace(search, recall=round(found / wanted, 4))


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


CLIENT = "lance_namespace_urllib3_client."
_LOCK = Lock()


@cache
def lancedb() -> ModuleType:
    with _LOCK:
        check: Callable[..., Any] = pydantic.validate_call
        vars(pydantic)["validate_call"] = _unless_of_client(check)
        try:
            import lancedb
        finally:
            vars(pydantic)["validate_call"] = check
    return lancedb


def _unless_of_client(check: Callable[..., Any]) -> Callable[..., Any]:
    def decorated(function: Any = None, /, **options: Any) -> Any:
        if getattr(function, "__module__", "").startswith(CLIENT):
            return function
        return check(function, **options)

    return decorated


TABLE = "chunks"
LEXICAL, TITLES = "lexical", "titles"  # folders of postings (`lexical.open_lexical`): of texts, of titles
VECTOR_INDEX = "vector_idx"
MAX_SCANNED = 5_000
"""New rows that every search by vectors compares one by one, beside the index, before they are added to it: a
few milliseconds, where adding one row to a graph of several partitions builds them all again."""
HELD = 1_073_741_824
"""Bytes of a table's indexes that are held in memory at most: all of a million chunks (LanceDB: 6 GiB)."""
Note = Callable[[str], None]

os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # it warns on stderr until it is told


def build(
    folder: Path,
    rows: IndexRows,
    *,
    recipe: IndexRecipe | None = None,
    tag: str = "whole",
    previous: Path | None = None,
    note: Note = lambda _: None,
) -> IndexFacts:
    """Write the index of ``rows`` into ``folder``, from a clone of ``previous`` if few rows differ."""
    recipe = recipe or IndexRecipe()
    (folder / FACTS).unlink(missing_ok=True)  # from here on, until the end, the index is not whole
    shutil.rmtree(folder / "lancedb", ignore_errors=True)  # what an earlier, killed build left
    fresh = IndexFacts(
        tag=tag,
        chunks=rows.count,
        dimensions=rows.dimensions,
        schema=schema_digest(rows.dimensions),
        recipe=recipe.identity(),
        search=SearchParameters(),
        made="whole",
        added=rows.count,
    )
    ordered = OrderedRows(rows, folder / ROWS)
    update = None if previous is None or previous == folder else _update(previous, fresh, ordered)
    if previous is None or update is None:
        note("writing rows")
        facts, table = fresh, _write(folder, ordered)
    else:
        before, changes = update
        note("updating rows")
        facts, table = _updated(fresh, before, changes), _clone(previous, folder)
        upsert(table, ordered.folder, changes)
    note("indexing vectors")
    facts = replace(facts, search=_index_vectors(table, rows, recipe, update[0].search if update else None))
    note("indexing columns")
    _index_columns(table)
    note("indexing words")
    _index_words(folder)
    table.tags.create(tag, table.version)
    write_facts(facts, folder)
    return facts


def open_table(folder: Path) -> Table:
    """Open the finished table of an index for reading. Raises CorruptFileError."""
    tag = read_facts(folder).tag
    try:
        table = _connect(folder)
        table.checkout(tag)
    except (ValueError, RuntimeError, OSError) as error:
        raise _damaged(folder, error) from error
    return table


def _damaged(folder: Path, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        f"{folder}: the index is damaged ({error}). Delete the folder; `assay run` makes it again."
    )


def _connect(folder: Path) -> Table:
    session = lancedb().Session(index_cache_size_bytes=HELD, metadata_cache_size_bytes=HELD // 8)
    table: Table = lancedb().connect(str(folder / "lancedb"), session=session).open_table(TABLE)
    return table


def _update(previous: Path, fresh: IndexFacts, rows: OrderedRows) -> tuple[IndexFacts, RowChanges] | None:
    try:
        before = read_facts(previous)
        if (before.schema, before.recipe) != (fresh.schema, fresh.recipe):
            return None
        hashes = _hashes(previous)
    except CorruptFileError:  # there is nothing to start from
        return None
    rows.write()
    changes = compare(hashes, read_columns(rows.folder, ("chunk_id", "row_hash")))
    return (before, changes) if changes.few(before, rows.count) else None


def _hashes(folder: Path) -> pl.DataFrame:
    try:
        rows = pl.from_arrow(open_table(folder).search().select(["chunk_id", "row_hash"]).to_arrow())
    except RuntimeError as error:
        raise _damaged(folder, error) from error
    assert isinstance(rows, pl.DataFrame)  # noqa: S101 -- a table, not a column
    return rows


def _updated(fresh: IndexFacts, before: IndexFacts, changes: RowChanges) -> IndexFacts:
    return replace(
        fresh,
        made="upsert",
        added=changes.added,
        changed=changes.changed,
        removed=len(changes.removed),
        dead=changes.dead(before),
        upserts=before.upserts + 1,
    )


def _write(folder: Path, rows: OrderedRows) -> Table:
    schema = schema_of(rows.dimensions)
    database = lancedb().connect(str(folder / "lancedb"))
    table: Table = database.create_table(TABLE, pa.RecordBatchReader.from_batches(schema, rows.batches()))
    return table


def _clone(previous: Path, folder: Path) -> Table:
    before = open_table(previous)
    others = [index for index in before.list_indices() if index.name != VECTOR_INDEX]
    clone(previous / "lancedb", folder / "lancedb", frozenset(index.index_uuid for index in others))
    table = _connect(folder)
    if table.version != before.version:  # whatever came after the tag is not part of the index
        table.restore(before.version)
    for index in others:
        table.drop_index(index.name)
    return table


def _index_columns(table: Table) -> None:
    """Index words and filter columns; it is quick, and word statistics stay those of the current rows."""
    from lancedb.index import FTS, Bitmap, BTree, LabelList

    for column, config in {
        "text": FTS(with_position=False),
        "chunk_id": BTree(),
        "doc_id": BTree(),
        "published_on": BTree(),
        "language": Bitmap(),
        "keywords": LabelList(),
    }.items():
        table.create_index(column, config=config, replace=True)


def _index_words(folder: Path) -> None:
    for column, name in (("text", LEXICAL), ("title", TITLES)):
        invert(read_texts(folder / ROWS, column), folder / name)


def _index_vectors(
    table: Table, rows: IndexRows, recipe: IndexRecipe, before: SearchParameters | None
) -> SearchParameters:
    """Update or build the vector index; return how it is searched."""
    kind = recipe.kind(rows.count)
    kept = before is not None and before.kind == kind
    if before is not None and before.kind != "exact" and not kept:
        table.drop_index(VECTOR_INDEX)
    if kind == "exact":
        return SearchParameters()
    if kept:
        if _unindexed(table) > MAX_SCANNED:
            # This also removes older versions of the clone: its links, not the files.
            table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
        search = tune_search(table, rows, recipe)
        if search.recall >= RECALL:
            return search
    create_vector_index(table, recipe, rows.count)
    return tune_search(table, rows, recipe)


def _unindexed(table: Table) -> int:
    (index,) = (index for index in table.list_indices() if index.name == VECTOR_INDEX)
    return int(index.num_unindexed_rows)
