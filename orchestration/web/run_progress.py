"""How far a study is, by stage and by pipeline: read from the records of its artifacts, also during a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assay.assets.engine.stage import Stage, is_of_now
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home

CELL_STAGES = ("rankings", "answers", "scores")
"""Stages that a pipeline has a key of its own in."""


@dataclass(frozen=True)
class StageProgress:
    """How many keys of a stage are built from its current inputs, of how many."""

    stage: str
    done: int
    keys: int


@dataclass(frozen=True)
class CellProgress:
    """Which stages of a pipeline are built, and how its answers ended: status -> answers."""

    cell: str
    done: Mapping[str, bool]
    answers: Mapping[str, int]


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is.

    crawls: source -> the row of its last crawl (`schemas.CRAWLS`)
    """

    stages: tuple[StageProgress, ...]
    cells: tuple[CellProgress, ...]
    crawls: Mapping[str, Mapping[str, Any]]

    @property
    def is_complete(self) -> bool:
        return all(one.done == one.keys for one in self.stages)


def study_progress(reference: str, home: Home) -> StudyProgress:
    """Return how far the study of a name or path is. DuckDB is left alone, which a run may be writing."""
    study = narrow_study(find_known(reference, home), home)
    store = ArtifactStore(home)
    stages = stages_of(Grid([study]))
    built = {name: {key for key in one.keys() if _is_built(one, key, store)} for name, one in stages.items()}
    wanted = [(name, len(one.keys())) for name, one in stages.items()]
    crawls = {key: store.current("pages", key) for key in stages["pages"].keys()}
    return StudyProgress(
        tuple(StageProgress(name, len(built[name]), n) for name, n in wanted if n),
        tuple(_cells(study, built, stages, store)),
        {
            key: found.meta["crawl"]
            for key, found in crawls.items()
            if found is not None and "crawl" in found.meta
        },
    )


def _is_built(stage: Stage, key: str, store: ArtifactStore) -> bool:
    return store.current(stage.name, key) is not None and is_of_now(stage, key, store)


def _cells(
    study: Study, built: Mapping[str, set[str]], stages: Mapping[str, Stage], store: ArtifactStore
) -> Iterator[CellProgress]:
    wanted = {name: set(stages[name].keys()) for name in CELL_STAGES}
    for cell in study.runs():
        keys = {"rankings": cell.ranking, "answers": cell.key, "scores": cell.key}
        done = {name: key in built[name] for name, key in keys.items() if key in wanted[name]}
        answers = store.current("answers", cell.key)
        yield CellProgress(cell.key, done, answers.meta.get("by_status", {}) if answers else {})
