"""Opens what is to be served: an exported folder, or a cell of a study in this home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export.loader import open_export, read_export
from rag_assay.evals.export.revisions import ExpectedResult, measured
from rag_assay.evals.pipeline.pipeline import Pipeline, open_pipeline
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.server.app import ServiceInfo
from rag_assay.warehouse.inference.budget import Caps

OBSTACLES_LAST = 10.0  # seconds: a server outlives a model that is started again


@dataclass(frozen=True)
class Opened:
    """What is served, and what is known of it.

    expected: questions with what was measured of them
    libraries: of which another version is installed than it was measured with
    """

    pipeline: Pipeline
    facts: ServiceInfo
    expected: Sequence[ExpectedResult]
    libraries: tuple[str, ...] = ()


def open_folder(
    folder: Path, work: BuildContext, usd: float | None, trusted: Sequence[str] = (), *, anyway: bool = False
) -> Opened:
    """Open an exported folder.

    usd: what the calls of models may cost, all together; None: no limit
    trusted, anyway: as `read_export`
    """
    _ready(work)
    export = read_export(folder, work, trusted, anyway=anyway)
    pipeline = open_export(export, work, Caps(usd=usd))
    cell = export.recipe.key
    facts = ServiceInfo(cell.key, f"export {folder.resolve().name}", export.digest, export.differences)
    return Opened(pipeline, facts, export.expected, export.libraries)


def open_cell(study: Study, cell: Cell, work: BuildContext, usd: float | None, checked: int | None) -> Opened:
    """Open a cell of a study that was run; what it was measured with is what is here.

    usd: what the calls of models may cost, all together, in place of the study's budget of a run
    checked: how many questions are to be compared; None: none
    """
    _ready(work)
    expected = measured(study, cell, work, checked) if checked else []
    spending = None if usd is None else StudyBudget(usd=usd)
    pipeline = open_pipeline(study.model_copy(update={"budget": spending}), cell, work)
    index = work.store.current("indexes", Grid([study]).index_key(cell))
    return Opened(
        pipeline, ServiceInfo(cell.key, f"study {study.study}", index.identity if index else ""), expected
    )


def _ready(work: BuildContext) -> None:
    work.resource(RunResources).obstacles_last = OBSTACLES_LAST
