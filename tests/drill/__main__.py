"""`make drill`: disturb runs in many ways, and compare what they end with; exit code 1 on a difference."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Lock

from tests.drill import journals, kinds, stages, town
from tests.drill.trial import (
    Step,
    Trial,
    counted,
    differences,
    forked,
    opened_instance,
    rebuild,
    rows_of,
    walk,
)
from tests.fakes.openai_server import FakeOpenAI

EQUAL, DIFFERS = "equal", "DIFFERS"
AGAIN = 3  # runs that may be needed after a disturbance: one finds what is damaged, one builds it again


class Drill:
    """The homes and wanted rows of a drill, in one scratch folder.

    done: the home of a run that nothing disturbed
    """

    def __init__(self, scratch: Path, server: FakeOpenAI, replies: town.Replies, *, small: bool) -> None:
        self.scratch, self.replies = scratch, replies
        self.studies = town.write(scratch / "town", server.api_base)
        self.begun = self.studies.small if small else self.studies.one
        self.done = scratch / "done" / "var"
        self.total = self._first_run()
        self._wanted = {(self.begun, None): rows_of(self.done)}
        self._turn = Lock()
        self._numbers = count()
        if not small:
            self._copy_stages()

    def _first_run(self) -> int:
        """Run the study, let people score, run it again; return how many files the first run named.

        What it has imported is imported here, too, for all forks that follow.
        """
        counts, modules = self.scratch / "count", self.scratch / "modules"

        def act() -> int:
            code = walk(self.begun)()
            shutil.copy(counts, counts.with_suffix(".first"))
            town.score(self.begun)
            code = code or walk(self.begun)()
            modules.write_text("\n".join(sys.modules))
            return code

        self.done.parent.mkdir()
        self._undisturbed(self.done, act, counted(counts))
        _import_what_may_be_shared(modules.read_text().splitlines())
        _load_what_may_be_shared(self.begun, self.done)
        return int(counts.with_suffix(".first").read_text())

    def _copy_stages(self) -> None:
        """Keep the home of a first run as it was after each stage: where a trial of the next one begins."""
        home = self._home("empty")
        self._undisturbed(home, walk(self.begun), stages.copied_after(self.scratch / "stages"))
        assert not differences(rows_of(home), self._wanted[(self.begun, None)])
        shutil.rmtree(home.parent)

    def wanted(self, study: Path, questions: str | None) -> dict[str, list[str]]:
        """Return the rows of an undisturbed run of a study or a slice, on a home where the first was run."""
        with self._turn:
            if (study, questions) not in self._wanted:
                home = self._home("done")
                self._undisturbed(home, walk(study, questions))
                self._wanted[(study, questions)] = rows_of(home)
                shutil.rmtree(home.parent)
            return self._wanted[(study, questions)]

    def _undisturbed(self, home: Path, act: Callable[[], int], trap: Step = lambda: None) -> None:
        ended = forked(home, act, trap)()
        if ended.code:
            raise SystemExit(f"the undisturbed run failed: {ended.told}")

    def _home(self, begins: str) -> Path:
        """Return a new home that is what a trial begins with."""
        home = self.scratch / f"trial-{next(self._numbers)}" / "var"
        if begins == "done":
            shutil.copytree(self.done, home)
            return home
        # Human ratings are there before: nothing can restore them.
        shutil.copytree(self.done / "people", home / "people", ignore=shutil.ignore_patterns("queue*"))
        if begins != "empty":
            shutil.copytree(self.scratch / "stages" / begins, home, dirs_exist_ok=True)
        return home

    def trials(self, seed: int, points: int, each: int) -> Iterator[Trial]:
        """Yield all trials of a seed."""
        one, two, race, small = self.studies
        if self.begun == small:
            yield kinds.slice_of_all(small, seed)
            return
        yield from kinds.together(one)
        yield from kinds.kills(one, points, seed, self.total)
        yield from stages.stage_kills(one)
        yield from stages.job_kills(one)
        yield from stages.part_kills(one, race)
        yield from stages.failing_keys(one)
        yield from journals.journals(one, two)
        yield from kinds.damage(two, seed, each)
        yield from kinds.torn_writes(one)
        yield from kinds.bad_sectors(two)
        yield from kinds.disks(one, self.scratch)
        yield from kinds.servers(one, self.replies)

    def run(self, trial: Trial) -> list[str]:
        """Do a trial; return what differs from an undisturbed run."""
        home = self._home(trial.begins)
        try:
            trial.disturb(home)
        except AssertionError as error:
            return [str(error)]
        wanted = self.wanted(trial.study, trial.questions)
        found = _mended(home, walk(trial.study, trial.questions), wanted)
        if not found and trial.rebuilds:
            found = _mended(home, rebuild, wanted)
        found += _left_over(home)
        if not found:
            shutil.rmtree(home.parent, ignore_errors=True)
        return found


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
    """Yield a drill that is ready: its undisturbed runs are done."""
    models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME") or "var") / "models")
    os.environ["ASSAY_MODELS"] = str(models.resolve())
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else NumPy starts some
    replies = town.Replies()
    with tempfile.TemporaryDirectory(prefix="assay-drill-") as name, FakeOpenAI(respond=replies) as server:
        yield Drill(Path(name), server, replies, small=small)


def _import_what_may_be_shared(modules: Iterable[str]) -> None:
    """Import before the forks what a run has imported, but what starts threads that a fork would lose."""
    with warnings.catch_warnings(action="ignore"):
        for name in modules:
            if name.partition(".")[0] not in {"lancedb", "__main__"}:
                with suppress(ImportError, AttributeError):  # made by others as they are imported
                    import_module(name)


def _load_what_may_be_shared(study: Path, done: Path) -> None:
    """Load before the forks what every run loads: weights, templates, Dagster's migrations."""
    from rag_assay.assets.cleaning.language import detect
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.evals.reporting.page import templates
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.warehouse.paths import Home
    from tests.fakes.migrations import read_migrations_once

    home = Home(done)
    read_migrations_once()
    with opened_instance(done) as instance:
        instance.get_runs_count()
    pages = templates()
    for name in pages.list_templates(extensions=["html"]):
        pages.get_template(name)
    detect("The harbour opens at seven.")
    for recipe in read_study(study).embedders.values():
        assert CachedEmbedder(recipe, home).embedder


