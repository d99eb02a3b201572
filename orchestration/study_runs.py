"""Runs a study for programs: the Python API and agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import Progress
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.warehouse.inference.budget import Budgets


def run_study(
    study: Study,
    where: Home,
    hear: Progress,
    *,
    cells: Sequence[str] = (),
    questions: str | int | None = None,
    budgets: Budgets | None = None,
) -> tuple[Study, RunReport]:
    """Build what is missing or outdated, as `assay run` does; return what was run, and how it went.

    cells, questions: as `slice_study` takes them
    hear: called with (label, done, total); total is 0 for a message without a count
    budgets: further limits beside the study's own budget

    Raises:
        InputError: the study, or what it names, cannot be used.
    """
    from rag_assay.evals.study.grid import read_questions_of
    from rag_assay.evals.study.run_studies import note, note_slice, refuse_taken, slice_study
    from rag_assay.evals.study.study_check import unreachable_models
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.search_run import search_study
    from rag_assay.orchestration.stages import up_to
    from rag_assay.warehouse.inference.budget import Budgets

    refuse_taken(study, where)
    found = slice_study(study, tuple(cells), None if questions is None else str(questions))
    read_questions_of(found)  # a mistake there must not cost a crawl
    for reason in unreachable_models(found):
        hear(f"warning: {reason}; what needs it will fail", 0, 0)
    note(found, where)
    note_slice(found, where)
    spending = budgets or Budgets()

    def walk(part: Study, last: str) -> object:
        return Driver(part, where, hear).run(tuple(up_to(part, [last])), budgets=spending)

    if found.search is not None and found.slice is None:
        found = search_study(found, where, walk, lambda text: hear(text, 0, 0))
    return found, Driver(found, where, hear).run(budgets=spending)
