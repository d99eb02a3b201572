"""Versions of documents with the times they were current, and the changes of a build by section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.warehouse.schemas import UTC_TIME, VERSIONS

FIRST = 20  # documents named in the metadata; the counts are of all
_SEEN = ("doc_id", "version", "url", "title", "text_sha256")


def update_versions(history: pl.DataFrame, seen: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Return the versions of a source's documents (`schemas.VERSIONS`) after a build, oldest first for each.

    A version is valid from the fetch of its page until the fetch that replaced it or found it gone; a
    document that comes back has a new row.
    seen: doc_id, version, url, title, text_sha256 of the current ones
    pages: `schemas.PAGES`, gone ones included
    """
    last_look = pages["fetched_at"].max()
    times = pages.unique("url", keep="first", maintain_order=True).select(
        "url", "fetched_at", ended_at=pl.coalesce("gone_at", "fetched_at")
    )
    now = seen.unique("doc_id", keep="first", maintain_order=True).join(times, on="url", how="left")
    past = history.filter(pl.col("valid_to").is_not_null())
    held = history.filter(pl.col("valid_to").is_null())
    same = held.join(now, on=["doc_id", "version"], how="semi")
    over = held.join(now, on=["doc_id", "version"], how="anti")
    replaced = over.join(now.select("doc_id", "fetched_at"), on="doc_id", how="inner").select(
        *_SEEN, "valid_from", valid_to=pl.max_horizontal("fetched_at", "valid_from"), gone=pl.lit(value=False)
    )
    gone = (
        over.join(now, on="doc_id", how="anti")
        .join(times, on="url", how="left")
        .select(
            *_SEEN,
            "valid_from",
            valid_to=pl.coalesce("ended_at", pl.lit(last_look, UTC_TIME), "valid_from"),
            gone=pl.lit(value=True),
        )
    )
    new = now.join(same, on="doc_id", how="anti").select(
        *_SEEN, valid_from="fetched_at", valid_to=pl.lit(None, UTC_TIME), gone=pl.lit(value=False)
    )
    parts = [part.select(list(VERSIONS)) for part in (past, same, replaced, gone, new)]
    return pl.concat(parts).sort("doc_id", "valid_from", "valid_to", nulls_last=True, maintain_order=True)


# ------------------------------------------------------------------------------------------- changes


def changes(before: Path, after: Path) -> dict[str, Any]:
    """Return what differs between two files of documents: counts, and the first few with their sections.

    JSON only: {"added": n, "changed": n, "gone": n, "first": [{"doc_id", "url", "title", "change",
    and of changed ones "sections_added", "sections_removed", "sections_changed" by heading}]}.
    """
    named = ["doc_id", "version", "url", "title"]
    old, new = (pl.scan_parquet(path).select(named).collect() for path in (before, after))
    kinds = {
        "changed": new.join(old.select("doc_id", old_version="version"), on="doc_id").filter(
            pl.col("version") != pl.col("old_version")
        ),
        "added": new.join(old, on="doc_id", how="anti"),
        "gone": old.join(new, on="doc_id", how="anti"),
    }
    first = [
        {**row, "change": kind}
        for kind, rows in kinds.items()
        for row in rows.sort("url").select("doc_id", "url", "title").head(FIRST).iter_rows(named=True)
    ][:FIRST]
    ids = [row["doc_id"] for row in first if row["change"] == "changed"]
    texts = _texts(before, ids), _texts(after, ids)
    for row in first:
        if row["change"] == "changed":
            row.update(section_changes(*(by_id[row["doc_id"]] for by_id in texts)))
    return {**{kind: len(kinds[kind]) for kind in ("added", "changed", "gone")}, "first": first}


def _texts(path: Path, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    wanted = pl.scan_parquet(path).filter(pl.col("doc_id").is_in(ids))
    rows = wanted.select("doc_id", "text", "sections").collect()
    return {row["doc_id"]: row for row in rows.iter_rows(named=True)}


def section_changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """Compare the sections of two versions (`text`, `sections`) by heading; the n-th of a name with the n-th.

    >>> old = {"text": "aabb", "sections": [{"heading": "A", "start": 0, "end": 2}]}
    >>> section_changes(old, {**old, "text": "acbb"})["sections_changed"]
    ['A']
    """
    old, new = _sections(before), _sections(after)
    return {
        "sections_added": [_name(key) for key in new if key not in old],
        "sections_removed": [_name(key) for key in old if key not in new],
        "sections_changed": [_name(key) for key in new if key in old and old[key] != new[key]],
    }


def _sections(document: dict[str, Any]) -> dict[tuple[str, int], str]:
    seen: Counter[str] = Counter()
    found = {}
    for section in document["sections"] or ():
        heading = str(section["heading"])
        found[heading, seen[heading]] = document["text"][section["start"] : section["end"]]
        seen[heading] += 1
    return found


def _name(key: tuple[str, int]) -> str:
    heading, number = key
    return f"{heading} ({number + 1})" if number else heading
