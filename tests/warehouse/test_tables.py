from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from rag_assay.warehouse import tables
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.connection import DamagedDatabaseError, connect, insert_rows
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANSWERS, CALLS, HITS, LOSSES, NOTES, QUESTIONS, RANKED, SCORES
from rag_assay.warehouse.study_records import StudyRecord, add_keys, write_study_record
from rag_assay.warehouse.tables import (
    forget,
    load,
    rebuild,
    set_aside,
    sync,
    use_database,
    write_crawls,
    write_llm_calls,
)
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]
HOSTILE = "'); DROP TABLE scores; -- \" $1 ? {x} \x00 \U0001f3f4 ${HOME} %s"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(Home(tmp_path))


def scored(
    store: ArtifactStore, key: str, identity: str, values: dict[str, float | None], made: str = "t1"
) -> Artifact:
    """Commit a scores artifact: question -> value; None: a timeout."""
    rows: list[dict[str, Any]] = [
        {
            "question_id": question,
            "metric": "mrr@10",
            "status": "timeout" if value is None else "ok",
            "value": value,
            "reason": "slow" if value is None else None,
        }
        for question, value in values.items()
    ]
    write_parquet(frame(rows, SCORES), store.folder("scores", identity) / "scores.parquet")
    return store.commit(
        Artifact("scores", key, identity, data_version=f"v{sorted(values.items())}", created_at=made)
    )


def query(store: ArtifactStore, sql: str) -> list[tuple[Any, ...]]:
    with connect(store.home.database) as connection:
        return connection.execute(sql).fetchall()


def everything(store: ArtifactStore) -> dict[str, list[tuple[Any, ...]]]:
    with connect(store.home.database) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {
            name: sorted(connection.table(name).fetchall(), key=repr)
            for name in names
            if name != "migrations"
        }


def synced(store: ArtifactStore, *keys: str) -> int:
    with connect(store.home.database) as connection:
        return sync(connection, store, "scores", keys)


ALL = "SELECT artifact_id, question_id, value FROM scores ORDER BY ALL"
CURRENT = "SELECT cell, question_id, value FROM current_scores ORDER BY ALL"


def test_loading_replaces_the_rows_of_the_same_identity(store: ArtifactStore) -> None:
    first = scored(store, "cell", "aa", {"q1": 0.5, "q2": None})
    with connect(store.home.database) as connection:
        load(connection, store, [first])
        load(connection, store, [first])
    assert query(store, ALL) == [("aa", "q1", 0.5), ("aa", "q2", None)]
    second = scored(store, "cell", "aa", {"q2": 1.0})
    with connect(store.home.database) as connection:
        load(connection, store, [second])
    assert query(store, ALL) == [("aa", "q2", 1.0)]


def test_artifacts_and_pointers_are_noted_as_they_are(store: ArtifactStore) -> None:
    whole, lacking = (scored(store, f"cell{name}", name, {"q1": 0.5}) for name in ("aa", "bb"))
    store.commit(replace(lacking, complete=False))
    assert synced(store, "cellaa", "cellbb", "gone") == 2
    assert query(store, "SELECT * FROM artifacts ORDER BY artifact_id") == [
        ("scores", "aa", whole.data_version, True, whole.created_at),
        ("scores", "bb", lacking.data_version, False, lacking.created_at),
    ]
    assert query(store, "SELECT * FROM pointers ORDER BY key") == [
        ("scores", "cellaa", "aa"),
        ("scores", "cellbb", "bb"),
    ]


def test_loading_is_all_or_nothing(store: ArtifactStore) -> None:
    good, bad = scored(store, "a", "aa", {"q1": 0.5}), scored(store, "b", "bb", {"q1": 1.0})
    (store.folder("scores", "bb") / "scores.parquet").write_bytes(b"torn")
    with (
        connect(store.home.database) as connection,
        pytest.raises(CorruptFileError, match=r"bb.scores\.parquet"),
    ):
        load(connection, store, [good, bad])
    assert query(store, ALL) == []
    assert query(store, "SELECT * FROM artifacts") == []


