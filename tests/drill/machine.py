"""Random edits, deletions, kills and runs of one workspace; each run ends with the rows of a fresh workspace.

A `RuleBasedStateMachine` of Hypothesis: it draws sequences of steps, and shrinks one that fails to the fewest
steps that still do. `python -m tests.drill.machine` runs it for long; `test_machine.py` a few sequences.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, Verbosity, currently_in_test_context, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import home
from tests.drill.trial import differences, read_rows
from tests.fakes.forking import Forked
from tests.fakes.migrations import read_migrations_once

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.drill.machine"])
NAMES = ("a", "b", "c")
RECIPES: dict[str, tuple[dict[str, Any], ...]] = {
    "chunkings": (
        {"tokens": {"size": 16, "overlap": 4}},
        {"tokens": {"size": 24, "overlap": 0}},
        {"sentences": {"size": 24}},
    ),
    "embedders": ({"hashing": {"size": 64}}, {"hashing": {"size": 32}}),
    "retrievers": ({"bm25": {"k": 5}}, {"bm25": {"k": 1}}, {"dense": {"k": 5}}, {"dense": {"k": 2}}),
    "generators": (
        {"extractive": {"passages": 2, "max_tokens": 40}},
        {"extractive": {"passages": 1, "max_tokens": 12}},
    ),
    "judges": ({"similarity": {}},),
    "rubrics": ({"points": {}}, {"binary": {}}),
}
"""Field of a study -> the components that may stand there, by any of `NAMES`."""
OPTIONAL = ("judges", "rubrics")
MOST_CELLS = 4
METRICS = ("ndcg@10", "evidence_coverage@5", "rouge_l", "hit_rate@2")
TEXTS = (
    "The harbour office opens at seven. A mooring costs twelve pounds a night in summer.",
    "The ferry to the island runs every forty minutes and carries nineteen cars.",
    "The library lends books for four weeks and films for one. Fines stop at five pounds.",
    "The ferry stays in port in a storm. A mooring costs nothing then.",
)
FILES = ("one.txt", "two.txt", "three.md", "below/four.txt")
KEPT_FILE, KEPT_TEXT = "kept.txt", "The museum opens at ten. It is closed on Mondays."  # no step changes it
QUESTIONS = {
    "question_set": "town",
    "questions": [
        {
            "id": "q1",
            "question": "What does a mooring cost in summer?",
            "ground_truth": "Twelve pounds a night.",
            "evidence": [{"url": "one.txt", "quote": "A mooring costs twelve pounds a night"}],
        },
        {
            "id": "q2",
            "question": "How many cars fit on the ferry?",
            "ground_truth": "Nineteen cars.",
            "evidence": [{"url": "two.txt", "quote": "carries nineteen cars"}],
        },
        {
            "id": "q4",  # a set of which nothing stands in the documents blocks its study
            "question": "When does the museum open?",
            "ground_truth": "At ten.",
            "evidence": [{"url": KEPT_FILE, "quote": "The museum opens at ten."}],
        },
        {"id": "q3", "question": "Who is the mayor?", "answerable": False},
    ],
}
REBUILDABLE = (
    "*/*/artifact.json",
    "*/*",
    "*",
    "pointers/*/*.json",
    "current/*.json",
    "cache/*/**/*",
    "documents/*/*/*.parquet",
    "chunks/*/*/*.parquet",
    "embeddings/*/*/*.parquet",
    "indexes/*/*/*",
    "indexes/*/*/lancedb/**/*",
    "questions/*/*/*.parquet",
    "rankings/*/*/*.parquet",
    "answers/*/*/*.parquet",
    "scores/*/*/*.parquet",
    "leaderboard/*/*/*.parquet",
    "pages/*/*",
    "bodies/**/*",
    "crawls/**/*",
    "reports/*",
    "assay.duckdb*",
)
"""What may be lost: nothing of it holds what only a person knows."""
KEPT = frozenset({"people", "history"})
CLOCK = (-400 * 86400, -7200, -1, 1, 7200, 400 * 86400)  # seconds by which it jumps
MOMENTS = 900  # opened, renamed and removed files of a run, at most: one that is killed later has ended
FRESH: dict[str, dict[str, list[str]]] = {}  # digest of all files -> rows of a workspace built from them
SECONDS = 120  # that a process may take


class Clock:
    """The time of a process, which may be wrong."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let `time` and `datetime` tell this time in all modules that are loaded."""
        real, real_ns = time.time, time.time_ns
        with ExitStack() as stack:
            stack.enter_context(patch("time.time", lambda: real() + self.seconds))
            stack.enter_context(patch("time.time_ns", lambda: real_ns() + int(self.seconds * 1e9)))
            for module in _ours():
                if getattr(module, "datetime", None) is datetime:
                    stack.enter_context(patch.object(module, "datetime", self._datetime()))
            yield

    def _datetime(self) -> type[datetime]:
        clock = self

        class OfEither(type):
            def __instancecheck__(cls, one: object) -> bool:
                return isinstance(one, datetime)

        class Shifted(datetime, metaclass=OfEither):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + timedelta(seconds=clock.seconds)

        return Shifted


