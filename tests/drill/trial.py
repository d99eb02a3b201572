"""One trial: a home is disturbed, runs again until it is done, and its rows are compared.

Each run is a process of its own, forked from one that has imported what is safe to share: it starts in a
moment, and may be killed.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

VIEWS = {
    "current_hits": 'ranking, question_id, rank, chunk_id, doc_id, "start", "end", score',
    "current_answers": "cell, question_id, status, reason, answer, raw, chunk_ids",
    "current_scores": "cell, question_id, metric, status, value, reason",
    "current_leaderboard": "subset, cell, metric, value, n, coverage, low, rank",
    "current_losses": "ranking, question_id, url, lost_at, step",
}
"""What must be equal: all of a row but how long things took, and identities that regard that."""
TOLERANCE = (
    1e-5  # of numbers: a text that is embedded beside others after a kill has a vector that differs by 1e-7
)
PATIENCE = 180.0  # seconds that a run may take

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
    begins: `empty`, or `done`: with all of the first study
    disturb: does it; may run the study itself
    study: which is run afterwards
    rebuilds: whether the database is made again at the end, too
    """

    kind: str
    name: str
    begins: str
    disturb: Callable[[Path], object]
    study: Path
    rebuilds: bool = False
    wrong: list[str] = field(default_factory=list)


def forked(home: Path, act: Callable[[], int | None], prepare: Step = lambda: None) -> Callable[[], Ended]:
    """Start ``act`` in a process of its own on a home; return what waits for its end.

    prepare: is called in it before: sets limits and traps
    """
    said = home.with_name(f"{home.name}.{time.monotonic_ns()}.log")
    begin = time.monotonic()
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
        from orchestration.settings import prepare as prepare_home

        prepare_home()
        prepare()
        code = act() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def walk(study: Path) -> Callable[[], int]:
    """Return what brings a study up to date as `assay run` does; its code is 0 when all is there."""

    def act() -> int:
        from evals.study.study_file import read_study
        from orchestration.driver import Driver
        from warehouse.errors import AssayError
        from warehouse.paths import home

        patient_models()
        try:
            report = Driver(read_study(study), home(), _told).run()
        except (AssayError, OSError) as error:  # as the command says it, and ends with 1
            print(f"error: {error}")
            return 1
        for stage in report.stages:
            for key, reason in stage.failed.items():
                print(f"failed: {stage.stage} of {key}: {reason}")
        return 0 if report.ok else 1

    return act


def patient_models() -> None:
    """Let the gateway give a silent server up after a second, where a person would wait for two minutes."""
    from functools import partial

    from evals.pipeline import run_resources
    from warehouse.inference.gateway import Gateway

    run_resources.Gateway = partial(Gateway, timeout=1.0, retries=0)  # type: ignore[misc,assignment]


def _told(label: str, _done: int, of: int) -> None:
    if not of:
        print(label)


def rebuild() -> int:
    """Make the database again, as `assay rebuild` does."""
    from warehouse.leftovers import marked
    from warehouse.paths import home
    from warehouse.tables import rebuild as make_again

    with marked(home()):
        make_again(home(), say=print)
    return 0


def rows_of(home: Path) -> dict[str, list[str]]:
    """Return the rows that must be equal, by view."""
    target = home.with_name(f"{home.name}.rows.json")

    def act() -> int:
        from warehouse.connection import connect

        found = {}
        with connect(home / "assay.duckdb") as connection:
            for view, columns in VIEWS.items():
                rows = connection.execute(f"SELECT {columns} FROM {view}")  # noqa: S608 -- our own names
                found[view] = sorted(json.dumps(row, default=str) for row in rows.fetchall())
        target.write_text(json.dumps(found))
        return 0

    ended = forked(home, act)()
    if ended.code:
        return {"error": [ended.told[-500:]]}
    rows: dict[str, list[str]] = json.loads(target.read_text())
    return rows


def differences(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> list[str]:
    """Say how two homes' rows differ, a sentence a view."""
    if "error" in found:
        return [f"the rows cannot be read: {found['error'][0]}"]
    said = []
    for view, rows in wanted.items():
        known, there = _numbers_of(rows), _numbers_of(found[view])
        lacking = [row for row in known if not _alike(known[row], there.get(row, []))]
        excess = [row for row in there if row not in known]
        if lacking or excess:
            first = (lacking or excess)[0]
            counts = f"{len(lacking)} of {len(rows)} rows lack or have other numbers, {len(excess)} too many"
            said.append(f"{view}: {counts}, first {first}: {there.get(first)} for {known.get(first)}")
    return said


def _numbers_of(rows: list[str]) -> dict[str, list[list[float]]]:
    """Return the fractional numbers of each row, by all else that it holds."""
    found: dict[str, list[list[float]]] = {}
    for row in map(json.loads, rows):
        rest = [None if isinstance(value, float) else value for value in row]
        found.setdefault(json.dumps(rest), []).append([value for value in row if isinstance(value, float)])
    return {rest: sorted(numbers) for rest, numbers in found.items()}


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
