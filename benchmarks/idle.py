"""What a run costs of which nothing is to be done: of a small home, of a large one, the hundredth of a study.

    python -m benchmarks.idle [--runs 100] [--small]

Builds a study of 1,000 cells (--small: 96) over three short files, and lays 20,000 calls of language models
beside it, as a gateway stores them. Then `assay run` is typed again and again with nothing to do, each in a
process of its own: printed are seconds by the clock and of the processor (of a machine with other work the
latter count), those of the parts of one run, and the size of Dagster's folder. Last a source is crawled again
so many times, each a Dagster run of its own: what the 2nd, 5th, 10th, 50th and 100th cost, and a run that has
nothing to do after them, and what Dagster's folder has grown to.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.grid import study_file
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home, home

CALLS = 20_000
LARGE, SMALL = (25, 40, 1), (12, 4, 2)  # chunkings, retrievers, generators
LOOKED_AT = (2, 5, 10, 50, 100)
PARTS = """\
import sys, time, resource
def said(what):
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("PART", what, time.monotonic(), used.ru_utime + used.ru_stime, file=sys.stderr)
said("start of Python")
import rag_assay.orchestration.start as start
from rag_assay.orchestration import cli
said("import of the commands")
import rag_assay.evals.study.study, rag_assay.evals.successive_halving.records
said("import of studies")
import rag_assay.orchestration.driver, rag_assay.orchestration.progress
import rag_assay.evals.reporting.rows, rag_assay.orchestration.terminal.tables
said("import of Dagster and the report")
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.runs.run import StudyRun
begin, end = StudyRun.begin, StudyRun.end
StudyRun.begin = lambda self: (said("study, its questions, Dagster's instance"), begin(self), said("sync"))[1]
StudyRun.end = lambda self: (said("look at the stages"), end(self))[1]
run = Driver.run
Driver.run = lambda self, *given, **named: (run(self, *given, **named), said("end of the walk"))[0]
sys.argv = ["assay", "run", sys.argv[1]]
start.unchanged.answer = lambda arguments: False  # the parts of an ordinary run
try:
    start.main()
finally:
    said("leaderboard")
"""


class Cost(NamedTuple):
    """Seconds of a process by the clock and of the processor, and what it said."""

    wall: float
    cpu: float
    said: str

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.cpu:.2f} s of a processor"


def timed(*arguments: str, **variables: str) -> Cost:
    """Run Python with these arguments and variables, to its end."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | variables
    )
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, done.stderr)


def run(path: Path, **variables: str) -> Cost:
    """Bring a study up to date as a user does."""
    return timed("-m", "rag_assay.orchestration.start", "run", str(path), **variables)


def parts(path: Path) -> None:
    """Print what the parts of one run cost that has nothing to do."""
    begin = time.monotonic()
    lines = [line.split() for line in timed("-c", PARTS, str(path)).said.splitlines()]
    clock, cpu = begin, 0.0
    for _, *words, at, used in (line for line in lines if line[:1] == ["PART"]):
        print(f"  {' '.join(words):<42}{float(at) - clock:6.2f} s{float(used) - cpu:6.2f} s of a processor")
        clock, cpu = float(at), float(used)


def calls(count: int) -> Iterator[dict[str, object]]:
    """Yield calls as a gateway stores them, of some 3 kB each."""
    for number in range(count):
        request = json.dumps({"model": "openai/any", "messages": [f"question {number} " + "word " * 200]})
        yield {
            "call_id": digest(["openai/any", request]),
            "model": "openai/any",
            "request": request,
            "response": json.dumps({"choices": [{"message": {"content": "answer " * 200}}]}),
            "status": "ok",
            "created_at": datetime.now(UTC).isoformat(),
        }


def folder_mb(folder: Path) -> float:
    """Return the size of all files in a folder in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def idle(path: Path, what: str, target: str) -> None:
    """Print three runs that have nothing to do, and the parts of a fourth.

    The first is an ordinary one, for calls were added after the last; the others are answered from it.
    """
    for _ in range(3):
        cost = run(path)
        if "everything was up to date" not in cost.said:
            raise SystemExit(f"an idle run was to be measured, and it was none:\n{cost.said}")
        print(f"{what}, nothing to do: {cost}; target {target}")
    parts(path)


def repeated(path: Path, runs: int) -> None:
    """Print what crawls again cost, each a Dagster run, and then a run that has nothing to do."""
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.driver import Driver

    dagster, study = home().root / "dagster", read_study(path)
    for number in range(1, runs + 1):
        begin = time.perf_counter()
        Driver(study, home()).run(("pages", "documents"), again=True)
        seconds = time.perf_counter() - begin
        if number in LOOKED_AT or number == runs:
            print(
                f"crawl {number}: {seconds:.2f} s; nothing to do after it: {run(path)}; "
                f"Dagster's folder: {folder_mb(dagster):.1f} MB"
            )


def main() -> None:
    """Measure all of it."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--runs", type=int, default=100)
    reader.add_argument("--small", action="store_true")
    options = reader.parse_args()
    models = home().models
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        os.environ |= {"ASSAY_MODELS": str(models), "ASSAY_HOME": str(Path(name) / "var")}
        from rag_assay.orchestration.settings import prepare

        prepare()
        shape = SMALL if options.small else LARGE
        path = study_file(Path(name), *shape)
        print(f"{shape[0] * shape[1] * shape[2]:,} cells, {CALLS:,} calls; built: {run(path)}", flush=True)
        print(f"the run after it: {run(path)}; target < 1 s", flush=True)
        # A stored result is not printed again where the environment is another one.
        first = run(path, ASSAY_BENCH="1")
        print(f"the first that looks at every cell: {first}; target < 2.5 s", flush=True)
        cache = CallCache(Home(home().root))
        for call in calls(CALLS):
            cache.put(str(call["call_id"]), call)
        print(f"the run that finds the calls: {run(path)}")
        idle(path, "large home" if shape is LARGE else "small home", "< 4 s" if shape is LARGE else "< 3 s")
        repeated(path, options.runs)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