def _ours() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("rag_assay.")]


class Workspace:
    """Study files with their documents, and the home that they are run in."""

    def __init__(self, folder: Path, empty: Path) -> None:
        self.folder, self.empty = folder, empty
        self.home = folder / "var"
        self.clock = Clock()
        shutil.copytree(empty, self.home)
        (folder / "texts").mkdir()
        for name, text in {KEPT_FILE: KEPT_TEXT, **dict(zip(FILES[:2], TEXTS, strict=False))}.items():
            self.write(name, text)
        (folder / "town.questions.yaml").write_text(json.dumps(QUESTIONS))
        self.studies = {"town": _first("town")}

    def write(self, name: str, text: str) -> None:
        path = self.folder / "texts" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def documents(self) -> list[Path]:
        """Return the documents that steps may change."""
        found = (self.folder / "texts").rglob("*")
        return sorted(path for path in found if path.is_file() and path.name != KEPT_FILE)

    def paths(self) -> list[Path]:
        """Write the study files; return their paths."""
        for name, study in self.studies.items():
            text = json.dumps(study, indent=1)
            path = self.folder / f"{name}.yaml"
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        return [self.folder / f"{name}.yaml" for name in self.studies]

    def run(self) -> None:
        """Run all studies in this process; compare the rows with those of a fresh workspace."""
        paths = self.paths()
        with self.clock.installed():
            run_studies(self.home, paths)
        self.compare()

    def compare(self) -> None:
        paths = self.paths()
        key = digest([self.studies, [[str(path), path.read_text()] for path in self.documents()]])
        if key not in FRESH:
            fresh = self.folder / "fresh"
            shutil.copytree(self.empty, fresh)
            run_studies(fresh, paths)
            FRESH[key] = read_rows(fresh)
            shutil.rmtree(fresh)
        told = differences(read_rows(self.home), FRESH[key])
        assert not told, "\n".join(told)

    def start(self, moment: int | None = None) -> Callable[[], tuple[int | None, str]]:
        """Start a process that runs all studies; return what waits for its end.

        moment: it kills itself as it touches its n-th file
        """
        said = self.folder / f"{time.monotonic_ns()}.log"
        arguments = (self.home, self.paths(), self.clock.seconds, moment, said, dict(os.environ))
        process = FORKS.Process(target=_child, args=arguments)
        process.start()

        def wait() -> tuple[int | None, str]:
            process.join(SECONDS)
            if process.exitcode is None:
                process.kill()
            return process.exitcode, said.read_text(errors="replace")[-2000:]

        return wait


def _first(name: str) -> dict[str, Any]:
    return {
        "study": name,
        "sources": {"texts": {"reader": "folder", "path": "texts"}},
        "corpus": {"name": "town", "sources": ["texts"]},
        "chunkings": {"a": RECIPES["chunkings"][0]},
        "embedders": {"a": RECIPES["embedders"][0]},
        "retrievers": {"a": RECIPES["retrievers"][0]},
        "generators": {"a": RECIPES["generators"][0]},
        "questions": [{"file": "town.questions.yaml"}],
        "metrics": list(METRICS[:3]),
    }


def n_cells(study: dict[str, Any]) -> int:
    n = 1
    for field in ("chunkings", "embedders", "retrievers", "generators"):
        n *= len(study[field])
    return n


