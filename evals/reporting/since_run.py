"""Tells whether stored results still fit the study file."""

from __future__ import annotations

import polars as pl

from assets.chunks import Chunks
from assets.documents import Documents
from assets.embeddings import Embeddings
from assets.engine.of_now import is_by_recipe_of_now, is_of_contents_of_now
from assets.engine.stage import Need, Stage
from assets.pages import Pages
from evals.annotations import Annotations
from evals.answers import Answers
from evals.human_estimates import HumanEstimates
from evals.judge_cards import JudgeCards
from evals.judgements import Judgements
from evals.leaderboard import NOT_RUN, Leaderboard
from evals.measuring.reuse import NOT_ANNOTATED, NOT_JUDGED
from evals.questions import Questions
from evals.rankings import Rankings
from evals.scores import Scores
from evals.study.cells import NO_GENERATOR, Cell
from evals.study.grid import Grid
from evals.study.study import Study
from warehouse.artifacts import ArtifactStore
from warehouse.errors import InputError


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
    again = f"; run `assay run {study.path}` first, which computes only what is new"
    if changed:
        raise InputError(f"{_first(changed)} in {study.path} is no longer what was run{again}")
    old = _of_other_contents(grid, study, store, board)
    if old:
        raise InputError(
            f"{_first(old)} was made of other documents or questions than those of now: "
            f"{study.path} asks others than were asked, or another study has read them anew{again}"
        )


def _first(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")


def _of_other_contents(grid: Grid, study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[str]:
    """Return what is shown beside contents that it was not made of.

    Documents that a crawl alone has changed since then are none of that: nothing was built of them yet.
    """
    run = _run_cells(study, store, board)
    comparing = Leaderboard(grid)
    comparing.without = frozenset(Need("scores", cell.key) for cell in {*study.runs()} - {*run})
    scoring = Scores(grid)
    scoring.without = frozenset(Need("judgements", key) for key in _gaps(run, store)) | _not_annotated(
        study, run, store
    )
    stages: dict[Stage, list[str]] = {
        Rankings(grid): [cell.ranking for cell in run],
        Answers(grid): [cell.key for cell in run if cell.generator != NO_GENERATOR],
        Judgements(grid): _judged(grid, run, store),
        scoring: [cell.key for cell in run],
        comparing: [study.study],
    }
    return [
        f"{stage.name} of {key}"
        for stage, keys in stages.items()
        for key in dict.fromkeys(keys)
        if not is_of_contents_of_now(stage, key, store)
    ]


def _judged(grid: Grid, run: list[Cell], store: ArtifactStore) -> list[str]:
    """Return the keys of the judgements that the cells were scored by."""
    keys = [one.key for cell in run for one in grid.judgements_of(cell)]
    gaps = _gaps(run, store)
    return [key for key in keys if key not in gaps and store.current("judgements", key) is not None]


def _not_annotated(study: Study, run: list[Cell], store: ArtifactStore) -> frozenset[Need]:
    """Return the annotations of the study, where the cells were scored without."""
    scores = [store.current("scores", cell.key) for cell in run]
    lack = any(one.meta.get(NOT_ANNOTATED) for one in scores if one)
    return frozenset([Need("annotations", study.study)] if lack else [])


def _gaps(run: list[Cell], store: ArtifactStore) -> set[str]:
    """Return the keys of the judgements that the cells were scored without."""
    scores = [store.current("scores", cell.key) for cell in run]
    return {key for one in scores if one for key in one.meta.get(NOT_JUDGED, ())}


def _run_cells(study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[Cell]:
    """Return the cells, each replicate for itself, of which the stored leaderboard has values."""
    artifact = store.current("leaderboard", study.study)
    gone = set(artifact.meta.get(NOT_RUN, ())) if artifact else set()
    names = set(board.filter(pl.col("cell_id").is_not_null())["cell"])
    return [cell for cell in study.runs() if cell.name in names and cell.key not in gone]


def _other_sources(grid: Grid, study: Study, store: ArtifactStore) -> list[str]:
    """Return which sources mean something else than what was read, and the corpus if it has others."""
    pages, documents = Pages(grid.build), Documents(grid.build)
    crawled = {name: store.current("pages", name) for name in study.corpus.sources}
    found = [
        f"the source {name}"
        for name, artifact in crawled.items()
        if (artifact and not pages.is_of_now(name, artifact))
        or not is_by_recipe_of_now(documents, name, store)
    ]
    cut = [store.current("chunks", key) for key in study.chunk_sets()]
    known = [artifact.meta["sources"] for artifact in cut if artifact and "sources" in artifact.meta]
    mixed = any(names != list(study.corpus.sources) for names in known)
    return found + ([f"the corpus {study.corpus.name}"] if mixed else [])


def _changed(grid: Grid, study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[str]:
    strange = sorted({cell.key for cell in study.cells()} ^ set(board["cell"]))
    if strange:
        return [f"the cell {name}" for name in strange]
    questions = Questions(grid)
    files = [key for key in grid.set_keys(study.study) if grid.sets[key].beir is None]
    edited = [key for key in files if not is_by_recipe_of_now(questions, key, store)]
    if edited:
        return [f"the question set {key}" for key in edited]
    run = _run_cells(study, store, board)
    stages: dict[Stage, list[str]] = {
        Chunks(grid.build): [grid.index_key(cell).rpartition(".")[0] for cell in run],
        Embeddings(grid.build): [grid.index_key(cell) for cell in run],
        Rankings(grid): [cell.ranking for cell in run],
        Answers(grid): [cell.key for cell in run if cell.generator != NO_GENERATOR],
        Judgements(grid): _judged(grid, run, store),
        Annotations(grid): [study.study] if study.rubrics else [],
        JudgeCards(grid): grid.cards_of(study.study),
        HumanEstimates(grid): [study.study] if study.rubrics else [],
    }
    found = [
        f"{stage.name} of {key}"
        for stage, keys in stages.items()
        for key in dict.fromkeys(keys)
        if not is_by_recipe_of_now(stage, key, store)
    ] or _other_sources(grid, study, store)
    if not found and not is_by_recipe_of_now(Leaderboard(grid), study.study, store):
        return [f"how the study {study.study} compares its cells"]
    return found
