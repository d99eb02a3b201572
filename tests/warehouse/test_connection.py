from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pytest

from rag_assay.warehouse.connection import connect, migrate
from rag_assay.warehouse.errors import AssayError, CorruptFileError, InputError, LockedError
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
connection.close()
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the database until it is told a line, or to the end of the block."""
    command = [sys.executable, "-c", HOLD, str(path), "--as-a-notebook-would"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_lock_that_stays_names_the_process_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    told: list[str] = []
    with held(path) as process:
        begin = time.monotonic()
        with pytest.raises(LockedError) as caught, connect(path, wait=0.3, notify=told.append):
            pass
        assert 0.3 <= time.monotonic() - begin < 10
    message = str(caught.value)
    assert f"process {process.pid} (" in message
    assert "--as-a-notebook-would" in message or "import sys, duckdb" in message, "its command line"
    assert str(path) in message
    assert len(told) == 1, "one notice, not one a try"
    assert f"process {process.pid}" in told[0]


def test_a_lock_that_is_released_in_time_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    with held(path) as process:

        def release(_notice: str) -> None:
            assert process.stdin is not None
            process.stdin.write("enough\n")
            process.stdin.flush()

        with connect(path, wait=30, notify=release) as connection:
            assert connection.execute("SELECT count(*) FROM answers").fetchone() == (0,)


def test_threads_that_open_and_close_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    with connect(path):
        pass

    def look(_n: int) -> int:
        with connect(path) as connection:
            return len(connection.execute("SELECT 1").fetchall())

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(look, range(400))) == 400


def test_a_file_is_free_when_its_last_use_ends_and_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine" / "assay.duckdb", tmp_path / "other" / "assay.duckdb"
    with connect(mine) as outer, connect(other) as second:
        with connect(mine) as inner:
            inner.execute("INSERT INTO llm_calls (call_id) VALUES ('c1')")
        assert len(outer.execute("SELECT call_id FROM llm_calls").fetchall()) == 1
        assert second.execute("SELECT call_id FROM llm_calls").fetchall() == []
        with pytest.raises(subprocess.CalledProcessError):
            _open_elsewhere(mine)
    _open_elsewhere(mine)
    _open_elsewhere(other)
    assert not list(tmp_path.rglob("*.wal"))


def _open_elsewhere(path: Path) -> None:
    code = "import duckdb, sys; duckdb.connect(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, timeout=280)


def test_a_fatal_error_stays_with_the_file_that_had_it(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.duckdb", tmp_path / "other.duckdb"
    with connect(other) as second:
        with pytest.raises(CorruptFileError), connect(mine):
            raise duckdb.FatalException("database has been invalidated")
        with connect(mine) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert second.execute("SELECT 1").fetchall() == [(1,)]


def test_a_fork_opens_files_of_its_own(tmp_path: Path) -> None:
    with connect(tmp_path / "assay.duckdb"):
        pass
    process = get_context("fork").Process(target=_use, args=(tmp_path / "assay.duckdb",))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    _use(tmp_path / "assay.duckdb")


def _use(path: Path) -> None:
    with connect(path) as connection:
        connection.execute("SELECT count(*) FROM range(1000000)").fetchall()


def test_the_environment_says_how_long_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_LOCK_WAIT", "0.1")
    with held(tmp_path / "assay.duckdb"), pytest.raises(LockedError), connect(tmp_path / "assay.duckdb"):
        pass


@pytest.mark.parametrize("name", ["assay.duckdb", "padlock.duckdb"])
def test_a_file_that_is_no_database_says_how_it_is_made_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"this was a spreadsheet\n" * 1000)
    with (
        pytest.raises(CorruptFileError, match=rf"{name}: DuckDB cannot read it .*`assay workspace rebuild`"),
        connect(path),
    ):
        pass
    assert path.read_bytes().startswith(b"this was"), "nobody's file is overwritten"


def test_migrations_run_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "assay.duckdb"
    with connect(path) as connection:
        first = connection.execute("SELECT name, applied_at FROM migrations ORDER BY name").fetchall()
        connection.execute("INSERT INTO llm_calls (call_id, model) VALUES ('c1', 'm')")
        assert migrate(connection) == []
    assert first[0][0] == "m001_backbone.sql"
    with connect(path) as connection:
        assert connection.execute("SELECT name, applied_at FROM migrations ORDER BY name").fetchall() == first
        assert connection.execute("SELECT call_id FROM llm_calls").fetchall() == [("c1",)]


SCRIPTS = sorted(
    (one for one in files("rag_assay.warehouse.migrations").iterdir() if one.name.endswith(".sql")),
    key=lambda one: one.name,
)
KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from rag_assay.warehouse import connection
last = SimpleNamespace(read_text=lambda: os.kill(os.getpid(), signal.SIGKILL))
scripts = {**connection._migrations(), "m998_kill.sql": last}
connection._migrations = lambda: scripts
with connection.connect(Path(sys.argv[1])):
    pass
"""