def run_studies(where: Path, paths: list[Path]) -> None:
    """Bring studies up to date in a home, as `assay run` does; an `AssertionError` says what failed."""
    with patch.dict(os.environ, {"ASSAY_HOME": str(where), "DAGSTER_HOME": "", "ASSAY_LOCK_WAIT": "60"}):
        prepare()
        for path in paths:
            report = Driver(read_study(path), home()).run()
            failed = [
                f"{one.stage} of {key}: {why}" for one in report.stages for key, why in one.failed.items()
            ]
            assert report.ok, f"{path.stem} failed: {failed}"


def _note(text: str) -> None:
    if currently_in_test_context():
        note(text)


def _child(
    where: Path,
    paths: list[Path],
    seconds: float,
    moment: int | None,
    said: Path,
    environment: dict[str, str],
) -> None:
    os.environ.update(environment)  # the forks' server may have started with another one
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if moment is not None:
        _kill_at(moment)
    with Clock(seconds).installed():
        run_studies(where, paths)


def _kill_at(moment: int) -> None:
    seen = 0

    def look(event: str, _args: tuple[object, ...]) -> None:
        nonlocal seen
        if event in {"open", "os.rename", "os.link", "os.remove", "os.mkdir"}:
            seen += 1
            if seen > moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


numbers = st.integers(0, 10_000)
fields = st.sampled_from(sorted(RECIPES))


