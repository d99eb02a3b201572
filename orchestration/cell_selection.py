"""Which cell of a study a command means: the one that is named, or the one that its verdict recommends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.study.cells import Cell
    from rag_assay.evals.study.study import Study


def named_cell(study: Study, name: str) -> Cell:
    from rag_assay.warehouse.suggestions import did_you_mean

    cells = {cell.key: cell for cell in study.cells()}
    short = {key.removeprefix(f"{study.study}."): cell for key, cell in cells.items()}
    wanted = name.strip().replace(" · ", ".")
    if wanted not in cells and wanted not in short:
        raise InputError(f"the study {study.study} has no cell {name!r}; {did_you_mean(wanted, list(short))}")
    return cells.get(wanted) or short[wanted]


def cell_of(study: Study, name: str | None, where: Home) -> Cell:
    """Return the cell of a name; without one, the recommended one."""
    return named_cell(study, name) if name else recommended_cell(study, where)


def recommended_cell(study: Study, where: Home) -> Cell:
    """Return the cell that the verdict recommends; else the leader or best-ranked cell that can be opened."""
    from rag_assay.evals.reporting.stale_results import stored_result

    every = {cell.key: cell for cell in study.cells()}
    cells = {key: cell for key, cell in every.items() if cell.reads_ranking} or every
    with suppress(InputError):
        result = stored_result(study, where)
        verdict = result.verdict
        for pick in (verdict.recommended, verdict.leader):
            if pick is not None and pick.cell in cells:
                return cells[pick.cell]
        ranked = result.board.filter(metric=verdict.metric, subset=verdict.subset).drop_nulls("rank")
        for name in ranked.sort("rank")["cell"]:
            if name in cells:
                return cells[name]
    return next(iter(cells.values()))
