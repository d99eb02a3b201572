"""Finds the stored result of a study, and tells whether it still fits the study file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from rag_assay.assets.chunks import Chunks
from rag_assay.assets.documents import Documents
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.stage import PartitionRef, Stage, is_by_recipe_of_now, is_of_contents_of_now
from rag_assay.assets.pages import Pages
from rag_assay.evals.annotations import Annotations
from rag_assay.evals.answers import Answers
from rag_assay.evals.human_estimates import HumanEstimates
from rag_assay.evals.judge_cards import JudgeCards
from rag_assay.evals.judgements import Judgements
from rag_assay.evals.leaderboard import NOT_RUN, Leaderboard
from rag_assay.evals.metrics.reuse import NOT_ANNOTATED, NOT_JUDGED
from rag_assay.evals.questions import Questions
from rag_assay.evals.rankings import Rankings
from rag_assay.evals.reporting.stored_rows import select_rows
from rag_assay.evals.scores import Scores
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import slice_study
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import LEADERBOARD, VERDICTS
from rag_assay.warehouse.study_records import PinnedArtifacts, pinned_artifacts, read_study_record
from rag_assay.warehouse.tables import on_whole_database


@dataclass(frozen=True)
class StoredResult:
    """The study as it was run; store: resolves keys as they were at that run; note: that the study file has
    changed.
    """

    study: Study
    store: PinnedArtifacts
    board: pl.DataFrame
    verdicts: pl.DataFrame
    note: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.note,) if self.note else ()

    @cached_property
    def verdict(self) -> Verdict:
        return Verdict.of_row(self.verdicts.row(0, named=True))


@on_whole_database
def stored_result(
    study: Study, home: Home, *, as_run: bool = False, is_current: bool = False
) -> StoredResult:
    """Return the result of the last run of a study, whatever other studies have run since.

    as_run: if the study file has changed since, return the study as it was run, with a note
    is_current: a run has just found that everything is up to date; do not look again

    Raises:
        InputError: the study has not been run, or (not ``as_run``) not as its file is now; or another file
            of its name was run.
    """
    _refuse_namesake(study, home)
    store = pinned_artifacts(home, study.study)
    board, verdicts = _leaderboard(study, store)
    if is_current:
        return StoredResult(study, store, board, verdicts)
    try:
        refuse_changed(study, store, board)
    except InputError:
        earlier = _as_it_was_run(study, store) if as_run else None
        if earlier is None:
            raise
        board, verdicts = _leaderboard(earlier, store)
        with suppress(InputError):
            refuse_changed(earlier, store, board)
            return StoredResult(earlier, store, board, verdicts, _CHANGED.format(study=study))
        raise  # files that the study names have changed, too
    return StoredResult(study, store, board, verdicts)


def _refuse_namesake(study: Study, home: Home) -> None:
    """A file that is gone may have been moved."""
    record = read_study_record(home, study.study)
    if record and record.path != str(study.path) and Path(record.path).is_file():
        raise InputError(
            f"{study.path} has no results: another study is named {study.study}, {record.path}, and was run "
            f"in {home.root}; rename one of them, or keep them apart: "
            f"ASSAY_HOME=another/folder assay run {study.path}"
        )


_CHANGED = "the study file changed since this run; `assay run {study.path}` updates the result"


def _as_it_was_run(study: Study, store: PinnedArtifacts) -> Study | None:
    """Return the study by its file's text at the last run; None: not readable now."""
    record = read_study_record(store.home, study.study)
    if not store.pins or record is None or record.finished is None or not record.finished.text:
        return None
    with suppress(InputError):
        found = read_study(Path(record.path), sources_gone=True, text=record.finished.text)
        for layer in study.slice.layers if study.slice else ():
            found = slice_study(found, layer.cells, layer.questions)
        return narrow_study(found, store.home)
    return None


