"""Builds an index from the previous one: links its files and writes only changed rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute

from assets.indexing.index_facts import IndexFacts
from assets.indexing.index_rows import Rows

if TYPE_CHECKING:
    from lancedb.table import Table

REBUILD_SHARE = 0.3
"""Above this share of rows written, removed or dead in the files, a table is made whole again."""
MAX_UPSERTS = 50  # each one adds a file of rows: then the table is made whole again
_LINKED = ("data", "_indices", "_deletions")  # folders whose files are written once, under names of their own
_SLICE = 500


@dataclass(frozen=True)
class Changes:
    """Chunk ids that a previous table lacks, holds with other contents, and holds in excess."""

    added: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]

    def dead(self, before: IndexFacts) -> int:
        """Return how many rows of the files would be dead after the upsert."""
        return before.dead + len(self.changed) + len(self.removed)

    def few(self, before: IndexFacts, chunks: int) -> bool:
        """Return whether an upsert is cheaper than a whole table."""
        bound = REBUILD_SHARE * chunks
        touched = len(self.added) + len(self.changed) + len(self.removed)
        return touched <= bound and self.dead(before) <= bound and before.upserts < MAX_UPSERTS


def compare(before: dict[str, str], rows: Rows) -> Changes:
    """Tell by their hashes which rows differ from those of before (chunk_id -> row_hash, used up)."""
    added, changed = set(), set()
    for batch in rows.batches():
        ids, hashes = batch["chunk_id"].to_pylist(), batch["row_hash"].to_pylist()
        for chunk_id, row_hash in zip(ids, hashes, strict=True):
            known = before.pop(chunk_id, None)
            if known is None:
                added.add(chunk_id)
            elif known != row_hash:
                changed.add(chunk_id)
    return Changes(frozenset(added), frozenset(changed), frozenset(before))


def clone(source: Path, target: Path, without: frozenset[str]) -> None:
    """Make ``target`` a copy of a LanceDB folder without its tags: nobody can read it until it is tagged.

    Files of rows and of indexes are never changed by Lance, so they are hard links, where the file system
    has them; all others are copied.

    Args:
        without: identifiers of indexes whose files are left out, for they are made anew.
    """
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
    """Let ``place`` hold what ``path`` holds, a file that nobody changes in place."""
    place.unlink(missing_ok=True)  # what a killed build left
    try:
        os.link(path, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(path, place)


def upsert(table: Table, rows: Rows, changes: Changes) -> None:
    """Write the added and changed rows into ``table`` and remove those that vanished."""
    wanted = changes.added | changes.changed
    if wanted:
        ids = pa.array(sorted(wanted), pa.string())
        batches = list(_only(rows, ids))
        merge = table.merge_insert("chunk_id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.Table.from_batches(batches))
    gone = pl.Series(sorted(changes.removed), dtype=pl.String)
    for part in gone.to_frame("chunk_id").iter_slices(_SLICE):
        quoted = ("'" + chunk_id.replace("'", "''") + "'" for chunk_id in part["chunk_id"])
        table.delete(f"chunk_id IN ({', '.join(quoted)})")


def _only(rows: Rows, ids: Any) -> Iterator[Any]:
    for batch in rows.batches():
        found = batch.filter(pyarrow.compute.is_in(batch["chunk_id"], value_set=ids))
        if len(found):
            yield found
