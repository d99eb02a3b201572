"""Rows on their way into DuckDB: from the Parquet files of artifacts, replaced as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from warehouse.artifacts import Artifact, ArtifactStore
from warehouse.cache import CallCache
from warehouse.connection import connect
from warehouse.pages import read_crawls
from warehouse.parquet import frame, read_parquet
from warehouse.paths import Home
from warehouse.schemas import CALLS, LOSSES, NOTES, Schema

if TYPE_CHECKING:
    import duckdb

FILES: dict[str, tuple[str, ...]] = {
    "questions": ("questions",),
    "rankings": ("hits", "ranked", "losses", "notes"),
    "answers": ("answers",),
    "scores": ("scores",),
    "leaderboard": ("leaderboard",),
}
"""Stage -> its Parquet files (without suffix), each of which is a table of the same name."""

ADDED: dict[str, Schema] = {"losses": LOSSES, "notes": NOTES}
"""Files that artifacts of earlier versions lack: where one is absent, it has no rows."""

BATCH = 200  # artifacts loaded at once: bounds the memory of a rebuild


def load(connection: duckdb.DuckDBPyConnection, store: ArtifactStore, artifacts: Sequence[Artifact]) -> None:
    """Put the rows of artifacts of one stage into its tables, all or nothing, in place of older ones."""
    if not artifacts:
        return
    identities = [artifact.identity for artifact in artifacts]
    connection.execute("BEGIN")
    try:
        for table in FILES[artifacts[0].stage]:
            # Diagonal: a column that came later is NULL in the rows of an earlier artifact.
            rows = pl.concat([_rows(store, artifact, table) for artifact in artifacts], how="diagonal")
            connection.execute(f"DELETE FROM {table} WHERE list_contains(?, artifact_id)", [identities])  # noqa: S608 -- from FILES
            connection.register("incoming", rows.to_arrow())
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608 -- from FILES
            connection.unregister("incoming")
        connection.executemany(
            "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?)",
            [[a.stage, a.identity, a.data_version, a.complete, a.created_at] for a in artifacts],
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _rows(store: ArtifactStore, artifact: Artifact, table: str) -> pl.DataFrame:
    path = store.folder(artifact.stage, artifact.identity) / f"{table}.parquet"
    absent = table in ADDED and not path.exists()
    rows = frame([], ADDED[table]) if absent else read_parquet(path)
    return rows.with_columns(pl.lit(artifact.identity).alias("artifact_id"))


def point(connection: duckdb.DuckDBPyConnection, stage: str, identities: dict[str, str]) -> None:
    """Let readable keys mean identities whose rows are there."""
    if identities:
        connection.executemany(
            "INSERT OR REPLACE INTO pointers VALUES (?, ?, ?)",
            [[stage, key, identity] for key, identity in identities.items()],
        )


def sync(connection: duckdb.DuckDBPyConnection, store: ArtifactStore, stage: str, keys: Iterable[str]) -> int:
    """Load the rows that the database lacks of these keys' artifacts, and point the keys at them.

    After a kill between Parquet and database, the next call mends what is missing. Returns how many artifacts
    were loaded.
    """
    rows = connection.execute(
        "SELECT artifact_id, data_version, created_at FROM artifacts WHERE stage = ?", [stage]
    ).fetchall()
    # An artifact that was built again may differ in what its data version leaves out, such as seconds.
    known = {identity: (version, created_at) for identity, version, created_at in rows}
    pointing = dict(
        connection.execute("SELECT key, artifact_id FROM pointers WHERE stage = ?", [stage]).fetchall()
    )
    current = {key: artifact for key in keys if (artifact := store.current(stage, key))}
    missing = {
        a.identity: a for a in current.values() if known.get(a.identity) != (a.data_version, a.created_at)
    }
    load(connection, store, list(missing.values()))
    moved = {key: a.identity for key, a in current.items() if pointing.get(key) != a.identity}
    point(connection, stage, moved)
    return len(missing)


def write_llm_calls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    """Add the LLM calls that the table lacks, from the cache of calls; return how many were added."""
    known = {call_id for (call_id,) in connection.execute("SELECT call_id FROM llm_calls").fetchall()}
    rows = [row for row in CallCache(home).rows() if row["call_id"] not in known]
    return _add(connection, "llm_calls", frame(rows, CALLS))


def write_crawls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    """Add the crawls that the table lacks, from `<home>/crawls/<source>/`; return how many there are."""
    sources = sorted(folder.name for folder in home.crawls.glob("*") if folder.is_dir())
    return sum(_add(connection, "crawls", read_crawls(home, source)) for source in sources)


def _add(connection: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> int:
    connection.register("incoming", rows.to_arrow())
    connection.execute(f"INSERT OR IGNORE INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608 -- our own names
    connection.unregister("incoming")
    return len(rows)


def rebuild(home: Home, path: Path | None = None) -> dict[str, int]:
    """Make the database again from the Parquet files and records under ``home``.

    The new file is written beside the old one and takes its place at the end. Returns the number of
    artifacts, calls and crawls, by stage or table.
    """
    target = path or home.database
    fresh = target.with_suffix(".rebuild")
    _remove(fresh)  # what a killed rebuild left
    store = ArtifactStore(home)
    counts: dict[str, int] = {}
    with connect(fresh) as connection:
        for stage in FILES:
            artifacts = store.all(stage)
            for at in range(0, len(artifacts), BATCH):
                load(connection, store, artifacts[at : at + BATCH])
            current = {key: artifact for key in store.keys(stage) if (artifact := store.current(stage, key))}
            point(connection, stage, {key: artifact.identity for key, artifact in current.items()})
            counts[stage] = len(artifacts)
        counts["llm_calls"] = write_llm_calls(connection, home)
        counts["crawls"] = write_crawls(connection, home)
    with connect(target):  # nobody else holds the old file at this moment
        pass
    _remove(target)
    fresh.replace(target)
    return counts


def _remove(database: Path) -> None:
    """Remove a database and its write-ahead log, which DuckDB would play into the next file of that name."""
    database.unlink(missing_ok=True)
    database.with_name(database.name + ".wal").unlink(missing_ok=True)