def _leaderboard(study: Study, store: PinnedArtifacts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return schemas.LEADERBOARD and VERDICTS."""
    with store.connect() as connection:
        board, verdicts = (
            select_rows(connection, f"SELECT * FROM {view} WHERE study = ?", [study.study], schema)  # noqa: S608
            for view, schema in (("current_leaderboard", LEADERBOARD), ("current_verdict", VERDICTS))
        )
    if not len(board):
        raise InputError(f"the study {study.study} has no results yet; run `assay run {study.path}` first")
    order = {name: place for place, name in enumerate(study.measured)}
    board = (
        board.with_columns(pl.col("metric").replace_strict(order, default=len(order)).alias("_order"))
        .sort("subset", "_order", "rank", "cell", nulls_last=True)
        .drop("_order")
    )
    return board, verdicts


def refuse_changed(study: Study, store: ArtifactStore, board: pl.DataFrame) -> None:
    """Refuse to show results under names that mean something else now, by an InputError."""
    grid = Grid([study])
    changed = _changed(grid, study, store, board)
    again = f"; run `assay run {study.path}` first, which computes only what is new"
    if changed:
        raise InputError(f"{_first(changed)} in {study.path} is no longer what was run{again}")
    old = _of_other_contents(grid, study, store, board)
    if old:
        raise InputError(
            f"{_first(old)} was made of other documents or questions than the current ones: "
            f"{study.path} asks others than were asked, or another study has read them again{again}"
        )


def _first(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")


def _of_other_contents(grid: Grid, study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[str]:
    """Return what changed since, documents that a crawl alone has changed aside."""
    run = _run_cells(study, store, board)
    comparing = Leaderboard(grid)
    comparing.without = _scores_not_run(study, run)
    scores = [one for cell in run if (one := store.current("scores", cell.key))]
    not_annotated = any(one.meta.get(NOT_ANNOTATED) for one in scores)
    scoring = Scores(grid)
    scoring.without = frozenset(
        [PartitionRef("judgements", key) for one in scores for key in one.meta.get(NOT_JUDGED, ())]
        + ([PartitionRef("annotations", study.study)] if not_annotated else [])
    )
    stages = {**_evaluated(grid, run, store), scoring: [cell.key for cell in run], comparing: [study.study]}
    return _named_keys(stages, store, is_of_contents_of_now)


def _evaluated(grid: Grid, run: list[Cell], store: ArtifactStore) -> dict[Stage, list[str]]:
    scores = [one for cell in run if (one := store.current("scores", cell.key))]
    gaps = {key for one in scores for key in one.meta.get(NOT_JUDGED, ())}
    judged = [one.key for cell in run for one in grid.judgements_of(cell)]
    return {
        Rankings(grid): [cell.ranking for cell in run],
        Answers(grid): [cell.key for cell in run if cell.generator != NO_GENERATOR],
        Judgements(grid): [key for key in judged if key not in gaps and store.current("judgements", key)],
    }


def _named_keys(
    stages: Mapping[Stage, list[str]],
    store: ArtifactStore,
    is_fresh: Callable[[Stage, str, ArtifactStore], bool],
) -> list[str]:
    return [
        f"{stage.name} of {key}"
        for stage, keys in stages.items()
        for key in dict.fromkeys(keys)
        if not is_fresh(stage, key, store)
    ]


def _run_cells(study: Study, store: ArtifactStore, board: pl.DataFrame) -> list[Cell]:
    artifact = store.current("leaderboard", study.study)
    gone = set(artifact.meta.get(NOT_RUN, ())) if artifact else set()
    names = set(board.filter(pl.col("cell_id").is_not_null())["cell"])
    return [cell for cell in study.runs() if cell.name in names and cell.key not in gone]


def _scores_not_run(study: Study, run: list[Cell]) -> frozenset[PartitionRef]:
    return frozenset(PartitionRef("scores", cell.key) for cell in {*study.runs()} - {*run})


def _other_sources(grid: Grid, study: Study, store: ArtifactStore) -> list[str]:
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
    estimating = HumanEstimates(grid)
    estimating.without = _scores_not_run(study, run)
    stages: dict[Stage, list[str]] = {
        Chunks(grid.build): [grid.index_key(cell).rpartition(".")[0] for cell in run],
        Embeddings(grid.build): [grid.index_key(cell) for cell in run],
        **_evaluated(grid, run, store),
        Annotations(grid): [study.study] if study.rubrics else [],
        JudgeCards(grid): grid.cards_of(study.study),
        estimating: [study.study] if study.rubrics else [],
    }
    found = _named_keys(stages, store, is_by_recipe_of_now) or _other_sources(grid, study, store)
    if not found and not is_by_recipe_of_now(Leaderboard(grid), study.study, store):
        return [f"how the study {study.study} compares its cells"]
    return found
