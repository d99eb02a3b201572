"""One trial: a home is disturbed, runs again until it is done, and its rows are compared.

Each run is a process of its own, forked from one that has imported what is safe to share: it starts in a
moment, and may be killed.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

if TYPE_CHECKING:
    from dagster import DagsterInstance

CALLS = "calls of models"  # that were answered well; a judge is tried with other answers while a cell fails
QUERIES = {
    "current_hits": "SELECT * FROM current_hits",
    "current_answers": "SELECT * EXCLUDE (seconds, cached) FROM current_answers",
    "current_scores": "SELECT * FROM current_scores",
    "current_leaderboard": "SELECT * EXCLUDE (cell_id) FROM current_leaderboard",
    "current_verdict": "SELECT study, subset, metric, margin, prefer, questions, documents, cells, coverage, "
    "leader.cell AS leader, leader.value AS value, tied, worse, unranked FROM current_verdict",
    "current_losses": "SELECT * FROM current_losses",
    "current_notes": "SELECT * FROM current_notes",
    "current_judgements": "SELECT * EXCLUDE (seconds, cached, calls) FROM current_judgements",
    "current_judge_cards": "SELECT * FROM current_judge_cards WHERE measure NOT LIKE '%seconds%'",
    "current_human_scores": "SELECT * EXCLUDE (ordinal, place) FROM current_human_scores",
    "current_annotations": "SELECT * FROM current_annotations",
    "current_human_estimates": "SELECT * FROM current_human_estimates",
    "current_agreement": "SELECT * FROM current_agreement",
    "current_searches": "SELECT * FROM current_searches",
    "current_search_values": "SELECT * FROM current_search_values",
    "cells": "SELECT * EXCLUDE (cell_id) FROM cells",
    "pointers": "SELECT stage, key FROM pointers",
    "questions": "SELECT p.key, q.* EXCLUDE (artifact_id) FROM questions q "
    "JOIN pointers p ON p.stage = 'questions' AND p.artifact_id = q.artifact_id",
    "ranked": "SELECT p.key, r.* EXCLUDE (artifact_id, seconds) FROM ranked r "
    "JOIN pointers p ON p.stage = 'rankings' AND p.artifact_id = r.artifact_id",
    CALLS: "SELECT model, call_id, prompt_tokens, completion_tokens FROM llm_calls WHERE status = 'ok'",
    "newest result": "SELECT study, metric, leader, value, low, high, tied, cells, documents, questions "
    "FROM history QUALIFY row_number() OVER (PARTITION BY study ORDER BY number DESC) = 1",
}
"""What must be equal: all that a person reads but how long things took, and identities that regard that."""
TOLERANCE = (
    1e-5  # of numbers: a text that is embedded beside others after a kill has a vector that differs by 1e-7
)
PATIENCE = 600.0  # seconds that a run may take, on a busy machine too

Step = Callable[[], object]


@dataclass
class Ended:
    """How a run ended: its exit code (negative: killed by that signal), what it told, and its seconds."""

    code: int
    told: str
    seconds: float


@dataclass
class Trial:
    """What is done to a home.

    kind, name: for the table
    begins: `empty`; `done`: with all of the first study; a stage's name: as its first run was after it
    disturb: does it; may run the study itself
    study: which is run afterwards
    questions: it is this slice of the study
    rebuilds: whether the database is made again at the end, too
    """

    kind: str
    name: str
    begins: str
    disturb: Callable[[Path], object]
    study: Path
    questions: str | None = None
    rebuilds: bool = False
    wrong: list[str] = field(default_factory=list)


_forking = threading.Lock()  # filelock, which libraries import, refuses two forks at once


def forked(home: Path, act: Callable[[], int | None], prepare: Step = lambda: None) -> Callable[[], Ended]:
    """Start ``act`` in a process of its own on a home; return what waits for its end.

    prepare: is called in it before: sets limits and traps
    """
    said = home.with_name(f"{home.name}.{time.monotonic_ns()}.log")
    begin = time.monotonic()
    with _forking:
        process = os.fork()
    if process == 0:
        _child(home, said, act, prepare)

    def wait() -> Ended:
        while True:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                told = said.read_text(errors="replace") if said.exists() else ""
                return Ended(os.waitstatus_to_exitcode(status), told, time.monotonic() - begin)
            if time.monotonic() - begin > PATIENCE:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.02)

    return wait


def _child(home: Path, said: Path, act: Callable[[], int | None], prepare: Step) -> None:
    code = 70
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ["ASSAY_HOME"] = str(home)
        os.environ["ASSAY_LOCK_WAIT"] = "60"
        os.environ["OPENAI_API_KEY"] = key_of(home)
        from rag_assay.orchestration.settings import prepare as prepare_home

        prepare_home()
        prepare()
        code = act() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def key_of(home: Path) -> str:
    """Return the key by which the scripted server tells the trials apart, which run at the same time."""
    return home.parent.name


def walk(study: Path, questions: str | None = None, *, silence: float = 30.0) -> Callable[[], int]:
    """Return what brings a study up to date as `assay run` does; its code is 0 when all is there.

    Then it has written the rows that must be equal beside the home.

    questions: makes it a slice, as `--questions` does
    silence: seconds after which a silent server of a model is given up
    """

    def act() -> int:
        from rag_assay.evals.study.run_studies import slice_study
        from rag_assay.evals.study.study_file import read_study
        from rag_assay.orchestration.driver import Driver
        from rag_assay.orchestration.search_run import search_study
        from rag_assay.orchestration.stages import up_to
        from rag_assay.warehouse.errors import AssayError
        from rag_assay.warehouse.paths import home

        impatient_models(silence)
        try:
            found = slice_study(read_study(study), questions=questions)
            found = search_study(
                found, home(), lambda part, last: Driver(part, home(), _told).run(up_to(part, [last]))
            )
            report = Driver(found, home(), _told).run()
        except (AssayError, OSError) as error:  # as the command says it, and ends with 1
            print(f"error: {error}")
            return 1
        for stage in report.stages:
            for key, reason in stage.failed.items():
                print(f"failed: {stage.stage} of {key}: {reason}")
        if not report.ok:
            return 1
        write_rows(home().root)
        return 0

    return act


def job(study: Path) -> Callable[[], int]:
    """Return what runs the job of a study as Dagster does when a person launches it."""

    def act() -> int:
        import dagster as dg

        from rag_assay.evals.study.study_file import read_study
        from rag_assay.orchestration.study_definitions import definitions_of

        impatient_models()
        found = read_study(study)
        launched = definitions_of([found]).resolve_job_def(f"study_{found.study}")
        with dg.DagsterInstance.get() as instance:
            return 0 if launched.execute_in_process(instance=instance, raise_on_error=False).success else 1

    return act


def impatient_models(silence: float = 30.0) -> None:
    """Give up a server that is silent, or refuses all calls, after so many seconds; try nothing again."""
    from functools import partial

    from rag_assay.evals.pipeline import run_resources
    from rag_assay.warehouse.inference import single_call, throttle
    from rag_assay.warehouse.inference.gateway import Gateway

    single_call.PATIENCE = throttle.PATIENCE = silence
    run_resources.Gateway = partial(Gateway, timeout=silence, retries=0)  # type: ignore[misc,assignment]


def _told(label: str, _done: int, of: int) -> None:
    if not of:
        print(label)


def rebuild() -> int:
    """Make the database again, as `assay workspace rebuild` does, and write its rows."""
    from rag_assay.warehouse.errors import AssayError
    from rag_assay.warehouse.garbage_collection import marked
    from rag_assay.warehouse.paths import home
    from rag_assay.warehouse.tables import rebuild as make_again

    try:
        with marked(home()):
            make_again(home(), say=print)
        write_rows(home().root)
    except (AssayError, OSError) as error:  # as the command says it, and ends with 1
        print(f"error: {error}")
        return 1
    return 0


def write_rows(home: Path) -> None:
    """Write the rows that must be equal beside a home."""
    rows_file(home).write_text(json.dumps(read_rows(home)))


def read_rows(home: Path) -> dict[str, list[str]]:
    """Return the rows that must be equal, by what they are."""
    from rag_assay.warehouse.connection import connect
    from rag_assay.warehouse.history import history_rows
    from rag_assay.warehouse.paths import Home

    found: dict[str, list[object]] = {}
    with connect(home / "assay.duckdb") as connection:
        for name, query in QUERIES.items():
            found[name] = list(connection.execute(query).fetchall())
        kept = connection.execute("SELECT study, entry FROM history ORDER BY ALL").fetchall()
    lines = sorted(map(tuple, history_rows(Home(home)).select("study", "entry").rows()))
    found["results that stand in file or table alone"] = sorted(set(lines) ^ set(kept))
    for path in sorted((home / "reports").glob("*.json")):
        found[f"report {path.name}"] = [
            {name: value for name, value in row.items() if name not in {"cell_id", "seconds"}}
            for row in json.loads(path.read_text())
            if "seconds" not in str(row.get("measure"))
        ]
    with opened_instance(home) as instance:
        found["runs without an end"] = [run.run_id for run in instance.get_runs() if not run.is_finished]
    return {name: sorted(json.dumps(row, default=str) for row in rows) for name, rows in found.items()}


@contextmanager
def opened_instance(home: Path) -> Iterator[DagsterInstance]:
    """Open a home's Dagster instance, whose configuration names its folder by `DAGSTER_HOME`.

    No child is forked meanwhile: it would take the folder for one that a person has named.
    """
    import dagster as dg

    from rag_assay.orchestration.settings import instance_folder
    from rag_assay.warehouse.paths import Home

    folder = str(instance_folder(Home(home)))
    with _forking, patch.dict(os.environ, {"DAGSTER_HOME": folder}):
        instance = dg.DagsterInstance.from_config(folder)
    with instance:
        yield instance


def rows_file(home: Path) -> Path:
    """Return where the rows of a home are written."""
    return home.with_name(f"{home.name}.rows.json")


def rows_of(home: Path) -> dict[str, list[str]]:
    """Return the rows of a home whose last run ended well."""
    rows: dict[str, list[str]] = json.loads(rows_file(home).read_text())
    return rows


def differences(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> list[str]:
    """Say how two homes' rows differ, a sentence a view."""
    said = []
    for view, rows in wanted.items():
        known, there = _numbers_of(rows), _numbers_of(found.get(view, []))
        lacking = [row for row in known if not _alike(known[row], there.get(row, []))]
        excess = [] if view == CALLS else [row for row in there if row not in known]
        if lacking or excess:
            first = (lacking or excess)[0]
            counts = f"{len(lacking)} of {len(rows)} rows lack or have other numbers, {len(excess)} too many"
            said.append(f"{view}: {counts}, first {first}: {there.get(first)} for {known.get(first)}")
    return said


