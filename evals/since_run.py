"""Is what is stored under a study's names what its file means by them now?"""

from __future__ import annotations

import polars as pl

from assets.chunks import Chunks
from assets.embeddings import Embeddings
from assets.stage import Stage
from evals.answers import Answers
from evals.grid import Grid
from evals.leaderboard import Leaderboard
from evals.rankings import Rankings
from evals.study import NO_GENERATOR, Study
from warehouse.artifacts import ArtifactStore
from warehouse.errors import InputError


def is_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Say whether what a key holds was built by the recipes that its name stands for now.

    True also where nothing is stored, or nothing is known of its recipes: an earlier version kept none.
    """
    artifact = store.current(stage.name, key)
    known = artifact.meta.get("recipes") if artifact else None
    if known is None:
        return True
    now = list(stage.recipes(key).values())
    return bool(known[: len(now)] == now)  # those of a leaderboard go on with the cells that were not run


def refuse_changed(study: Study, store: ArtifactStore, board: pl.DataFrame) -> None:
    """Refuse to show results under names that mean something else by now.

    Args:
        study: as its file says it.
        board: its stored leaderboard.

    Raises:
        InputError: the file has changed since it was run, or another study that shares its names was.
    """
    grid = Grid([study])
    changed = _changed(grid, study, store, board)
    if changed:
        raise InputError(
            f"{changed[0]} in {study.path} is no longer what was run"
            + (f" (and {len(changed) - 1} more)" if len(changed) > 1 else "")
            + f"; run `assay run {study.path}` first, which computes only what is new"
        )


def _changed(grid: Grid, study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[str]:
    cells = {cell.key: cell for cell in study.cells()}
    strange = sorted(cells.keys() ^ set(board["cell"]))
    if strange:
        return [f"the cell {name}" for name in strange]
    run = [cells[key] for key in dict.fromkeys(board.filter(pl.col("cell_id").is_not_null())["cell"])]
    stages: dict[Stage, list[str]] = {
        Chunks(grid.build): [grid.index_key(cell).rpartition(".")[0] for cell in run],
        Embeddings(grid.build): [grid.index_key(cell) for cell in run],
        Rankings(grid): [cell.ranking for cell in run],
        Answers(grid): [cell.key for cell in run if cell.generator != NO_GENERATOR],
    }
    found = [
        f"{stage.name} of {key}"
        for stage, keys in stages.items()
        for key in dict.fromkeys(keys)
        if not is_of_now(stage, key, store)
    ]
    if not found and not is_of_now(Leaderboard(grid), study.study, store):
        return [f"how the study {study.study} compares its cells"]
    return found
