"""The leaderboards of all studies of a home as they are now: the report's figures, read at each look."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.reporting.contexts import running
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.rows import board_data
from rag_assay.evals.reporting.standings import Subset, main_subset
from rag_assay.evals.study.cells import NO_GENERATOR
from rag_assay.evals.study.grid import Grid, question_sets
from rag_assay.evals.study.run_studies import KnownStudy, find_known, known_studies
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.study_records import pinned_artifacts

ANSWERED = frozenset({Status.OK, Status.REFUSED, Status.NO_CONTEXT})
"""Statuses of answers that do not count as failures."""
KEPT = 20.0  # seconds that a board is shown again without being looked at


@dataclass(frozen=True)
class AnswerProgress:
    """How many answers a study has, of how many that it wants; None wanted: its questions are not read yet.

    failed: cell -> status -> answers that ended so
    """

    done: int
    wanted: int | None
    failed: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class LiveBoard:
    """The leaderboard of a study.

    running: what each cell costs to run
    asked: digest of the questions and what their evidence is: equal where two studies ask the same
    """

    data: ReportData
    running: Mapping[str, RunningCost]
    asked: str

    @property
    def main(self) -> Subset:
        return main_subset(self.data)


@dataclass(frozen=True)
class StudyNow:
    """A study that is known, and its leaderboard if it can be shown.

    board: None: it was not run, or cannot be shown, as `trouble` says
    progress: None: its file cannot be used
    report: the page that the last run wrote, None: there is none
    """

    name: str
    run_at: datetime | None
    board: LiveBoard | None
    trouble: str | None
    progress: AnswerProgress | None
    report: Path | None


@dataclass(frozen=True)
class RunNow:
    """A run, or a rebuild, that works on the home now: its process, and its command where that is known."""

    process: str
    command: str


class Boards:
    """The leaderboards of a home; of a study that nothing has happened to it is read once in a while only."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._kept: dict[str, tuple[float, object, LiveBoard | str]] = {}
        self._turn = threading.Lock()

    def studies(self, only: Sequence[str] = ()) -> list[StudyNow]:
        """Return the studies that are known, or those of these names, the last run first."""
        known: dict[str, KnownStudy] = {}
        for one in known_studies(self.home):  # of one name, the last that was run
            if not only or one.name in only:
                known.setdefault(one.name, one)
        found = [self._study(one) for one in known.values()]
        return sorted(
            found,
            key=lambda one: (one.run_at is None, -(one.run_at.timestamp() if one.run_at else 0.0), one.name),
        )

    def progress(self, only: Sequence[str] = ()) -> list[tuple[str, AnswerProgress]]:
        """Return how far the studies are, of those whose files can be used; DuckDB is left alone."""
        found: dict[str, AnswerProgress] = {}
        for one in known_studies(self.home):
            if one.path and not one.mistake and one.name not in found and (not only or one.name in only):
                study = narrow_study(find_known(str(one.path), self.home), self.home)
                found[one.name] = progress_of(study, self.home)
        return list(found.items())

    def _study(self, known: KnownStudy) -> StudyNow:
        report = self.home.report(known.name)
        there = report if report.is_file() else None
        if known.path is None or known.mistake:
            why = known.mistake or "its file is known no longer; its report is as it was run"
            return StudyNow(known.name, known.run_at, None, why, None, there)
        study = narrow_study(find_known(str(known.path), self.home), self.home)
        progress = progress_of(study, self.home)
        if known.run_at is None:
            return StudyNow(known.name, None, None, "it was not run in this home", progress, there)
        board = self._board(study)
        trouble = board if isinstance(board, str) else next(iter(board.data.notes), None)
        return StudyNow(
            known.name, known.run_at, None if isinstance(board, str) else board, trouble, progress, there
        )

    def _board(self, study: Study) -> LiveBoard | str:
        with self._turn:
            board = ArtifactStore(self.home).current("leaderboard", study.study)
            paths = [study.path, *(one.path for one in question_sets(study))]
            stamp = (board.identity if board else None, tuple(_written(paths)))
            kept = self._kept.get(study.study)
            if kept is not None and kept[1] == stamp and time.monotonic() - kept[0] < KEPT:
                return kept[2]
            try:
                found: LiveBoard | str = live_board(study, self.home)
            except InputError as error:
                found = error.findings[0]
            self._kept[study.study] = (time.monotonic(), stamp, found)
            return found


