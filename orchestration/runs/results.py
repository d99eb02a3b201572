"""What a run records of its study: which keys are current, and which artifacts its result is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from rag_assay.assets.engine.definition import sync_all
from rag_assay.assets.engine.stage import BuildContext, Stage
from rag_assay.assets.pages import Pages
from rag_assay.evals.study.cells import whole_of
from rag_assay.evals.study.run_studies import known_slices
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import STAGE as SEARCHES
from rag_assay.warehouse import tables
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.pages import become, can_become
from rag_assay.warehouse.stored_study_text import stored_study_text
from rag_assay.warehouse.study_records import (
    FinishedRun,
    StudyRecord,
    read_study_record,
    study_records,
    write_study_record,
)

_OF_SOURCES = ("pages", "documents")
_SHARED = (*_OF_SOURCES, "chunks", "enrichments", "embeddings", "indexes", "questions")
"""Stages whose keys name sources and corpora, which other studies may use for something else."""


def keep_current(study: Study, stages: Mapping[str, Stage], work: BuildContext, store: ArtifactStore) -> None:
    """Let the `current_*` views hold the keys of a study as it is now, and no others of it.

    What the file of the study called it before, the rungs of its search, and slices with cells that the study
    has no longer, leave the views, too.
    """
    keys = {name: stage.keys() for name, stage in stages.items()}
    keys[SEARCHES] = [study.study] if study.search and not study.slice else []
    mine = {name: keys[name] for name in tables.OF_STUDIES}
    before = read_study_record(work.home, study.study)
    finished = before.finished if before else None
    write_study_record(work.home, StudyRecord(study.study, str(study.path), mine, finished))
    sync_all(keys, work, store, study.study)
    if study.slice is None:
        slices = {one.name for one in known_slices(work.home)}
        for record in study_records(work.home):
            is_of_file = record.keys and record.path == str(study.path)
            if is_of_file and record.study != study.study and not _is_part(record, study, slices):
                write_study_record(work.home, replace(record, keys={}))
                tables.use_database(work.home, partial(tables.forget, study=record.study))


def _is_part(record: StudyRecord, study: Study, slices: Collection[str]) -> bool:
    cells = {cell.short for cell in study.every_cell}
    scored = {".".join(key.split(".")[1:5]) for key in record.keys.get("scores", ())}
    return record.study in slices and whole_of(record.study) == study.study and scored <= cells


def keep_result(study: Study, stages: Mapping[str, Stage], store: ArtifactStore) -> None:
    """Record the artifacts of a run that has reached its leaderboard, and its study file without secrets."""
    record = read_study_record(store.home, study.study)
    if record is None or not study.path.is_file():
        return
    pins = {
        name: {key: one.identity for key in stage.keys() if (one := store.current(name, key))}
        for name, stage in stages.items()
        if name != "report"
    }
    if found := store.current(SEARCHES, study.study) if study.search else None:
        pins[SEARCHES] = {study.study: found.identity}
    text = stored_study_text(study.path.read_text(encoding="utf-8"))
    write_study_record(store.home, replace(record, finished=FinishedRun(pins, text)))


def restore_sources(study: Study, stages: Mapping[str, Stage], store: ArtifactStore) -> None:
    """Let names of sources that another study has used for something else mean what they meant in this one.

    Nothing is crawled or built again for that: what was stored stays, and pointers are set back.
    """
    record = read_study_record(store.home, study.study)
    pages = stages["pages"]
    assert isinstance(pages, Pages)  # noqa: S101 -- by its name
    if record is None or record.finished is None:
        return
    pins = record.finished.artifacts
    taken = []
    for source in pages.keys():
        pinned = store.find("pages", pins.get("pages", {}).get(source, "-"))
        if pinned and pages.is_of_now(source, pinned):
            origin = pages.sources[source].origin
            taken += [source] if can_become(store.home, source, origin) else []
    if not taken:
        return
    for stage in _SHARED:
        for key, identity in pins.get(stage, {}).items():
            if (stage not in _OF_SOURCES or key in taken) and store.find(stage, identity):
                store.point(stage, key, identity)
    for source in taken:  # the last: a kill before leaves it to the next run
        become(store.home, source, pages.sources[source].origin)