SCHEMA = (
    "SELECT sql FROM duckdb_tables() WHERE database_name = current_database()",
    "SELECT sql FROM duckdb_views() WHERE database_name = current_database() AND NOT internal",
    "SELECT sql FROM duckdb_indexes() WHERE database_name = current_database()",
    "SELECT table_name, column_index, column_name, data_type, column_default FROM duckdb_columns() "
    "WHERE database_name = current_database() AND NOT internal",
    "SELECT table_name, constraint_text FROM duckdb_constraints() WHERE database_name = current_database()",
    "SELECT name FROM migrations",
)


def schema(path: Path) -> list[tuple[str, ...]]:
    """Return the tables, views, indexes, columns, constraints and migrations of a database."""
    with connect(path) as connection:
        rows = [row for query in SCHEMA for row in connection.execute(query).fetchall()]
    return sorted(tuple(EXCLUDED.sub(_in_order, str(field)) for field in row) for row in rows)


EXCLUDED = re.compile(r"(?<=EXCLUDE \()[^)]*")  # a set, which DuckDB writes in any order


def _in_order(names: re.Match[str]) -> str:
    return ", ".join(sorted(names[0].split(", ")))


def test_a_new_database_is_what_the_migrations_make_of_every_older_one(tmp_path: Path) -> None:
    new = schema(tmp_path / "new.duckdb")
    assert {(script.name,) for script in SCRIPTS} < {*new}
    older = tmp_path / "older.duckdb"
    with duckdb.connect(str(older)) as connection:
        connection.execute("CREATE TABLE migrations (name VARCHAR PRIMARY KEY, applied_at TIMESTAMPTZ)")
    for script in SCRIPTS[:-1]:
        with duckdb.connect(str(older)) as connection:
            connection.execute(script.read_text())
            connection.execute("INSERT INTO migrations VALUES (?, now())", [script.name])
        path = shutil.copy(older, tmp_path / f"{script.name}.duckdb")
        assert schema(path) == new, f"after {script.name}"


def test_a_kill_between_migrations_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    killed = subprocess.run([sys.executable, "-m", PROGRAM, KILLED, str(path)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM migrations").fetchall() == [(0,)]
    assert schema(path) == schema(tmp_path / "new.duckdb")


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    with connect(path) as connection:
        connection.execute("INSERT INTO migrations VALUES ('m999_future.sql', now())")
    with (
        pytest.raises(AssayError, match=r"newer rag-assay \(it has the migration m999_future\.sql\)"),
        connect(path),
    ):
        pass


def test_the_file_is_free_again_after_an_error_in_the_block(tmp_path: Path) -> None:
    path = tmp_path / "assay.duckdb"
    with pytest.raises(RuntimeError), connect(path):
        raise RuntimeError
    _open_elsewhere(path)


@pytest.mark.parametrize("given", ["soon", "nan", "-1", "inf"])
def test_a_time_to_wait_that_is_none_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("ASSAY_LOCK_WAIT", given)
    with (
        pytest.raises(InputError, match=f"ASSAY_LOCK_WAIT is a number of seconds, as in 60, not '{given}'"),
        connect(tmp_path / "assay.duckdb"),
    ):
        pass


def test_what_the_system_refuses_is_not_called_a_broken_file(tmp_path: Path) -> None:
    """A link into a folder that is not there: as with missing rights, a rebuild would mend nothing."""
    (tmp_path / "assay.duckdb").symlink_to(tmp_path / "absent" / "assay.duckdb")
    with pytest.raises(AssayError) as caught, connect(tmp_path / "assay.duckdb"):
        pass
    assert "rebuild" not in str(caught.value)
    assert str(tmp_path / "assay.duckdb") in str(caught.value)


def test_a_disk_that_fills_up_is_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(AssayError, match=r"assay.duckdb: IO Error: No space left"),
        connect(tmp_path / "assay.duckdb"),
    ):
        raise duckdb.IOException("IO Error: No space left on device\nStack Trace: …")


def test_ctrl_c_while_duckdb_works_is_an_interruption(tmp_path: Path) -> None:
    # What DuckDB 2.0 raises then. Not provoked: it may wait for a cancelled query without an end.
    for error, raised in (("Query interrupted", KeyboardInterrupt), ("another", RuntimeError)):
        with pytest.raises(raised), connect(tmp_path / "assay.duckdb"):
            raise RuntimeError(error)