class StudyMachine(RuleBasedStateMachine):
    """All that may happen to a workspace between its runs."""

    empty: Path  # a home in which Dagster's tables are made

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="assay-machine-"))
        self.one = Workspace(self.folder, self.empty)

    @initialize()
    def first_run(self) -> None:
        self.one.run()

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the study files

    def _study(self, number: int) -> dict[str, Any]:
        names = sorted(self.one.studies)
        return self.one.studies[names[number % len(names)]]

    def _change(self, number: int, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a study, unless it comes to have too many cells."""
        study = self._study(number)
        new = json.loads(json.dumps(study))
        change(new)
        if n_cells(new) <= MOST_CELLS:
            self.one.studies[study["study"]] = new

    @rule(number=numbers, field=fields, name=st.sampled_from(NAMES), recipe=numbers)
    def set_component(self, number: int, field: str, name: str, recipe: int) -> None:
        """Add a component, or change the parameters of one."""
        chosen = RECIPES[field][recipe % len(RECIPES[field])]
        self._change(number, lambda study: study.setdefault(field, {}).__setitem__(name, chosen))

    @rule(number=numbers, field=fields, which=numbers)
    def remove_component(self, number: int, field: str, which: int) -> None:
        def change(study: dict[str, Any]) -> None:
            names = sorted(study.get(field, {}))
            if len(names) > (field not in OPTIONAL):
                del study[field][names[which % len(names)]]
            if not study.get(field, True):
                del study[field]

        self._change(number, change)

    @rule(number=numbers, field=fields, which=numbers, to=st.sampled_from(NAMES))
    def rename_component(self, number: int, field: str, which: int, to: str) -> None:
        def change(study: dict[str, Any]) -> None:
            names = sorted(study.get(field, {}))
            if names and to not in names:
                old = names[which % len(names)]
                study[field] = {to if name == old else name: of for name, of in study[field].items()}

        self._change(number, change)

    @rule(number=numbers, field=fields)
    def swap_names(self, number: int, field: str) -> None:
        def change(study: dict[str, Any]) -> None:
            found = study.get(field, {})
            if len(found) > 1:
                study[field] = dict(zip(found, reversed(list(found.values())), strict=True))

        self._change(number, change)

    @rule(number=numbers, metrics=st.permutations(METRICS), n=st.integers(1, len(METRICS)))
    def set_metrics(self, number: int, metrics: list[str], n: int) -> None:
        self._change(number, lambda study: study.__setitem__("metrics", metrics[:n]))

    @rule(number=numbers, seed=st.integers(1, 3))
    def set_seed(self, number: int, seed: int) -> None:
        self._change(number, lambda study: study.__setitem__("seed", seed))

    @precondition(lambda self: len(self.one.studies) < 2)
    @rule(name=st.sampled_from(("city", "village")))
    def copy_study(self, name: str) -> None:
        (study,) = self.one.studies.values()
        if name != study["study"]:
            self.one.studies[name] = {**json.loads(json.dumps(study)), "study": name}

    # ---- the documents

    @rule(name=st.sampled_from(FILES), text=st.sampled_from(TEXTS))
    def write_document(self, name: str, text: str) -> None:
        """Add a document or edit one; its text may be that of another."""
        self.one.write(name, text)

    @rule(which=numbers)
    def remove_document(self, which: int) -> None:
        found = self.one.documents()
        if found:
            found[which % len(found)].unlink()

    @rule(which=numbers, to=st.sampled_from(FILES))
    def rename_document(self, which: int, to: str) -> None:
        found = self.one.documents()
        target = self.folder / "texts" / to
        if found and not target.exists():
            target.parent.mkdir(exist_ok=True)
            found[which % len(found)].rename(target)

    @rule(one=numbers, other=numbers)
    def swap_documents(self, one: int, other: int) -> None:
        found = self.one.documents() or [self.folder]
        first, second = found[one % len(found)], found[other % len(found)]
        if first != second:
            aside = self.folder / "aside"
            first.rename(aside)
            second.rename(first)
            aside.rename(second)

    # ---- the workspace and its clock

    @rule(pattern=st.sampled_from(REBUILDABLE), which=numbers)
    def delete(self, pattern: str, which: int) -> None:
        found = sorted(
            path
            for path in self.one.home.glob(pattern)
            if path.relative_to(self.one.home).parts[0] not in KEPT
        )
        if found:
            path = found[which % len(found)]
            _note(f"deleted: {path.relative_to(self.one.home)}")
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    @rule(seconds=st.sampled_from(CLOCK))
    def clock_jumps(self, seconds: float) -> None:
        self.one.clock.seconds += seconds

    # ---- runs

    @rule()
    def run(self) -> None:
        self.one.run()

    @rule(moment=st.integers(0, MOMENTS))
    def run_killed(self, moment: int) -> None:
        code, said = self.one.start(moment)()
        _note(f"killed run ended with {code}")
        assert code in (0, -signal.SIGKILL), said

    @rule()
    def run_twice_at_once(self) -> None:
        for code, said in [wait() for wait in (self.one.start(), self.one.start())]:
            assert code == 0, said
        self.one.compare()


@contextmanager
def prepared() -> Iterator[None]:
    """Yield when sequences may be drawn: the homes of all begin with a copy of one that Dagster knows."""
    import dagster as dg

    read_migrations_once()
    folder = Path(mkdtemp(prefix="assay-machine-"))
    try:
        with patch.dict(os.environ, {"ASSAY_HOME": str(folder / "empty"), "DAGSTER_HOME": ""}):
            prepare()
            with dg.DagsterInstance.get() as instance:
                instance.get_runs_count()
        StudyMachine.empty = folder / "empty"
        with patch.object(subprocess, "Popen", Forked):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def draw(examples: int, steps: int, *, seed: int | None = None, is_told: bool = False) -> None:
    """Run so many sequences of so many steps; an exception shows the shortest that fails.

    seed: None: the same sequences each time
    is_told: whether each step is printed as it begins
    """
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=seed is None,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.verbose if is_told else Verbosity.normal,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = StudyMachine
    if seed is not None:
        from hypothesis import seed as seeded

        machine = seeded(seed)(StudyMachine)
    with prepared():
        run_state_machine_as_test(machine, settings=chosen)


def main() -> None:
    """Draw sequences until all are run, or one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill.machine", description=__doc__)
    parser.add_argument("--examples", type=int, default=4, help="sequences")
    parser.add_argument("--steps", type=int, default=10, help="steps of each")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--verbose", action="store_true", help="print each step")
    options = parser.parse_args()
    begin = time.monotonic()
    draw(options.examples, options.steps, seed=options.seed, is_told=options.verbose)
    seconds = time.monotonic() - begin
    print(f"{options.examples} sequences of {options.steps} steps, {seconds:.0f} s; all rows equal")


if __name__ == "__main__":
    main()