def live_board(study: Study, home: Home) -> LiveBoard:
    """Return the leaderboard of a study, with its verdict and what its cells cost.

    Raises:
        InputError: the study has not been run, or not as its file is now.
    """
    data = board_data(study, home)  # of the study as it was run
    store = pinned_artifacts(home, study.study)
    sets = (store.current("questions", key) for key in Grid([study]).set_keys(study.study))
    return LiveBoard(data, running(data), digest(sorted(one.data_version if one else "" for one in sets)))


def progress_of(study: Study, home: Home) -> AnswerProgress:
    """Return how far the answers of a study are, by the records of its artifacts and nothing of DuckDB."""
    store, grid = ArtifactStore(home), Grid([study])
    sets = [store.current("questions", key) for key in grid.set_keys(study.study)]
    counts = [sum(one.meta.get("by_type", {}).values()) for one in sets if one is not None]
    n = sum(counts) if len(counts) == len(sets) else None
    done, wanted, failed = 0, 0, dict[str, dict[str, int]]()
    for cell in study.runs():
        if cell.generator == NO_GENERATOR:
            continue
        artifact = store.current("answers", cell.key)
        statuses = artifact.meta.get("by_status", {}) if artifact else {}
        asked = sum(statuses.values())
        wanted += asked or min(n or 0, cell.sample or n or 0)
        done += asked - statuses.get(Status.NOT_RUN, 0)
        for status, times in statuses.items():
            if status not in ANSWERED:
                of_cell = failed.setdefault(cell.name, {})
                of_cell[str(status)] = of_cell.get(str(status), 0) + times
    return AnswerProgress(done, None if n is None else wanted, failed)


def run_now(home: Home) -> RunNow | None:
    """Return which run works on a home, if one does: by the lock that it holds."""
    path = home.root / "run.lock"
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back at once
    except BlockingIOError:
        process = os.read(handle, 32).decode(errors="replace").strip()
        return RunNow(process, _command(process))
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(handle)
    return None


def beside_each_other(boards: Sequence[LiveBoard], metric: str) -> tuple[list[LiveBoard], dict[str, str]]:
    """Return the boards whose cells may stand in one table, and study -> why it is left out.

    They were asked what the first was, with the same evidence, and the same metric measures them.
    """
    if not boards:
        return [], {}
    first, kept, why = boards[0], list[LiveBoard](), dict[str, str]()
    meant = _metric(first, metric)
    for one in boards:
        mine = _metric(one, metric)
        if mine is None:
            why[one.data.study] = f"it does not measure {metric}"
        elif one.asked != first.asked:
            why[one.data.study] = (
                f"it was asked other questions than {first.data.study}, or has other evidence"
            )
        elif mine != meant:
            why[one.data.study] = f"its {metric} means something else"
        elif one.main.name != first.main.name:
            why[one.data.study] = f"its cells are compared on {one.main.name}, not on {first.main.name}"
        else:
            kept.append(one)
    return kept, why


def _metric(board: LiveBoard, name: str) -> MetricInfo | None:
    return next((one for one in board.data.metrics if one.name == name), None)


def _written(paths: Sequence[Path]) -> Iterator[int]:
    for path in paths:
        try:
            yield path.stat().st_mtime_ns
        except OSError:
            yield 0


def _command(process: str) -> str:
    try:
        words = Path(f"/proc/{int(process)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return ""
    return " ".join(Path(word.decode(errors="replace")).name for word in words if word)[:120]