def test_sync_mends_what_is_missing_and_only_that(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    scored(store, "b", "bb", {"q1": 1.0})
    assert synced(store, "a", "b", "never built") == 2
    assert synced(store, "a", "b") == 0
    with connect(store.home.database) as connection:  # as a kill before the rows came in would leave it
        connection.execute("DELETE FROM scores WHERE artifact_id = 'aa'")
        connection.execute("DELETE FROM artifacts WHERE artifact_id = 'aa'")
        connection.execute("DELETE FROM pointers WHERE key = 'b'")
    assert synced(store, "a", "b") == 1
    assert query(store, CURRENT) == [("a", "q1", 0.5), ("b", "q1", 1.0)]


def test_an_artifact_that_was_built_again_is_loaded_again(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": None}, made="t1")
    assert synced(store, "a") == 1
    scored(store, "a", "aa", {"q1": 0.25}, made="t2")
    assert synced(store, "a") == 1
    assert query(store, CURRENT) == [("a", "q1", 0.25)]


def test_going_back_to_an_old_identity_moves_the_pointer_only(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    synced(store, "a")
    scored(store, "a", "bb", {"q1": 0.75})
    synced(store, "a")
    assert query(store, CURRENT) == [("a", "q1", 0.75)]
    store.point("scores", "a", "aa")
    assert synced(store, "a") == 0
    assert query(store, CURRENT) == [("a", "q1", 0.5)]
    assert query(store, ALL) == [("aa", "q1", 0.5), ("bb", "q1", 0.75)], "old rows stay"


def test_keys_that_a_study_has_no_longer_leave_the_views_alone(store: ArtifactStore) -> None:
    for key in ("town.a", "town.b", "townhall.a", "town~1.a"):
        scored(store, key, f"id-{key}", {"q1": 0.5})
    everywhere = [("town.a",), ("town.b",), ("townhall.a",), ("town~1.a",)]
    cells = "SELECT DISTINCT cell FROM current_scores ORDER BY ALL"
    synced(store, *(key for (key,) in everywhere))
    with connect(store.home.database) as connection:
        connection.execute("INSERT INTO pointers VALUES ('questions', 'town.set', 'questions')")
        assert sync(connection, store, "scores", ["town.a"], study="town") == 0
    assert query(store, cells) == [key for key in everywhere if key != ("town.b",)]
    assert query(store, "SELECT count(*) FROM scores") == [(4,)], "rows stay"
    write_study_record(store.home, StudyRecord("town", "town.yaml", {"scores": ["town.a"]}))
    rebuild(store.home)
    assert query(store, cells) == [key for key in everywhere if key != ("town.b",)]
    add_keys(store.home, "scores", ["town.b", "townhall.a"])
    rebuild(store.home)
    assert query(store, cells) == everywhere
    (store.home.root / "current" / "town.json").write_text("{")
    rebuild(store.home)
    assert query(store, cells) == everywhere, "without a record, all that was built is current"
    with connect(store.home.database) as connection:
        connection.execute("INSERT INTO pointers VALUES ('questions', 'town.set', 'questions')")
        forget(connection, "town")
    assert query(store, cells) == everywhere[2:]
    assert query(store, "SELECT key FROM pointers WHERE stage = 'questions'") == [("town.set",)]


def test_a_second_key_of_an_identity_takes_no_pointer_from_the_first(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    scored(store, "a", "bb", {"q1": 0.75})  # a moved on
    store.point("scores", "b", "aa")  # b now means what a meant
    synced(store, "a", "b")
    assert query(store, CURRENT) == [("a", "q1", 0.75), ("b", "q1", 0.5)]


def test_a_rebuilt_database_holds_the_same_rows(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5, "q2": None})
    synced(store, "a")
    scored(store, "a", "bb", {"q1": 0.75})
    scored(store, "b", "cc", {"q1": 1.0})
    store.point("scores", "also-b", "cc")
    synced(store, "a", "b", "also-b")
    store.point("scores", "a", "aa")  # the pointer names an old identity
    synced(store, "a")
    before = everything(store)
    assert len(before["scores"]) == 4
    assert rebuild(store.home)["scores"] == 3
    assert everything(store) == before
    store.home.database.unlink()
    rebuild(store.home)
    assert everything(store) == before


def test_only_the_calls_that_the_database_lacks_are_read(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, read = CallCache(store.home), list[str]()
    record = CallCache._record
    monkeypatch.setattr(
        CallCache, "_record", lambda self, call_id: [read.append(call_id), record(self, call_id)][1]
    )
    for name in ("aa1", "aa2", "bb1"):
        cache.put(name, {"model": "m", "status": "ok"})

    def brought() -> tuple[int, list[str]]:
        read.clear()
        with connect(store.home.database) as connection:
            return write_llm_calls(connection, store.home), sorted(read)

    assert brought() == (3, ["aa1", "aa2", "bb1"])
    assert brought() == (0, [])
    for name in ("aa0", "cc1"):
        cache.put(name, {"model": "m", "status": "ok"})
    assert brought() == (2, ["aa0", "cc1"])
    store.home.database.unlink()
    assert brought() == (5, ["aa0", "aa1", "aa2", "bb1", "cc1"])


def test_a_call_that_is_made_again_is_paid_again(store: ArtifactStore) -> None:
    cache = CallCache(store.home)

    def paid(day: int, usd: float) -> list[tuple[object, ...]]:
        cache.forget(["aa1"])
        made = {"created_at": f"2026-01-0{day}T00:00:00+00:00", "usd": usd}
        cache.put("aa1", {"model": "m", "status": "ok", "response": f"day {day}", **made})
        with connect(store.home.database) as connection:
            write_llm_calls(connection, store.home)
            assert write_llm_calls(connection, store.home) == 0
        return query(store, "SELECT call_id, usd FROM llm_calls ORDER BY 1")

    assert paid(1, 0.25) == [("aa1", 0.25)]
    assert paid(2, 0.5) == [("aa1", 0.25), ("aa1~2", 0.5)]
    store.home.database.unlink()
    assert paid(3, 1.0) == [("aa1", 0.25), ("aa1~2", 0.5), ("aa1~3", 1.0)]
    assert query(store, "SELECT call_id FROM llm_calls WHERE response = 'day 3'") == [("aa1~3",)]
    assert paid(4, 2.0)[-1] == ("aa1~4", 2.0)
    assert query(store, "SELECT call_id FROM llm_calls WHERE response = 'day 4'") == [("aa1~4",)]


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_payment_is_counted_once_whatever_the_database_has(store: ArtifactStore, is_torn: bool) -> None:
    """A call was made twice before the table had a row for each time, or its first line is torn."""
    cache = CallCache(store.home)
    for day, usd in ((1, 0.25), (2, 0.5)):
        made = {"created_at": f"2026-01-0{day}T00:00:00+00:00", "usd": usd}
        cache.put("aa1", {"model": "m", "status": "ok", **made})
    (ledger,) = store.home.paid.iterdir()
    _, first, second = ledger.read_bytes().splitlines()
    ledger.write_bytes(b"\n" + (first[:-20] if is_torn else first) + b"\n" + second)
    with connect(store.home.database) as connection:
        insert_rows(connection, "llm_calls", frame(list(cache.rows()), CALLS))  # as the last one
        write_llm_calls(connection, store.home)
        write_llm_calls(connection, store.home)
    expected = [("aa1", 0.5)] if is_torn else [("aa1", 0.25), ("aa1~2", 0.5)]
    assert query(store, "SELECT call_id, usd FROM llm_calls ORDER BY 1") == expected
    store.home.database.unlink()
    with connect(store.home.database) as connection:
        write_llm_calls(connection, store.home)
    assert query(store, "SELECT call_id, usd FROM llm_calls ORDER BY 1") == expected


def test_only_the_crawls_that_the_database_lacks_are_read(store: ArtifactStore) -> None:
    folder = store.home.crawls / "site"
    folder.mkdir(parents=True)
    moment = "2026-01-01T00:00:00+00:00"
    record = {"source": "site", "started_at": moment, "ended_at": moment, "outcome": "ok", "failed": "{}"}
    for name in ("c1", "c2"):
        (folder / f"{name}.json").write_text(json.dumps({**record, "crawl_id": name}))
    with connect(store.home.database) as connection:
        assert write_crawls(connection, store.home) == 2
        (folder / "c1.json").write_text("torn since")
        (folder / "c0.json").write_text(json.dumps({**record, "crawl_id": "c0"}))
        assert write_crawls(connection, store.home) == 1
        assert write_crawls(connection, store.home) == 0
    assert (folder / "c1.json").exists()  # put aside, had it been read
    assert query(store, "SELECT crawl_id FROM crawls ORDER BY 1") == [("c0",), ("c1",), ("c2",)]


def test_calls_say_what_they_were_paid_for_and_old_ones_nothing(store: ArtifactStore) -> None:
    cache = CallCache(store.home)
    cache.put("old", {"model": "openai/any", "status": "ok", "created_at": "2026-01-01T00:00:00+00:00"})
    paid_for = {"purpose": "answers", "study": "energy", "cell": "energy.a.b.c.d", "question": "q1"}
    cache.put("new", {"model": "openai/any", "status": "ok", **paid_for, "queued": 0.5, "retries": 2})
    with connect(store.home.database) as connection:
        assert write_llm_calls(connection, store.home) == 2
    columns = "call_id, purpose, study, cell, question, queued, retries"
    wanted = [
        ("new", "answers", "energy", "energy.a.b.c.d", "q1", 0.5, 2),
        ("old", None, None, None, None, None, None),
    ]
    assert query(store, f"SELECT {columns} FROM llm_calls ORDER BY 1") == wanted  # noqa: S608
    store.home.database.unlink()
    assert rebuild(store.home)["llm_calls"] == 2
    assert query(store, f"SELECT {columns} FROM llm_calls ORDER BY 1") == wanted  # noqa: S608


@pytest.mark.parametrize(
    "spoil", [lambda line: b'{"torn\n', lambda line: line.replace(b"openai", b"upenai"), lambda line: b""]
)
def test_what_was_paid_survives_a_damaged_cache(
    store: ArtifactStore, spoil: Callable[[bytes], bytes]
) -> None:
    cache = CallCache(store.home)
    paid = {"model": "openai/any", "status": "ok", "request": "{}", "usd": 0.5, "prompt_tokens": 11}
    for name in ("aa1", "aa2"):
        cache.put(name, {**paid, "created_at": "2026-01-01T00:00:00+00:00", "purpose": "answers"})
    path = cache.folder / "calls.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(spoil(first) + second)
    columns = "call_id, status, usd, prompt_tokens, purpose, request"
    wanted = [("aa1", "ok", 0.5, 11, "answers", None), ("aa2", "ok", 0.5, 11, "answers", "{}")]
    for _ in range(2):  # the second time from the file alone that has lost it
        assert rebuild(store.home)["llm_calls"] == 2
        assert query(store, f"SELECT {columns} FROM llm_calls ORDER BY 1") == wanted  # noqa: S608
        store.home.database.unlink()


REBUILD_KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assay.warehouse import tables
from rag_assay.warehouse.paths import Home
tables.write_crawls = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tables.rebuild(Home(Path(sys.argv[1])))
"""


def test_a_killed_rebuild_leaves_the_old_database_and_nothing_in_the_way(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    synced(store, "a")
    before = everything(store)
    command = [sys.executable, "-m", PROGRAM, REBUILD_KILLED, str(store.home.root)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert everything(store) == before
    (store.folder("scores", "aa") / "artifact.json").unlink()
    assert rebuild(store.home)["scores"] == 0
    assert query(store, ALL) == [], "rows of the killed rebuild came back"


def test_a_lost_database_is_made_by_one_round_of_migrations(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(
        tables, "connect", lambda path, **more: [opened.append(path), connect(path, **more)][1]
    )
    scored(store, "a", "aa", {"q1": 0.5})
    assert use_database(store.home, lambda connection: connection.execute(ALL).fetchall())
    made, used = opened
    assert used == store.home.database
    assert made.name.endswith(".tmp")
    assert [*store.home.database.parent.glob("*.duckdb*")] == [store.home.database]


@pytest.mark.parametrize("obstacle", ["no hard links", "log of a lost database"])
def test_a_lost_database_is_made_again_where_it_cannot_be_linked(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    synced(store, "a")
    before = query(store, ALL)
    wal = store.home.database.with_name(f"{store.home.database.name}.wal")
    store.home.database.unlink()
    if obstacle == "no hard links":

        def link(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
    else:
        with duckdb.connect(str(store.home.database)) as connection:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            connection.execute("CREATE TABLE old (x INTEGER)")
        assert wal.exists()
        store.home.database.unlink()
    assert rebuild(store.home)["scores"] == 1
    assert query(store, ALL) == before
    assert not wal.exists()
    assert query(store, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'old'") == [(0,)]


def test_hostile_strings_are_only_data(store: ArtifactStore) -> None:
    text = HOSTILE.replace("\x00", "")
    row: dict[str, object] = {
        "question_id": text,
        "status": "ok",
        "answer": text,
        "chunk_ids": [text],
        "raw": text,
    }
    write_parquet(frame([row], ANSWERS), store.folder("answers", "aa") / "answers.parquet")
    store.commit(Artifact("answers", text.replace("/", ""), "aa", data_version="v"))
    scored(store, "a", "bb", {"q1": 0.5})
    with connect(store.home.database) as connection:
        sync(connection, store, "answers", [text.replace("/", "")])
        sync(connection, store, "scores", ["a"])
    found = query(store, "SELECT question_id, answer, raw, chunk_ids FROM answers")
    assert found == [(text, text, text, [text])]
    assert query(store, ALL) == [("bb", "q1", 0.5)]
    assert query(store, "SELECT key FROM pointers WHERE stage = 'answers'") == [(text.replace("/", ""),)]


def ranking(store: ArtifactStore, key: str, identity: str, lost: Sequence[str | None]) -> Artifact:
    """Commit a ranking of a question whose pieces of evidence were lost there."""
    folder = store.folder("rankings", identity)
    hit = {"question_id": "q1", "rank": 1, "chunk_id": f"chunk of {identity}"}
    write_parquet(frame([hit], HITS), folder / "hits.parquet")
    write_parquet(frame([{"question_id": "q1", "status": "ok"}], RANKED), folder / "ranked.parquet")
    rows: list[dict[str, Any]] = [
        {"question_id": "q1", "evidence": number, "lost_at": at} for number, at in enumerate(lost)
    ]
    write_parquet(frame(rows, LOSSES), folder / "losses.parquet")
    write_parquet(frame([], NOTES), folder / "notes.parquet")
    return store.commit(Artifact("rankings", key, identity, data_version="v"))


LOST = "SELECT ranking, question_id, evidence, lost_at FROM current_losses ORDER BY ALL"


def test_losses_are_those_of_the_current_ranking(store: ArtifactStore) -> None:
    ranking(store, "r", "aa", ["corpus"])
    ranking(store, "r", "bb", [None, "fusion"])
    with connect(store.home.database) as connection:
        assert sync(connection, store, "rankings", ["r"]) == 1
    assert query(store, LOST) == [("r", "q1", 0, None), ("r", "q1", 1, "fusion")]


def test_a_ranking_without_its_hits_is_an_error(store: ArtifactStore) -> None:
    artifact = ranking(store, "r", "aa", ["cut"])
    (store.folder("rankings", "aa") / "hits.parquet").unlink()
    with (
        connect(store.home.database) as connection,
        pytest.raises(CorruptFileError, match=r"hits\.parquet: the file is missing"),
    ):
        load(connection, store, [artifact])


def test_question_sets_with_and_without_a_later_column_are_loaded_together(store: ArtifactStore) -> None:
    new = frame([{"question_id": "q1", "question_set": "set"}], {**QUESTIONS, "asked_at": pl.String})
    new = new.with_columns(asked_at=pl.lit("2026-01-31"), conversation=pl.Series([["first", "second"]]))
    old = new.drop("asked_at", "conversation")
    for identity, rows in {"aa": old, "bb": new}.items():
        write_parquet(rows, store.folder("questions", identity) / "questions.parquet")
        store.commit(Artifact("questions", identity, identity, data_version="v"))
    assert rebuild(store.home)["questions"] == 2
    found = query(store, "SELECT artifact_id, asked_at, conversation FROM questions ORDER BY ALL")
    assert found == [("aa", None, None), ("bb", "2026-01-31", ["first", "second"])]


def older_database(path: Path, last: str) -> None:
    """Make a database with the migrations up to ``last``, a row in each table, and every view read once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE migrations (name VARCHAR PRIMARY KEY, applied_at TIMESTAMPTZ)")
        for script in sorted(files("rag_assay.warehouse.migrations").iterdir(), key=lambda entry: entry.name):
            if script.name.endswith(".sql") and script.name <= last:
                connection.execute(script.read_text())
                connection.execute("INSERT INTO migrations VALUES (?, now())", [script.name])
        for table, stage in (("questions", "questions"), ("hits", "rankings"), ("scores", "scores")):
            connection.execute(f"INSERT INTO {table} (artifact_id, question_id) VALUES ('aa', 'q1')")  # noqa: S608
            connection.execute("INSERT INTO pointers VALUES (?, 'key', 'aa')", [stage])
        connection.execute("INSERT INTO llm_calls (call_id, model) VALUES ('c1', 'm')")
        for view in views(connection):
            connection.table(view).fetchall()


def views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")
    return [name for (name,) in found.fetchall()]


@pytest.mark.parametrize("last", ["m001_backbone.sql", "m002_gone.sql"])
def test_an_older_database_is_brought_up_to_date_with_its_rows(store: ArtifactStore, last: str) -> None:
    older_database(store.home.database, last)
    with connect(store.home.database) as connection:
        assert {"current_hits", "current_scores", "current_losses"} <= set(views(connection))
        for view in views(connection):
            connection.table(view).fetchall()
        asked = connection.execute("SELECT question_id, asked_at, conversation FROM questions").fetchall()
        assert asked == [("q1", None, None)]
        calls = connection.execute("SELECT call_id, purpose, queued, retries FROM llm_calls").fetchall()
        assert calls == [("c1", None, None, None)]
        assert connection.execute("SELECT ranking, question_id FROM current_hits").fetchall() == [
            ("key", "q1")
        ]
        assert connection.execute("SELECT cell, question_id FROM current_scores").fetchall() == [
            ("key", "q1")
        ]
    ranking(store, "key", "bb", ["budget"])
    with connect(store.home.database) as connection:
        assert sync(connection, store, "rankings", ["key"]) == 1
    assert query(store, LOST) == [("key", "q1", 0, "budget")]


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path, share: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0x10
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "torn": torn,
    "not ours": lambda path: path.write_bytes(b"this was a spreadsheet\n" * 1000),
    "header": lambda path: flipped(path, 0.001),
    **{f"block at {share}": partial(flipped, share=share) for share in (0.3, 0.5, 0.7, 0.9)},
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_set_aside_and_made_again(store: ArtifactStore, damage: str) -> None:
    scored(store, "a", "aa", {"q1": 0.5, "q2": None})
    synced(store, "a")
    scored(store, "a", "bb", {f"q{n}": n / 7 for n in range(5000)})
    synced(store, "a")
    before = everything(store)
    path = store.home.database
    DAMAGE[damage](path)
    left = path.read_bytes() if path.exists() else None
    told: list[str] = []

    def read(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[Any, ...]]]:
        return {table: sorted(connection.table(table).fetchall(), key=repr) for table in before}

    assert use_database(store.home, read, told.append) == before
    aside = list(path.parent.glob("assay.duckdb.damaged-*"))
    if told:
        assert [one.read_bytes() for one in aside] == [left], "nobody's file is overwritten"
        assert len(told) == 1
        assert f"it was moved to {aside[0].name} and is rebuilt" in told[0]
    else:
        assert damage == "gone" or damage.startswith("block"), "a free block holds nothing"
        assert not aside
    rebuild(store.home)
    assert everything(store) == before


def test_a_rebuild_sets_a_damaged_database_aside(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    synced(store, "a")
    before = everything(store)
    store.home.database.write_bytes(b"")
    told: list[str] = []
    assert rebuild(store.home, say=told.append)["scores"] == 1
    assert everything(store) == before
    assert len(told) == 1


def test_what_another_process_has_made_again_is_not_set_aside(store: ArtifactStore) -> None:
    store.home.database.write_bytes(b"no database")
    with pytest.raises(DamagedDatabaseError) as caught, connect(store.home.database):
        pass
    rebuild(store.home)
    set_aside(store.home.database, caught.value, print)
    assert store.home.database.exists()


def test_damaged_artifacts_are_set_aside_and_the_others_are_loaded(store: ArtifactStore) -> None:
    scored(store, "a", "aa", {"q1": 0.5})
    scored(store, "b", "bb", {"q1": 1.0})
    path = store.folder("scores", "bb") / "scores.parquet"
    path.write_bytes(b"?" * path.stat().st_size)
    told: list[str] = []
    assert rebuild(store.home, say=told.append)["scores"] == 1
    assert query(store, CURRENT) == [("a", "q1", 0.5)]
    assert len(told) == 1
    assert told[0].startswith("scores of b is damaged (")
    assert store.current("scores", "b") is None, "so that the next run builds it again"
    scored(store, "b", "bb", {"q1": 1.0})
    assert synced(store, "a", "b") == 1
    assert query(store, CURRENT) == [("a", "q1", 0.5), ("b", "q1", 1.0)]


def test_evidence_of_an_older_database_stays_with_a_similarity_that_is_not_known(
    store: ArtifactStore,
) -> None:
    older_database(store.home.database, "m006_replicates.sql")
    with duckdb.connect(str(store.home.database)) as connection:
        evidence = (
            "{'doc_id': 'd', 'url': 'u', 'quote': 'q', 'start': 1, 'end': 2, 'grade': 1, 'reason': NULL}"
        )
        connection.execute(f"UPDATE questions SET evidence = [{evidence}]")  # noqa: S608
    assert query(store, "SELECT evidence[1].quote, evidence[1].similarity FROM questions") == [("q", None)]