def main() -> int:
    """Run the drill, some trials at a time; print a line a trial and a table."""
    parser = argparse.ArgumentParser(prog="make drill", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--points", type=int, default=3, help="points over a run at which it is killed")
    parser.add_argument("--each", type=int, default=1, help="files of each kind in which a bit is flipped")
    parser.add_argument("--only", default="", help="parts of names of trials, with commas between")
    # One more than cores: some trials wait for a silent server.
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="trials at a time")
    parser.add_argument("--small", action="store_true", help="one trial of two cells, for the test suite")
    options = parser.parse_args()
    begin = time.monotonic()
    table: dict[str, list[bool]] = {}
    with drill(small=options.small) as ready, ThreadPoolExecutor(options.jobs) as pool:
        chosen = [
            trial
            for trial in ready.trials(options.seed, options.points, options.each)
            if any(part in f"{trial.kind}: {trial.name}" for part in options.only.split(","))
        ]
        for trial, is_equal in zip(chosen, pool.map(partial(_told, ready), chosen), strict=True):
            table.setdefault(trial.kind, []).append(is_equal)
    print(f"\n{'kind':<14}{'trials':>8}{'equal':>8}")
    for kind, equal in table.items():
        print(f"{kind:<14}{len(equal):>8}{sum(equal):>8}")
    all_equal = bool(table) and all(all(equal) for equal in table.values())
    print(
        f"{time.monotonic() - begin:.0f} s, {sum(os.times()[:4]):.0f} s of processors; "
        f"{'all rows equal' if all_equal else 'ROWS DIFFER'}"
    )
    return 0 if all_equal else 1


def _told(ready: Drill, trial: Trial) -> bool:
    """Do a trial; print what came of it, and return whether its rows are equal."""
    began = time.monotonic()
    wrong = ready.run(trial)
    lines = [
        f"{DIFFERS if wrong else EQUAL:<8}{time.monotonic() - began:>6.1f} s  {trial.kind}: {trial.name}"
    ]
    lines += [f"        {' '.join(sentence.split())}" for sentence in wrong]
    print("\n".join(lines), flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
