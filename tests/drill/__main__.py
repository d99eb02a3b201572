"""`make drill`: disturb runs in many ways, and compare what they end with; exit code 1 on a difference."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread

from tests.drill import journals, kinds, stages, town
from tests.drill.trial import Step, Trial, counted, differences, forked, rebuild, rows_of, walk
from tests.fakes.openai_server import FakeOpenAI

EQUAL, DIFFERS = "equal", "DIFFERS"
AGAIN = 3  # runs that may be needed after a disturbance: one finds what is damaged, one builds it again


class Drill:
    """The homes and wanted rows of a drill, in one scratch folder."""

    def __init__(self, scratch: Path, server: FakeOpenAI, *, small: bool = False) -> None:
        self.scratch, self.server = scratch, server
        self.studies = town.write(scratch / "town", server.api_base)
        self.begun = self.studies.small if small else self.studies.one
        self.done = scratch / "done"
        self.total = self._first_run()
        self._wanted = {(self.begun, None): rows_of(self.done)}

    def _first_run(self) -> int:
        """Run the study, let people score, run it again; return how many files the first run named."""
        counts = self.scratch / "count"

        def act() -> int:
            code = walk(self.begun)()
            shutil.copy(counts, counts.with_suffix(".first"))
            town.score(self.begun)
            return code or walk(self.begun)()

        self._undisturbed(self.done, act, counted(counts))
        return int(counts.with_suffix(".first").read_text())

    def wanted(self, study: Path, questions: str | None) -> dict[str, list[str]]:
        """Return the rows of an undisturbed run of a study or a slice, on a home where the first was run."""
        if (study, questions) not in self._wanted:
            home = self.scratch / f"wanted-{len(self._wanted)}"
            shutil.copytree(self.done, home)
            self._undisturbed(home, walk(study, questions))
            self._wanted[(study, questions)] = rows_of(home)
            shutil.rmtree(home)
        return self._wanted[(study, questions)]

    def _undisturbed(self, home: Path, act: Callable[[], int], trap: Step = lambda: None) -> None:
        ended = forked(home, act, trap)()
        if ended.code:
            raise SystemExit(f"the undisturbed run failed: {ended.told}")

    def trials(self, seed: int, points: int, each: int) -> Iterator[Trial]:
        """Yield all trials of a seed."""
        one, two, race, small = self.studies
        if self.begun == small:
            yield kinds.slice_of_all(small, seed)
            return
        yield from kinds.kills(one, points, seed, self.total)
        yield from stages.stage_kills(one)
        yield from stages.job_kills(one)
        yield from stages.part_kills(one, race)
        yield from stages.failing_keys(one)
        yield from journals.journals(one, two)
        yield from kinds.damage(two, seed, each)
        yield from kinds.disks(one, self.scratch)
        yield from kinds.servers(one, self.server)
        yield from kinds.together(one)

    def run(self, trial: Trial) -> list[str]:
        """Do a trial; return what differs from an undisturbed run."""
        home = self.scratch / "trial" / "var"
        shutil.rmtree(home.parent, ignore_errors=True)
        home.parent.mkdir(parents=True)
        if trial.begins == "done":
            shutil.copytree(self.done, home)
        else:  # what people said is there before: nothing can make it again
            shutil.copytree(self.done / "people", home / "people", ignore=shutil.ignore_patterns("queue*"))
        try:
            trial.disturb(home)
        except AssertionError as error:
            return [str(error)]
        wanted = self.wanted(trial.study, trial.questions)
        found = _mended(home, walk(trial.study, trial.questions), wanted)
        if not found and trial.rebuilds:
            found = _mended(home, rebuild, wanted)
        return found + _left_over(home)


def _mended(home: Path, act: Callable[[], int], wanted: dict[str, list[str]]) -> list[str]:
    """Run until all is there; return what is wrong."""
    for _ in range(AGAIN):
        ended = forked(home, act)()
        if "Traceback" in ended.told:
            return [f"a stack trace: {ended.told[-700:]}"]
        if ended.code == 0:
            return differences(rows_of(home), wanted)
    return [f"{AGAIN} runs did not mend it: {ended.told[-500:]}"]


def _left_over(home: Path) -> list[str]:
    """Say which temporary files are there although no process works on the home."""
    left = [str(path.relative_to(home)) for path in home.rglob(".*.tmp*") if "crawls" not in path.parts]
    return [f"left over: {', '.join(left[:3])}"] if left else []


@contextmanager
def drill(*, small: bool = False) -> Iterator[Drill]:
    """Yield a drill that is ready: two undisturbed runs are done."""
    models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME") or "var") / "models")
    os.environ["ASSAY_MODELS"] = str(models.resolve())
    os.environ["OPENAI_API_KEY"] = "scripted"
    with tempfile.TemporaryDirectory(prefix="assay-drill-") as name, FakeOpenAI(respond=town.reply) as server:
        yield Drill(Path(name), server, small=small)


def _import_what_may_be_shared() -> None:
    """Import before the forks what starts no threads of its own; LanceDB and polars do."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else NumPy starts some
    # The last is most of what importing LanceDB costs, and is Python alone.
    for name in ("dagster", "duckdb", "torch", "sentence_transformers", "litellm", "lance_namespace"):
        import_module(name)
    threads = len(list(Path("/proc/self/task").glob("*")))
    if threads > 2:  # ours, and that of the scripted server
        raise SystemExit(f"{threads} threads run before the first fork, which would lose them")