def _numbers_of(rows: list[str]) -> dict[str, list[list[float]]]:
    """Return the fractional numbers of each row, by all else that it holds."""
    found: dict[str, list[list[float]]] = {}
    for row in map(json.loads, rows):
        numbers: list[float] = []
        rest = _without_numbers(row, numbers)
        found.setdefault(json.dumps(rest), []).append(numbers)
    return {rest: sorted(numbers) for rest, numbers in found.items()}


def _without_numbers(value: object, numbers: list[float]) -> object:
    """Return a value without its fractional numbers, which are added to ``numbers`` in their order."""
    if isinstance(value, float):
        numbers.append(value)
        return None
    if isinstance(value, list):
        return [_without_numbers(one, numbers) for one in value]
    if isinstance(value, dict):
        return {name: _without_numbers(one, numbers) for name, one in value.items()}
    return value


def _alike(some: list[list[float]], others: list[list[float]]) -> bool:
    return [len(one) for one in some] == [len(one) for one in others] and all(
        math.isclose(one, other, abs_tol=TOLERANCE)
        for pair in zip(some, others, strict=True)
        for one, other in zip(*pair, strict=True)
    )


def killed_at(number: int, where: str = "") -> Step:
    """Return what lets a process kill itself at the n-th time that it gives a file its final name (from 0).

    where: counted are only those below a folder that is called so
    """

    def trap() -> None:
        seen = 0

        def look(event: str, args: tuple[object, ...]) -> None:
            nonlocal seen
            if event not in {"os.rename", "os.link"} or where not in str(args[1]):
                return
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

        sys.addaudithook(look)

    return trap


