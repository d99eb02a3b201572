"""Runs the stages of a study for a command, with progress bars on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_assay.orchestration.terminal.cli_errors import say

if TYPE_CHECKING:
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
    """Bring the stages of a study up to date (or ``only`` some, of ``keys`` alone), and say how it went.

    budgets: what this and other walks may spend together; None: what this one may
    spread: how runs are spread that Dagster launches; None: all in this process
    """
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
    """Return a study with the cells that its search leaves, once that has been run.

    budgets: what its rungs together may spend, and what follows
    """
    if study.search is None or study.slice is not None:
        return study
    from rag_assay.orchestration.search_run import search_study
    from rag_assay.orchestration.stages import up_to

    def walked(part: Study, last: str) -> object:
        return walk(part, where, tuple(up_to(part, [last])), budgets=budgets, spread=spread)

    return search_study(study, where, walked, say)


def show(study: Study, where: Home, result: RunReport) -> ReportData:
    """Say where the report lies, and print the leaderboard with its answer last.

    Returns what is shown.
    """
    from rag_assay.evals.reporting.display import plain
    from rag_assay.evals.reporting.rows import report_data
    from rag_assay.orchestration.run_report import failure_notes
    from rag_assay.orchestration.terminal.tables import show_leaderboard

    if result.is_there("report"):
        print(plain(f"Report: {where.report(study.study)} (assay report {study.study} --open)"))
    print("Dagster UI: http://127.0.0.1:3000, once `assay dev` runs\n")
    # Last, for its last line is the answer.
    data = report_data(study, where, failure_notes(result.stages), with_hits=False)
    show_leaderboard(data)
    return data
