"""Builds an index from the previous one: links its files and writes only changed rows."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from rag_assay.assets.indexing.row_files import Positions, read_rows

if TYPE_CHECKING:
    from lancedb.table import Table

    from rag_assay.assets.indexing.index_recipe import IndexFacts

REBUILD_SHARE = 0.3
"""Above this share of rows written, removed or dead in the files, a table is made whole again."""
MAX_UPSERTS = 50  # each one adds a file of rows: then the table is made whole again
_LINKED = ("data", "_indices", "_deletions")  # folders whose files are written once, under names of their own
_SLICE = 500
WRITTEN = 65_536  # rows that are merged into a table at once


@dataclass(frozen=True)
class RowChanges:
    """What a previous table lacks, holds with other contents (positions by chunk id), and in excess."""

    added: int
    changed: int
    written: Positions
    removed: pl.Series

    def dead(self, before: IndexFacts) -> int:
        return before.dead + self.changed + len(self.removed)

    def few(self, before: IndexFacts, chunks: int) -> bool:
        bound = REBUILD_SHARE * chunks
        touched = self.added + self.changed + len(self.removed)
        return touched <= bound and self.dead(before) <= bound and before.upserts < MAX_UPSERTS


def compare(before: pl.DataFrame, now: pl.DataFrame) -> RowChanges:
    known = before.rename({"row_hash": "known"})
    both = now.with_row_index("position").join(known, on="chunk_id", how="left", maintain_order="left")
    added, changed = pl.col("known").is_null(), pl.col("known") != pl.col("row_hash")
    return RowChanges(
        len(both.filter(added)),
        len(both.filter(changed)),
        both.filter(added | changed)["position"].to_numpy().astype(np.int64),
        before.join(now, on="chunk_id", how="anti")["chunk_id"].sort(),
    )


def clone(source: Path, target: Path, without: frozenset[str]) -> None:
    """Copy a LanceDB folder without its tags: no reader opens it before it is tagged."""
    for path in sorted(source.rglob("*")):
        parts = path.relative_to(source).parts  # (chunks.lance, folder, …)
        if not path.is_file() or "_refs" in parts or not without.isdisjoint(parts):
            continue
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        if len(parts) > 2 and parts[1] in _LINKED:
            link_or_copy(path, place)
        else:
            shutil.copyfile(path, place)


def link_or_copy(path: Path, place: Path) -> None:
    place.unlink(missing_ok=True)  # what a killed build left
    try:
        os.link(path, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(path, place)


def upsert(table: Table, ordered: Path, changes: RowChanges) -> None:
    for part in np.array_split(changes.written, -(-len(changes.written) // WRITTEN) or 1):
        if len(part):
            merge = table.merge_insert("chunk_id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_batches(list(read_rows(ordered, part))))
    for gone in changes.removed.to_frame("chunk_id").iter_slices(_SLICE):
        quoted = ("'" + chunk_id.replace("'", "''") + "'" for chunk_id in gone["chunk_id"])
        table.delete(f"chunk_id IN ({', '.join(quoted)})")
