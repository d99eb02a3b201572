"""Which cell of a study a command means: the one that is named, or the best to be had."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from warehouse.errors import InputError
from warehouse.paths import Home

if TYPE_CHECKING:
    from evals.study.cells import Cell
    from evals.study.study import Study


def named_cell(study: Study, name: str) -> Cell:
    """Return the cell of a name, with or without the study before it.

    Raises:
        InputError: there is none; says which there are.
    """
    from warehouse.near_names import instead

    cells = {cell.key: cell for cell in study.cells()}
    short = {key.removeprefix(f"{study.study}."): cell for key, cell in cells.items()}
    wanted = name.strip().replace(" · ", ".")
    if wanted not in cells and wanted not in short:
        raise InputError(f"the study {study.study} has no cell {name!r}; {instead(wanted, list(short))}")
    return cells.get(wanted) or short[wanted]


def recommended_cell(study: Study, where: Home) -> Cell:
    """Return the cell that the report of a study recommends, if it can be asked; else the leading one."""
    from evals.reporting.recommendation import recommendation_of

    with suppress(InputError):
        found = recommendation_of(study, where).cell
        cells = {cell.key: cell for cell in study.cells() if cell.reads_ranking}
        if found in cells:
            return cells[found]
    return leading_cell(study, where)


def leading_cell(study: Study, where: Home) -> Cell:
    """Return the cell that leads the leaderboard, of those that can be asked; else the first of the file."""
    from evals.reporting.rows import leaderboard_rows

    every = {cell.key: cell for cell in study.cells()}
    cells = {key: cell for key, cell in every.items() if cell.reads_ranking} or every
    board: list[dict[str, Any]] = []
    with suppress(InputError):
        board = leaderboard_rows(study, where).to_dicts()
    ranked = [row for row in board if row["metric"] == study.metrics[0] and row["rank"] is not None]
    ranked.sort(key=lambda row: row["rank"])
    return next((cells[row["cell"]] for row in ranked if row["cell"] in cells), next(iter(cells.values())))
