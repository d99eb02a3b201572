"""Writes the question sets of a study in the form of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext, is_of_now
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.question_sets.exporters import FORMS
from rag_assay.evals.question_sets.exporters.contract import ExportInput
from rag_assay.evals.questions import Questions
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError


class Written(NamedTuple):
    """What an export wrote.

    paths: the files
    counts: what is in them -> how many
    notes: sentences about what the form cannot express
    """

    paths: list[Path]
    counts: dict[str, int]
    notes: list[str]


def export_questions(study: Study, form: str, folder: Path, work: BuildContext) -> Written:
    """Write the questions of a study, their evidence as the last run found it.

    Args:
        form: one of `evals.question_sets.exporters.FORMS`.
        folder: where to; files of the same names are replaced.

    Raises:
        InputError: the questions have not been looked up in the documents as both are now.
    """
    export = FORMS[form](_material(study, work))
    paths = []
    for name, lines in export.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
        paths.append(path)
    return Written(paths, export.counts, export.notes)


def _material(study: Study, work: BuildContext) -> ExportInput:
    grid = Grid([study])
    stage = Questions(grid)
    found: dict[str, list[Artifact]] = {"test": [], "train": []}
    for use, keys in (("test", grid.set_keys(study.study)), ("train", grid.train_keys(study.study))):
        for key in keys:
            artifact = work.store.current("questions", key)
            if artifact is None or not is_of_now(stage, key, work.store):
                raise InputError(
                    f"the questions of {key} have not been looked up in the documents as both are now; "
                    f"run `assay run {study.path}` first"
                )
            found[use].append(artifact)
    sources = [work.store.current("documents", name) for name in study.corpus.sources]
    documents = corpus_documents([one for one in sources if one is not None], work)
    columns = documents.select("doc_id", "url", "title", "text").iter_rows(named=True)
    return ExportInput(
        study.study,
        {use: read_questions(some, work).to_dicts() if some else [] for use, some in found.items()},
        {row["doc_id"]: row for row in columns},
    )
