"""Writes a cell as a folder that answers questions elsewhere: whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export import checksums, revisions
from rag_assay.evals.export.recipe import (
    RECIPE,
    ExportedRecipe,
    asking_of,
    dump_recipe,
    map_texts,
    recipe_of,
    write_recipe,
)
from rag_assay.evals.pipeline.passages import headings_of
from rag_assay.evals.pipeline.pipeline import Pipeline, open_pipeline
from rag_assay.evals.pipeline.retrieval import parts_of_cell
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.redaction import secrets_in
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet

README, EXAMPLE = "README.md", "example.py"
_TEXTS = Path(__file__).with_name("texts")
_NEEDS = {
    "registry": "- `{name}`: weights of the registry, of digest `{weights}` (`assay models fetch {plain}`)",
    "hub": "- `{name}`: weights of the Hugging Face hub, at their commit",
    "folder": "- `{name}`: weights of digest `{weights}`, in `models/` here or in that of the home",
    "server": "- `{name}`: a model that a server has; its key comes from the environment, and is not in here",
}


def written_texts(
    recipe: ExportedRecipe, expected: Sequence[revisions.ExpectedResult], used: Sequence[revisions.Used]
) -> dict[str, str]:
    question = expected[0].question["question"] if expected else "What is this about?"
    cell = recipe.key
    needs = [
        _NEEDS[one.kind].format(
            name=Path(one.name).name if one.kind == "folder" else one.name,
            plain=one.name.rpartition("/")[2],
            weights=one.weights,
        )
        for one in used
    ]
    values = {
        "cell": cell.key,
        "study": recipe.study,
        "version": version("rag-assay"),
        "chunking": cell.chunking,
        "embedder": cell.embedder,
        "retriever": cell.retriever,
        "generator": f"generator `{cell.generator}`" if recipe.generator else "without a generator",
        "models": "\n".join(needs) or "No model.",
        "n_checked": str(len(expected)),
    }
    return {
        README: Template(_read("readme")).substitute(values),
        EXAMPLE: Template(_read("example")).substitute(question=repr(question)),
    }


def _read(name: str) -> str:
    return (_TEXTS / f"{name}.txt").read_text(encoding="utf-8")


QUESTIONS = 50  # that are written with their answers, unless it is said how many


@dataclass(frozen=True)
class ExportOptions:
    """How a cell is exported."""

    questions: int = QUESTIONS
    with_models: bool = False
    force: bool = False


@dataclass(frozen=True)
class ExportSummary:
    """What was written: the digest of all of it, how many bytes, and how many questions to check it by."""

    digest: str
    size: int
    questions: int


def export(
    study: Study, cell: Cell, target: Path, work: BuildContext, wanted: ExportOptions | None = None
) -> ExportSummary:
    wanted = wanted or ExportOptions()
    target = target.expanduser().absolute()
    _refuse_what_is_there(target, force=wanted.force)
    with open_pipeline(study, cell, work) as pipeline, _whole(target) as folder:
        taken = _taken(study, cell, pipeline)
        expected = revisions.measured(study, cell, work, wanted.questions) if wanted.questions else []
        index = _copy_index(study, cell, folder, work)
        if pipeline.headings is not None:
            _write_headings(study, cell, folder, work)
        if wanted.with_models:
            revisions.copy_models(taken.used, taken.held, folder, work.home)
        data = {**_data(study, cell, index, work), "fitted": _fitted(study, cell, pipeline)}
        revisions.write_revisions(revisions.revisions_of(taken.recipe, taken.used, data), folder)
        if expected:
            revisions.write_expected(expected, folder)
        _write_texts(taken, expected, folder)
        _write_verdict(study, cell, folder, work)
        found = checksums.seal(folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return ExportSummary(found, size, len(expected))


class _Taken(NamedTuple):
    """What is taken along of a cell: its recipe as it is asked here, and as written, without paths of this
    machine.
    """

    recipe: ExportedRecipe
    written: dict[str, Any]
    used: list[revisions.Used]
    held: dict[str, Path]


def _taken(study: Study, cell: Cell, pipeline: Pipeline) -> _Taken:
    parts = replace(
        parts_of_cell(study, cell), retriever=pipeline.retrieval.retriever, generator=pipeline.generator
    )
    recipe = recipe_of(parts, study.description, _built(study, cell))
    asking = asking_of(dump_recipe(recipe))
    revisions.refuse_credentials(asking)
    written, held = revisions.relocate_recipe(asking, Path.cwd())
    return _Taken(recipe, {**dump_recipe(recipe), **written}, revisions.used_models(asking), held)


def _fitted(study: Study, cell: Cell, pipeline: Pipeline) -> dict[str, Any]:
    tuning, generator = pipeline.retrieval.tuning, pipeline.generator
    found: dict[str, Any] = {"weights": [one._asdict() for one in tuning.chosen] if tuning else []}
    if generator is not None and generator.gate and study.generators[cell.generator].tunes:
        found["gate"] = generator.gate.model_dump(mode="json")
    return found


def _built(study: Study, cell: Cell) -> dict[str, Any]:
    chunking = study.chunkings[cell.chunking].model_dump(mode="json", exclude_none=True)
    chunking.pop("enrich", None)
    corpus = study.corpus.model_dump(mode="json", exclude_none=True)

    def without_folder(_key: str, text: str) -> str:
        return Path(text).name if text.startswith(("/", "~", "./", "../")) else text

    return {"corpus": corpus, "chunking": map_texts(chunking, without_folder)}


def _copy_index(study: Study, cell: Cell, folder: Path, work: BuildContext) -> Artifact:
    index = _current("indexes", Grid([study]).index_key(cell), work)
    shutil.copytree(work.store.folder("indexes", index.identity), folder / checksums.INDEX)
    return index


def _write_headings(study: Study, cell: Cell, folder: Path, work: BuildContext) -> None:
    chunks = _current("chunks", Grid([study]).index_key(cell).rpartition(".")[0], work)
    rows: list[dict[str, object]] = [
        {"chunk_id": one, "heading_path": list(path)}
        for one, path in sorted(headings_of(chunks, work).items())
    ]
    write_parquet(frame(rows, checksums.HEADINGS_SCHEMA), folder / checksums.HEADINGS)


def _data(study: Study, cell: Cell, index: Artifact, work: BuildContext) -> dict[str, Any]:
    documents = {name: _current("documents", name, work).data_version for name in study.corpus.sources}
    chunks = _current("chunks", Grid([study]).index_key(cell).rpartition(".")[0], work)
    return {
        "corpus": digest(documents),
        "documents": documents,
        "chunks": chunks.data_version,
        "index": {"identity": index.identity, "data_version": index.data_version, "built": index.created_at},
    }


def _write_verdict(study: Study, cell: Cell, folder: Path, work: BuildContext) -> None:
    board = work.store.current("leaderboard", study.study)
    if board is None:
        return
    rows = read_parquet(work.store.folder("leaderboard", board.identity) / "verdicts.parquet")
    verdict = {"exported": cell.key, **rows.row(0, named=True)}
    _write(folder / checksums.VERDICT, json.dumps(verdict, ensure_ascii=False, indent=1) + "\n")


def _write_texts(taken: _Taken, expected: list[revisions.ExpectedResult], folder: Path) -> None:
    prompts = {
        f"{revisions.PROMPTS}/{name}": text
        for name, text in revisions.prompt_files(taken.recipe.generator).items()
    }
    own = {name: path for name, path in taken.held.items() if name.startswith(revisions.PROMPTS)}
    prompts |= {name: path.read_text("utf-8-sig") for name, path in own.items()}
    write_recipe(taken.written, folder)
    for name, text in (prompts | written_texts(taken.recipe, expected, taken.used)).items():
        _write(folder / name, text)
    for name in (RECIPE, *prompts):
        if names := secrets_in((folder / name).read_text(encoding="utf-8")):
            raise InputError(
                f"{name} would hold the value of {', '.join(names)}; an export holds no secret: leave it to "
                "the environment"
            )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _current(stage: str, key: str, work: BuildContext) -> Artifact:
    artifact = work.store.current(stage, key)
    if artifact is None:
        raise AssayError(f"{stage} of {key} has gone while it was exported; run the study, and export again")
    return artifact


# The folder ------------------------------------------------------------------------------------------------


def _refuse_what_is_there(target: Path, *, force: bool) -> None:
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir() or target.is_symlink() or not is_export(target):
        raise InputError(f"{target} exists and is not an export; name another folder, or an empty one")
    added = checksums.added_names(target)
    if added:
        raise InputError(
            f"{target}: holds files that are no part of the export ({', '.join(added[:3])}); move them first"
        )
    if not force:
        raise InputError(f"{target}: holds an export; --force replaces it")


def is_export(folder: Path) -> bool:
    return (folder / checksums.SUMS).is_file() and (folder / RECIPE).is_file()


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex[:8]
    folder = target.with_name(f".{target.name}.{mark}.export")
    before = target.with_name(f".{target.name}.{mark}.before")
    folder.mkdir()
    try:
        yield folder
        if target.is_dir() and any(target.iterdir()):
            target.rename(before)
        folder.rename(target)
    finally:
        if before.exists() and not target.exists():
            before.rename(target)
        for one in (folder, before):
            shutil.rmtree(one, ignore_errors=True)
