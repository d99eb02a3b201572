"""Loads rows of artifacts from Parquet into DuckDB, each artifact as a whole or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import polars as pl

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.atomic_write import temporary_beside
from rag_assay.warehouse.attempts import turn
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.connection import DamagedDatabaseError, connect, insert_rows, transaction
from rag_assay.warehouse.history import history_rows
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.pages import read_crawls
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.schemas import CALLS, HUMAN_SCORES
from rag_assay.warehouse.study_records import study_of, study_records

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger(__name__)
Say = Callable[[str], None]

FILES: dict[str, tuple[str, ...]] = {
    "questions": ("questions",),
    "rankings": ("hits", "ranked", "losses", "notes"),
    "answers": ("answers",),
    "annotations": ("annotations", "agreement"),
    "judgements": ("judgements",),
    "judge_cards": ("judge_cards",),
    "scores": ("scores",),
    "human_estimates": ("human_estimates",),
    "leaderboard": ("leaderboard", "verdicts"),
    "searches": ("searches", "search_values"),
}
"""Stage -> its Parquet files (without suffix), each of which is a table of the same name."""

OF_STUDIES = tuple(stage for stage in FILES if stage != "questions")
"""The stages whose keys begin with the name of a study or slice; question sets belong to a corpus."""

BATCH = 200  # artifacts loaded at once: bounds the memory of a rebuild


def load(connection: duckdb.DuckDBPyConnection, store: ArtifactStore, artifacts: Sequence[Artifact]) -> None:
    if not artifacts:
        return
    identities = [artifact.identity for artifact in artifacts]
    with transaction(connection):
        for table in FILES[artifacts[0].stage]:
            # Diagonal: a column that only some artifacts have is NULL in the rows of the others.
            rows = pl.concat([_rows(store, artifact, table) for artifact in artifacts], how="diagonal")
            connection.execute(f"DELETE FROM {table} WHERE list_contains(?, artifact_id)", [identities])  # noqa: S608 -- from FILES
            insert_rows(connection, table, rows)
        found = zip(
            *((a.stage, a.identity, a.data_version, a.complete, a.created_at) for a in artifacts), strict=True
        )
        # One statement for all: DuckDB takes as long for each row of `executemany`.
        connection.execute(
            "INSERT OR REPLACE INTO artifacts SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)",
            [*map(list, found)],
        )


def _rows(store: ArtifactStore, artifact: Artifact, table: str) -> pl.DataFrame:
    rows = read_parquet(store.folder(artifact.stage, artifact.identity) / f"{table}.parquet")
    return rows.with_columns(pl.lit(artifact.identity).alias("artifact_id"))


def point(connection: duckdb.DuckDBPyConnection, stage: str, identities: dict[str, str]) -> None:
    if identities:
        connection.execute(
            "INSERT OR REPLACE INTO pointers SELECT ?, unnest(?), unnest(?)",
            [stage, [*identities], [*identities.values()]],
        )


def forget(connection: duckdb.DuckDBPyConnection, study: str) -> None:
    connection.execute(
        "DELETE FROM pointers WHERE list_contains(?, stage) AND (key = ? OR starts_with(key, ?))",
        [list(OF_STUDIES), study, f"{study}."],
    )


def sync(
    connection: duckdb.DuckDBPyConnection,
    store: ArtifactStore,
    stage: str,
    keys: Iterable[str],
    say: Say = lambda _sentence: None,
    study: str | None = None,
) -> int:
    """Load rows that the database lacks and point the keys at them; damaged artifacts are set aside."""
    keys = list(keys)
    rows = connection.execute(
        "SELECT artifact_id, data_version, created_at FROM artifacts WHERE stage = ?", [stage]
    ).fetchall()
    # An artifact that was built again may differ in what its data version leaves out, such as seconds.
    known = {identity: (version, created_at) for identity, version, created_at in rows}
    pointers = connection.execute("SELECT key, artifact_id FROM pointers WHERE stage = ?", [stage])
    pointing = dict(pointers.fetchall())
    current = {key: artifact for key in keys if (artifact := store.current(stage, key))}
    missing = {
        a.identity: a for a in current.values() if known.get(a.identity) != (a.data_version, a.created_at)
    }
    loaded = readable(store, missing.values(), say)
    load(connection, store, loaded)
    bad = set(missing) - {artifact.identity for artifact in loaded}
    moved = {key: a.identity for key, a in current.items() if pointing.get(key) != a.identity}
    point(connection, stage, {key: identity for key, identity in moved.items() if identity not in bad})
    if study is not None and stage in OF_STUDIES:
        removed = [key for key in {*pointing} - {*keys} if study_of(key) == study]
        if removed:
            connection.execute(
                "DELETE FROM pointers WHERE stage = ? AND list_contains(?, key)", [stage, removed]
            )
    return len(loaded)


def write_llm_calls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    rows = connection.execute("SELECT call_id, created_at AT TIME ZONE 'UTC' FROM llm_calls").fetchall()
    known = {call_id: at and at.replace(tzinfo=UTC) for call_id, at in rows}
    cache = CallCache(home)
    missing = object()
    paid = [row for row in cache.paid(known) if known.get(row["call_id"], missing) != row["created_at"]]
    first = {row["call_id"].partition("~")[0] for row in paid}
    texts = {row["call_id"]: row for row in cache.rows(known.keys() - first)}
    found = {call_id: row for call_id, row in texts.items() if call_id not in known}
    for row in paid:
        whole = texts.get(row["call_id"].partition("~")[0])  # the last one, where it was called again
        is_this = whole is not None and whole["created_at"] == row["created_at"]
        found[row["call_id"]] = {**whole, "call_id": row["call_id"]} if whole and is_this else row
    if not found:
        return 0
    with transaction(connection):
        connection.execute("DELETE FROM llm_calls WHERE list_contains(?, call_id)", [[*found]])
        return insert_rows(connection, "llm_calls", frame(list(found.values()), CALLS))


def write_human_scores(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    known = dict(connection.execute("SELECT study, version FROM human_score_versions").fetchall())
    scores = HumanScores(home)
    now = {study: scores.snapshot(study) for study in scores.studies()}
    added = 0
    for study in {*known, *now}:
        snapshot = now.get(study)
        if snapshot is not None and known.get(study) == snapshot.digest:
            continue
        rows = frame([] if snapshot is None else scores.read(study, snapshot).rows, HUMAN_SCORES)
        before = connection.execute("SELECT count(*) FROM human_scores WHERE study = ?", [study]).fetchone()
        with transaction(connection):
            connection.execute("DELETE FROM human_scores WHERE study = ?", [study])
            insert_rows(connection, "human_scores", rows.with_row_index("ordinal", 1), new_only=True)
            connection.execute("DELETE FROM human_score_versions WHERE study = ?", [study])
            if snapshot is not None:
                connection.execute("INSERT INTO human_score_versions VALUES (?, ?)", [study, snapshot.digest])
        added += len(rows) - (before[0] if before else 0)
    return added


def write_history(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    rows = history_rows(home)
    there = rows["entry"].to_list()
    connection.execute("DELETE FROM history WHERE NOT list_contains(?::VARCHAR[], entry)", [there])
    return insert_rows(connection, "history", rows, new_only=True)


def write_crawls(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    known = {crawl_id for (crawl_id,) in connection.execute("SELECT crawl_id FROM crawls").fetchall()}
    sources = sorted(folder.name for folder in home.crawls.glob("*") if folder.is_dir())
    found = (read_crawls(home, source, known) for source in sources)
    return sum(insert_rows(connection, "crawls", rows, new_only=True) for rows in found if len(rows))


def readable(store: ArtifactStore, artifacts: Iterable[Artifact], say: Say) -> list[Artifact]:
    found = []
    for artifact in artifacts:
        damage = store.damage(artifact)
        if damage is None:
            found.append(artifact)
        else:
            store.set_aside(artifact)
            say(
                f"{artifact.stage} of {artifact.key} is damaged ({damage}); `assay run STUDY` builds it again"
            )
    return found


def rebuild(home: Home, path: Path | None = None, say: Say = lambda _sentence: None) -> dict[str, int]:
    """Make the database again from the files; return how many artifacts, calls … by stage or table."""
    from rag_assay.warehouse.conversation_tables import write_conversations

    target = path or home.database
    store = ArtifactStore(home)
    if mirror := mirror_of(home):
        mirror.bring_journals()
        mirror.pull("crawls", "current")
    recorded = {record.study: record.keys for record in study_records(home)}
    counts: dict[str, int] = {}
    with temporary_beside(target) as fresh:
        try:
            with connect(fresh) as connection:
                for stage in FILES:
                    artifacts = readable(store, store.all(stage), say)
                    for at in range(0, len(artifacts), BATCH):
                        load(connection, store, artifacts[at : at + BATCH])
                    there = {artifact.identity for artifact in artifacts}
                    keys = store.keys(stage)
                    # Those that the last run of their study had, where one is recorded
                    if stage in OF_STUDIES:
                        runs = {key: recorded.get(study_of(key)) for key in keys}
                        keys = [key for key, had in runs.items() if had is None or key in had.get(stage, ())]
                    current = {key: artifact for key in keys if (artifact := store.current(stage, key))}
                    named = {key: artifact.identity for key, artifact in current.items()}
                    point(connection, stage, {key: name for key, name in named.items() if name in there})
                    counts[stage] = len(artifacts)
                counts["llm_calls"] = write_llm_calls(connection, home)
                counts["crawls"] = write_crawls(connection, home)
                counts["human_scores"] = write_human_scores(connection, home)
                counts["history"] = write_history(connection, home)
                counts["conversations"] = write_conversations(connection, home)
            _put(fresh, target, say)
        finally:
            _log_of(fresh).unlink(missing_ok=True)
    return counts


def _put(fresh: Path, target: Path, say: Say) -> None:
    if not _log_of(target).exists():
        with suppress(OSError):  # there is a database, or there are no hard links
            os.link(fresh, target)
            return
    try:
        with connect(target, notify=say):
            fresh.replace(target)
    except DamagedDatabaseError as error:
        set_aside(target, error, say)
        fresh.replace(target)
    _log_of(target).unlink(missing_ok=True)  # DuckDB would play the old one's into the next file of that name


def set_aside(database: Path, error: DamagedDatabaseError, say: Say) -> None:
    if not database.exists() or database.stat().st_ino != error.inode:
        return  # another process has done it
    aside = database.with_name(f"{database.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    database.rename(aside)
    reason = str(error.__cause__).partition("\n")[0]
    say(f"{database} was damaged ({reason}): it was moved to {aside.name} and is rebuilt")
    with suppress(FileNotFoundError):
        _log_of(database).rename(_log_of(aside))


def _log_of(database: Path) -> Path:
    return database.with_name(database.name + ".wal")


def use_database(home: Home, use: Callable[[duckdb.DuckDBPyConnection], T], say: Say = lambda _: None) -> T:
    """A lost or damaged database is made again, before or while it is used."""
    try:
        return _used(home, use, say)
    except DamagedDatabaseError as error:
        set_aside(home.database, error, say)
        return _used(home, use, say)


def _used(home: Home, use: Callable[[duckdb.DuckDBPyConnection], T], say: Say) -> T:
    if not home.database.exists():
        with turn(home.root, lambda: say("waiting for another process that rebuilds the database …")):
            if not home.database.exists():
                rebuild(home, say=say)
    with connect(home.database, notify=say) as connection:
        return use(connection)


def on_whole_database(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        (home,) = (argument for argument in (*args, *kwargs.values()) if isinstance(argument, Home))
        if not home.database.exists():
            use_database(home, lambda _: None, log.warning)
        try:
            return function(*args, **kwargs)
        except DamagedDatabaseError as error:
            set_aside(home.database, error, log.warning)
            use_database(home, lambda _: None, log.warning)
            return function(*args, **kwargs)

    return called
