"""Rows on their way into DuckDB: from the Parquet files of artifacts, replaced as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.artifacts import Artifact, ArtifactStore
from warehouse.cache import CallCache
from warehouse.connection import connect
from warehouse.parquet import frame, read_parquet
from warehouse.paths import Home
from warehouse.schemas import CALLS, CRAWLS

if TYPE_CHECKING:
    import duckdb

FILES: dict[str, tuple[str, ...]] = {
    "questions": ("questions",),
    "rankings": ("hits", "ranked"),
    "answers": ("answers",),
    "scores": ("scores",),
    "leaderboard": ("leaderboard",),
}
"""Stage -> its Parquet files (without suffix), each of which is a table of the same name."""


def load(connection: duckdb.DuckDBPyConnection, store: ArtifactStore, artifact: Artifact) -> None:
    """Put the rows of one artifact into its tables; rows of the same identity are replaced, in one transaction."""
    connection.execute("BEGIN")
    try:
        for table in FILES[artifact.stage]:
            path = store.folder(artifact.stage, artifact.identity) / f"{table}.parquet"
            rows = read_parquet(path)
            connection.execute(f"DELETE FROM {table} WHERE artifact_id = ?", [artifact.identity])  # noqa: S608 -- from FILES
            connection.register("incoming", rows.to_arrow())
            connection.execute(
                f"INSERT INTO {table} BY NAME SELECT ? AS artifact_id, * FROM incoming",  # noqa: S608 -- from FILES
                [artifact.identity],
            )
            connection.unregister("incoming")
        connection.execute(
            "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?)",
            [artifact.stage, artifact.identity, artifact.data_version, artifact.complete, artifact.created_at],
        )
        connection.execute(
            "INSERT OR REPLACE INTO pointers VALUES (?, ?, ?)", [artifact.stage, artifact.key, artifact.identity]
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def point(connection: duckdb.DuckDBPyConnection, stage: str, key: str, identity: str) -> None:
    """Let a readable key mean an identity whose rows are already there."""
    connection.execute("INSERT OR REPLACE INTO pointers VALUES (?, ?, ?)", [stage, key, identity])


def sync(connection: duckdb.DuckDBPyConnection, store: ArtifactStore, stage: str, keys: Iterable[str]) -> int:
    """Load the rows of these keys' artifacts that the database lacks, and point the keys at them; return how many.

    After a kill between Parquet and database, the next call mends what is missing.
    """
    rows = connection.execute("SELECT artifact_id, data_version FROM artifacts WHERE stage = ?", [stage]).fetchall()
    known = dict(rows)
    pointing = dict(connection.execute("SELECT key, artifact_id FROM pointers WHERE stage = ?", [stage]).fetchall())
    loaded = 0
    for key in keys:
        artifact = store.current(stage, key)
        if artifact is None:
            continue
        if known.get(artifact.identity) != artifact.data_version:
            load(connection, store, artifact)
            loaded += 1
        if pointing.get(key) != artifact.identity:
            point(connection, stage, key, artifact.identity)
    return loaded


def write_llm_calls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    """Add the LLM calls that the table lacks, from the cache of calls; return how many were added."""
    known = {call_id for (call_id,) in connection.execute("SELECT call_id FROM llm_calls").fetchall()}
    rows = [row for row in CallCache(home).rows() if row["call_id"] not in known]
    return _add(connection, "llm_calls", frame(rows, CALLS))


def write_crawls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    """Add the crawls that the table lacks, from their records in `<home>/crawls/<source>/`."""
    rows = [json.loads(path.read_text()) for path in sorted(home.crawls.glob("*/*.json"))]
    known = [{key: row.get(key) for key in CRAWLS} for row in rows if "crawl_id" in row]
    for row in known:
        if isinstance(row["failed"], dict):
            row["failed"] = json.dumps(row["failed"], sort_keys=True)
    times = frame([{**row, "started_at": None, "ended_at": None} for row in known], CRAWLS)
    if known:
        import polars as pl

        times = times.with_columns(
            *(
                pl.Series(name, [row[name] for row in known], dtype=pl.String).str.to_datetime(
                    time_unit="us", time_zone="UTC", strict=False
                )
                for name in ("started_at", "ended_at")
            )
        )
    return _add(connection, "crawls", times)


def _add(connection: duckdb.DuckDBPyConnection, table: str, rows: object) -> int:
    connection.register("incoming", rows.to_arrow())  # type: ignore[attr-defined]
    connection.execute(f"INSERT OR IGNORE INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608 -- our own names
    connection.unregister("incoming")
    return len(rows)  # type: ignore[arg-type]


def rebuild(home: Home, path: Path | None = None) -> dict[str, int]:
    """Make the database again from the Parquet files and records under ``home``; return rows or artifacts by table.

    The new file is written beside the old one and takes its place at the end.
    """
    target = path or home.database
    fresh = target.with_suffix(".rebuild")
    fresh.unlink(missing_ok=True)
    store = ArtifactStore(home)
    counts: dict[str, int] = {}
    with connect(fresh) as connection:
        for stage in FILES:
            artifacts = store.all(stage)
            for artifact in artifacts:
                load(connection, store, artifact)
            connection.execute("DELETE FROM pointers WHERE stage = ?", [stage])
            for key in store.keys(stage):
                current = store.current(stage, key)
                if current:
                    point(connection, stage, key, current.identity)
            counts[stage] = len(artifacts)
        counts["llm_calls"] = write_llm_calls(connection, home)
        counts["crawls"] = write_crawls(connection, home)
    with connect(target):  # nobody else holds the old file at this moment
        pass
    target.unlink(missing_ok=True)
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    fresh.replace(target)
    return counts