def main() -> int:
    """Run the drill in as many processes as there are processors; print a line a trial and a table."""
    parser = argparse.ArgumentParser(prog="make drill", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--points", type=int, default=6, help="points over a run at which it is killed")
    parser.add_argument("--each", type=int, default=1, help="files of each kind in which a bit is flipped")
    parser.add_argument("--only", default="", help="parts of names of trials, with commas between")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trials at the same time")
    parser.add_argument("--small", action="store_true", help="one trial of two cells, for the test suite")
    parser.add_argument("--share", help=argparse.SUPPRESS)  # K/N: every N-th trial from the K-th on
    options = parser.parse_args()
    if options.share:
        _work(options)
        return 0
    begin = time.monotonic()
    table, finished = _table(options.jobs)
    print(f"\n{'kind':<14}{'trials':>8}{'equal':>8}")
    for kind, equal in table.items():
        print(f"{kind:<14}{len(equal):>8}{sum(equal):>8}")
    all_equal = finished and bool(table) and all(all(equal) for equal in table.values())
    print(f"{time.monotonic() - begin:.0f} s; {'all rows equal' if all_equal else 'ROWS DIFFER'}")
    return 0 if all_equal else 1


def _work(options: argparse.Namespace) -> None:
    """Do a share of the trials; print what came of each."""
    _import_what_may_be_shared()
    first, step = (int(part) for part in options.share.split("/"))
    with drill(small=options.small) as ready:
        wanted = [
            trial
            for trial in ready.trials(options.seed, options.points, options.each)
            if any(part in f"{trial.kind}: {trial.name}" for part in options.only.split(","))
        ]
        for trial in wanted[first::step]:
            began = time.monotonic()
            wrong = ready.run(trial)
            verdict = DIFFERS if wrong else EQUAL
            seconds = time.monotonic() - began
            print(f"{verdict:<8}{seconds:>6.1f} s  {trial.kind}: {trial.name}", flush=True)
            for sentence in wrong:
                print(f"        {' '.join(sentence.split())}", flush=True)


def _table(jobs: int) -> tuple[dict[str, list[bool]], bool]:
    """Start a process a job, and pass on what they print.

    Returns kind -> whether each of its trials was equal, and whether all processes ended well.
    """
    command = [sys.executable, "-u", "-m", "tests.drill", *sys.argv[1:]]
    shares = [
        subprocess.Popen([*command, "--share", f"{n}/{jobs}"], stdout=subprocess.PIPE, text=True)
        for n in range(jobs)
    ]
    table: dict[str, list[bool]] = {}
    readers = [Thread(target=_pass_on, args=(share.stdout or (), table)) for share in shares]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [share.wait() for share in shares]
    return table, not any(codes)


def _pass_on(lines: Iterable[str], table: dict[str, list[bool]]) -> None:
    """Print what a process prints, and note what came of each of its trials."""
    for line in lines:
        print(line, end="", flush=True)
        if line.startswith((EQUAL, DIFFERS)):
            kind = line.partition(" s  ")[2].partition(":")[0]
            table.setdefault(kind, []).append(line.startswith(EQUAL))


if __name__ == "__main__":
    sys.exit(main())
