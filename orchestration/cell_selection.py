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
    """Return the cell of a name, with or without the study before it."""
    from rag_assay.warehouse.suggestions import did_you_mean

    cells = {cell.key: cell for cell in study.cells()}
    short = {key.removeprefix(f"{study.study}."): cell for key, cell in cells.items()}
    wanted = name.strip().replace(" · ", ".")
    if wanted not in cells and wanted not in short:
        raise InputError(f"the study {study.study} has no cell {name!r}; {did_you_mean(wanted, list(short))}")
    return cells.get(wanted) or short[wanted]


def recommended_cell(study: Study, where: Home) -> Cell:
    """Return the cell that the verdict of a study recommends, if it reads a ranking.

    Else the verdict's leader; of a study without a verdict the first cell of the file.
    """
    from rag_assay.evals.reporting.rows import stored_verdict

    every = {cell.key: cell for cell in study.cells()}
    cells = {key: cell for key, cell in every.items() if cell.reads_ranking} or every
    with suppress(InputError):
        verdict = stored_verdict(study, where)
        for pick in (verdict.recommended, verdict.leader):
            if pick is not None and pick.cell in cells:
                return cells[pick.cell]
    return next(iter(cells.values()))
