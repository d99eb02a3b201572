"""Kills between the stages of a walk, in each, in the job that Dagster launches; keys that fail."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.drill.trial import Ended, Step, Trial, forked, job, killed_at, walk

if TYPE_CHECKING:  # what they import starts threads, which a fork would lose
    import dagster as dg

    from rag_assay.assets.engine.definition import RunOptions
    from rag_assay.assets.engine.stage import BuildContext, BuildResult, KeyOutcome, Stage
    from rag_assay.orchestration.runs.run import StudyRun, _Stale

STAGES = (
    *("pages", "documents", "chunks", "enrichments", "embeddings", "indexes", "questions", "rankings"),
    *("answers", "annotations", "judgements", "judge_cards", "scores", "human_estimates", "leaderboard"),
    "report",
)
SEVERAL = ("chunks", "embeddings", "indexes", "rankings", "answers", "judgements", "scores")
"""Stages of several keys, of which one may fail beside others."""
FAILING = tuple(stage for stage in SEVERAL if stage != "embeddings")


def before(stage: str) -> str:
    """Return what a trial of a stage begins with: a home as it was after the one before."""
    number = STAGES.index(stage)
    return STAGES[number - 1] if number else "empty"


def die() -> None:
    """Kill this process as nothing can be prepared for."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(stage: str, number: int = 0) -> Step:
    """Return what lets a process kill itself between a stage and the next one, at the n-th time (from 0)."""

    def trap() -> None:
        from rag_assay.orchestration.runs import run

        finish, seen = run.StudyRun._finish, 0

        def finished(self: StudyRun, stale: _Stale) -> None:
            nonlocal seen
            finish(self, stale)
            if stale.report.stage == stage:
                if seen == number:
                    die()
                seen += 1

        run.StudyRun._finish = finished  # type: ignore[method-assign]

    return trap


def copied_after(folder: Path) -> Step:
    """Return what lets a process copy its home after each stage, into a folder of the stage's name."""

    def trap() -> None:
        from rag_assay.orchestration.runs import run
        from rag_assay.warehouse.paths import home

        finish = run.StudyRun._finish

        def finished(self: StudyRun, stale: _Stale) -> None:
            finish(self, stale)
            shutil.copytree(home().root, folder / stale.report.stage, dirs_exist_ok=True)

        run.StudyRun._finish = finished  # type: ignore[method-assign]

    return trap


def killed_within(stage: str) -> Step:
    """Return what lets a process kill itself in a stage, after half its keys or at its first file."""

    def trap() -> None:
        from rag_assay.orchestration.runs import run

        begin = run.bring_up

        def begun(
            of: Stage, keys: Sequence[str], context: dg.OpExecutionContext, options: RunOptions
        ) -> list[KeyOutcome]:
            if of.name == stage and len(keys) == 1:
                killed_at(0)()
            elif of.name == stage:
                _kill_after(len(keys) // 2, options)
            return begin(of, keys, context, options)

        run.bring_up = begun  # type: ignore[assignment]

    return trap


def _kill_after(number: int, options: RunOptions) -> None:
    """Let a process kill itself as the n-th key (from 1) of a stage is reported."""
    report, seen = options.report, 0

    def reported(outcome: KeyOutcome) -> None:
        nonlocal seen
        report(outcome)
        seen += 1
        if seen == number:
            die()

    options.report = reported


def killed(act: Callable[[], int], trap: Step) -> Callable[[Path], Ended]:
    """Return what runs something on a home in a process that kills itself."""

    def disturb(home: Path) -> Ended:
        ended = forked(home, act, trap)()
        assert ended.code == -signal.SIGKILL, f"it was not killed: {ended.told[-300:]}"
        return ended

    return disturb


def stage_kills(study: Path) -> Iterator[Trial]:
    """Kill a first run in each stage, and after each one that another of several keys or none follows.

    A stage of one key is killed at its first file: nothing of it is there, as after the stage before.
    """
    for stage, follows in zip(STAGES, (*STAGES[1:], ""), strict=True):
        traps = {"in": killed_within(stage)}
        if not follows or follows in SEVERAL:
            traps["after"] = killed_after(stage)
        for where, trap in traps.items():
            yield Trial("stage kill", f"{where} {stage}", before(stage), killed(walk(study), trap), study)


def job_kills(study: Path) -> Iterator[Trial]:
    """Kill the study's job as Dagster launches it; `assay run` goes on."""
    traps = {
        "after rankings": killed_after("rankings"),
        "in judgements": killed_within("judgements"),
        "in report": killed_within("report"),
        "as its first crawl is committed": killed_at(0, "/pages/"),
    }
    for name, trap in traps.items():
        yield Trial("job kill", name, "empty", killed(job(study), trap), study)


def part_kills(study: Path, race: Path) -> Iterator[Trial]:
    """Kill a slice, and a race in a rung, after it, and as it decides, on a home with the study."""
    slices = {"in rankings": killed_within("rankings"), "after scores": killed_after("scores")}
    for name, trap in slices.items():
        disturb = killed(walk(study, "3"), trap)
        yield Trial("part kill", f"a slice, {name}", "done", disturb, study, questions="3")
    races = {
        "in its first rung": killed_within("rankings"),
        "after its rung": killed_after("scores"),
        "as it stores what it decided": killed_at(0, "/searches/"),
        "as what is left begins": killed_after("pages", 1),
    }
    for name, trap in races.items():
        yield Trial("part kill", f"a race, {name}", "done", killed(walk(race), trap), race)


def failing_keys(study: Path) -> Iterator[Trial]:
    """Let a key of a stage fail in a first run, beside others that are good."""
    for stage in FAILING:

        def disturb(home: Path, stage: str = stage) -> None:
            ended = forked(home, walk(study), _fails(stage))()
            assert ended.code == 1, f"the failure was not told: {ended.told[-300:]}"
            assert f"failed: {stage} of " in ended.told, ended.told[-300:]
            assert list(home.glob("pointers/leaderboard/*")), "the good ones were not compared"

        yield Trial("failing key", f"one of {stage}", before(stage), disturb, study)


def _fails(stage: str) -> Step:
    """Return what lets the first key of a stage fail."""

    def trap() -> None:
        from rag_assay.orchestration import stages
        from rag_assay.warehouse.errors import AssayError

        (kind,) = [one for one in vars(stages).values() if getattr(one, "name", "") == stage]
        build = kind.build

        def built(self: Stage, key: str, folder: Path, work: BuildContext) -> BuildResult:
            if key == self.keys()[0]:
                raise AssayError("out of luck")
            found: BuildResult = build(self, key, folder, work)
            return found

        kind.build = built

    return trap
