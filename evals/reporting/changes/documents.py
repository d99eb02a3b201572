"""What differs between the documents of two results: added, removed, moved, changed in text or facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from rag_assay.evals.reporting.changes.entry import HistoryEntry
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import read_parquet

COLUMNS = ("doc_id", "version", "source", "url", "title", "published_at", "text")


class Change(StrEnum):
    """How a document differs.

    MOVED: the same text is at another address; FACTS: title, date or another fact, but not the text
    """

    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    TEXT = "text changed"
    FACTS = "facts changed"


@dataclass(frozen=True)
class DocumentChange:
    """A document that differs.

    doc_id: of the second result, of a removed one that of the first
    before: the id that a moved one had
    note: what of its facts differs, or where it was before
    """

    doc_id: str
    source: str
    url: str
    title: str
    change: Change
    note: str = ""
    before: str = ""


@dataclass(frozen=True, eq=False)
class DocumentSnapshot:
    """The documents of a result (columns `COLUMNS`), and the sources whose documents of then are gone."""

    documents: pl.DataFrame
    gone: tuple[str, ...] = ()


def snapshot(entry: HistoryEntry, store: ArtifactStore) -> DocumentSnapshot:
    """Return the documents that a result was made of."""
    frames, gone = [], []
    for source, facts in entry.sources.items():
        found = _read(facts, store)
        if found is None:
            gone.append(source)
        else:
            frames.append(found.with_columns(pl.lit(source).alias("source")))
    empty = pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String))
    return DocumentSnapshot(pl.concat([empty, *frames]), tuple(gone))


def _read(facts: Mapping[str, Any], store: ArtifactStore) -> pl.DataFrame | None:
    artifact = store.find("documents", str(facts.get("identity")))
    if artifact is None:
        return None
    try:
        path = store.folder("documents", artifact.identity) / "documents.parquet"
        return read_parquet(path, list(COLUMNS)).select(COLUMNS)
    except CorruptFileError:
        return None


def document_changes(before: DocumentSnapshot, after: DocumentSnapshot) -> list[DocumentChange]:
    """Return what differs between two snapshots, by source and address; sources that are gone are left out.

    A removed document whose whole text is that of an added one of the same source has moved.
    """
    gone = {*before.gone, *after.gone}
    old, new = (_keyed(one.documents.filter(~pl.col("source").is_in(gone))) for one in (before, after))
    found = [
        _changed(old[key], row)
        for key, row in new.items()
        if key in old and old[key]["version"] != row["version"]
    ]
    removed = {key: row for key, row in old.items() if key not in new}
    added = {key: row for key, row in new.items() if key not in old}
    by_text: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in removed.values():
        by_text.setdefault((row["source"], row["text"]), []).append(row)
    for row in added.values():
        earlier = by_text.get((row["source"], row["text"]))
        if earlier and row["text"]:
            was = earlier.pop(0)
            del removed[was["source"], was["doc_id"]]
            found.append(_of(row, Change.MOVED, f"was at {was['url']}", was["doc_id"]))
        else:
            found.append(_of(row, Change.ADDED))
    found += [_of(row, Change.REMOVED) for row in removed.values()]
    return sorted(found, key=lambda one: (one.source, one.url or "", one.doc_id))


def _keyed(documents: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["source"], row["doc_id"]): row for row in documents.iter_rows(named=True)}


def _changed(old: dict[str, Any], new: dict[str, Any]) -> DocumentChange:
    if old["text"] != new["text"]:
        return _of(new, Change.TEXT)
    facts = [name for name in ("title", "published_at", "url") if old[name] != new[name]]
    notes = [f"{_LABELS[name]}: {old[name] or 'none'} → {new[name] or 'none'}" for name in facts]
    return _of(new, Change.FACTS, "; ".join(notes) or "sections, authors, keywords or metadata")


_LABELS = {"title": "title", "published_at": "date", "url": "address"}


def _of(row: dict[str, Any], change: Change, note: str = "", before: str = "") -> DocumentChange:
    return DocumentChange(
        row["doc_id"], row["source"], row["url"] or "", row["title"] or "", change, note, before
    )