def torn_at(where: str, *, renamed: bool) -> Step:
    """Return what lets a process kill itself as it names a file below a folder, which it had written half of.

    renamed: the file has its final name then, as on a disk that keeps names before contents
    """

    def trap() -> None:
        is_torn = False

        def look(event: str, args: tuple[object, ...]) -> None:
            nonlocal is_torn
            if event not in {"os.rename", "os.link"} or where not in str(args[1]) or is_torn:
                return
            written, named = Path(str(args[0])), Path(str(args[1]))
            if written.is_file():
                is_torn = True
                os.truncate(written, written.stat().st_size // 2)
                if renamed:
                    shutil.copy(written, named)
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)

    return trap


def torn_append(where: str) -> Step:
    """Return what kills a process after half of its first write to a file below a folder."""

    def trap() -> None:
        real = os.write

        def write(handle: int, data: bytes) -> int:
            if where not in str(Path(f"/proc/self/fd/{handle}").readlink()):
                return real(handle, data)
            real(handle, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        os.write = write

    return trap


class _BadSector(io.FileIO):
    """A file whose second half cannot be read."""

    def readinto(self, buffer: Any, /) -> int | None:
        left = os.fstat(self.fileno()).st_size // 2 - self.tell()
        if left <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.name)
        return super().readinto(memoryview(buffer)[:left])

    def readall(self) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), self.name)


