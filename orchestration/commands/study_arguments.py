"""What commands share: the workspace, the study that they are given, and runs of its stages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home, home

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext, Progress
    from rag_assay.evals.reporting.data import ReportData
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.orchestration.runs.run import Spread
    from rag_assay.warehouse.inference.budget import Budgets
    from rag_assay.warehouse.paths import Home


def walk(
    study: Study,
    where: Home,
    only: tuple[str, ...] | None = None,
    *,
    again: bool = False,
    keys: tuple[str, ...] | None = None,
    budgets: Budgets | None = None,
    spread: Spread | None = None,
) -> RunReport:
    """Bring stages up to date (``only`` some, of ``keys`` alone); spread: over runs that Dagster launches."""
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.progress import Bars
    from rag_assay.orchestration.terminal.tables import show_end

    with Bars() as bars:
        driver = Driver(study, where, bars.tell, bars, spread)
        result = driver.run(only, again=again, keys=keys, budgets=budgets)
    if not bars.is_live:
        show_end(result)
    return result


def search_of(study: Study, where: Home, budgets: Budgets, spread: Spread | None = None) -> Study:
    """Return a study with the cells that its search leaves, once that has been run within the budgets."""
    if study.search is None or study.slice is not None:
        return study
    from rag_assay.orchestration.search_run import search_study
    from rag_assay.orchestration.stages import up_to

    def walked(part: Study, last: str) -> object:
        return walk(part, where, tuple(up_to(part, [last])), budgets=budgets, spread=spread)

    return search_study(study, where, walked, say)


def show(study: Study, where: Home, result: RunReport) -> ReportData:
    """Say where the report is, and print the leaderboard with its answer last; return what is shown."""
    from rag_assay.evals.reporting.display import plain
    from rag_assay.evals.reporting.rows import report_data
    from rag_assay.orchestration.run_report import failure_notes
    from rag_assay.orchestration.terminal.tables import show_leaderboard

    if result.is_there("report"):
        print(plain(f"Report: {where.report(study.study)} (assay report {study.study} --open)"))
    print("Dagster UI: http://127.0.0.1:3000, once `assay dev` runs\n")
    # Last, for its last line is the answer.
    is_current = result.ok and result.unchanged and result.is_there("report")
    notes = failure_notes(result.stages)
    data = report_data(study, where, notes, with_hits=False, is_current=is_current)
    show_leaderboard(data)
    return data


def home_to_look_at() -> Home:
    """Return the home without making it: looking changes nothing."""
    return Home(Settings().place())


def prepare_home() -> Home:
    prepare(Settings())
    return home()


def home_of(study: Study) -> Home:
    """Return the prepared home, unless the study's names stand for another study's things there."""
    from rag_assay.evals.study.run_studies import refuse_taken

    where = prepare_home()
    refuse_taken(study, where)
    return where


@contextmanager
def build_context(study: Study, progress: Progress | None = None) -> Iterator[BuildContext]:
    from rag_assay.assets.engine.stage import BuildContext

    with closing(BuildContext(home_of(study), progress or (lambda _label, _done, _of: None))) as work:
        yield work


def study_of(name: str) -> Study:
    """Return the study of a name or path, as a person may say it, with the cells that its search left."""
    from rag_assay.evals.successive_halving.records import narrow_study

    return narrow_study(study_as_written(name), home_to_look_at())


def study_as_written(name: str) -> Study:
    from rag_assay.evals.study.run_studies import find_known

    return find_known(name, home_to_look_at())


def whole_study_of(name: str) -> Study:
    found = study_of(name)
    if found.slice is not None:
        raise InputError(
            f"{found.study} is a slice of the study {found.whole}; this belongs to the whole: "
            f"give {found.whole}"
        )
    return found


def files_of(study: Study) -> set[Path]:
    """Return the file of a study, and what its texts may be the paths of, there or not."""
    return {study.path, *_paths(study.path, study.model_dump(mode="json"))}


def files_of_broken(path: Path) -> set[Path]:
    import yaml

    written = None
    with suppress(OSError, ValueError, yaml.YAMLError):
        written = yaml.safe_load(os.path.expandvars(path.read_text(encoding="utf-8")))
    return {path, *_paths(path, written)}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _paths(file: Path, written: object) -> Iterator[Path]:
    for text in filter(None, _texts(written)):
        with suppress(OSError, ValueError, RuntimeError):  # too long, with a zero byte, of an unknown `~user`
            for base in (file.parent, Path.cwd()):
                path = base / Path(text).expanduser()
                path.exists()
                yield path