def unreadable(path: Path) -> Step:
    """Return what lets a process that reads a file meet an error of the disk in the middle (`EIO`)."""
    bad = path.stat().st_ino

    def trap() -> None:
        real = io.open

        def opened(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            found = real(file, mode, *more, **named)
            if mode not in {"r", "rb"} or os.fstat(found.fileno()).st_ino != bad:
                return found
            found.close()
            raw = io.BufferedReader(_BadSector(file))
            return raw if mode == "rb" else io.TextIOWrapper(raw, encoding="utf-8")

        at = os.pread

        def read_at(handle: int, length: int, begin: int) -> bytes:
            found = os.fstat(handle)
            if found.st_ino == bad and begin + length > found.st_size // 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return at(handle, length, begin)

        io.open = builtins.open = opened  # type: ignore[assignment]
        os.pread = read_at

    return trap


def unreadable_by_libraries(path: Path) -> Step:
    """Return what lets every read of a file fail (`EIO`), those of polars, DuckDB and LanceDB too.

    A process cannot do that to itself: strace answers its system calls.
    """

    def trap() -> None:
        calls = "read,pread64,preadv,preadv2,mmap"
        inject = ["-P", str(path), "-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO"]
        command = ["strace", "-f", "-qq", "-o", os.devnull, *inject, "-p", str(os.getpid())]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
        end = time.monotonic() + 20
        while "TracerPid:\t0\n" in Path("/proc/self/status").read_text():
            assert tracer.poll() is None, "strace ended"
            assert time.monotonic() < end, "strace does not follow this process"
            time.sleep(0.01)
        probe = os.open(path, os.O_RDONLY)
        try:
            with pytest.raises(OSError, match="Input/output error"):
                os.read(probe, 1)
        finally:
            os.close(probe)

    return trap


def counted(target: Path) -> Step:
    """Return what writes, as often as it changes, how many files a process has given their final names."""

    def trap() -> None:
        seen = 0

        def look(event: str, _args: tuple[object, ...]) -> None:
            nonlocal seen
            if event in {"os.rename", "os.link"}:
                seen += 1
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT)
                os.pwrite(descriptor, b"%09d" % seen, 0)
                os.close(descriptor)

        sys.addaudithook(look)

    return trap


def limited(size: int) -> Step:
    """Return what lets no file of a process grow beyond ``size`` bytes: as on a full disk, writing fails."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return limit
