"""Opens an exported folder: checked, and then the same pipeline that the study's cell is.

Files are compared with their checksums; the recipe is read without the environment; weights come from the
registry or are safetensors of a known digest; model servers need the caller's trust, for they are sent the
key.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export import revisions
from rag_assay.evals.export.checksums import HEADINGS, INDEX, verify_checksums
from rag_assay.evals.export.recipe import ExportedRecipe, asking_of, read_recipe, read_written
from rag_assay.evals.pipeline.passages import Headings
from rag_assay.evals.pipeline.pipeline import Pipeline, make_ready, pipeline_of
from rag_assay.evals.pipeline.retrieval import open_tuned_retrieval
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.study.servers import asked_models, foreign_addresses, open_servers
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.inference.egress import allow, is_of_this_machine, origin
from rag_assay.warehouse.inference.local_llm import free_cores
from rag_assay.warehouse.inference.model_servers import UnknownServerError, destination
from rag_assay.warehouse.parquet import read_parquet


@dataclass(frozen=True)
class OpenedExport:
    """An exported folder that was checked."""

    folder: Path
    digest: str
    recipe: ExportedRecipe
    expected: tuple[revisions.ExpectedResult, ...]
    differences: tuple[str, ...]
    libraries: tuple[str, ...]


def read_export(
    folder: Path, work: BuildContext, trusted: Collection[str] = (), *, anyway: bool = False
) -> OpenedExport:
    """Check an exported folder and read its recipe; ``trusted``: addresses of model servers (scheme, host,
    port) that may be called.
    """
    digest = verify_checksums(folder)
    known = revisions.read_revisions(folder)
    written = read_written(folder)
    asking = asking_of(written)
    revisions.refuse_credentials(asking)
    found = revisions.located(asking, folder, work.home, known["models"])
    revisions.bring_models(revisions.used_models(found), folder, work.home)
    recipe = read_recipe({**written, **found}, folder)
    _refuse_strangers(recipe, folder, trusted)
    differing = revisions.differences(recipe, known)
    if differing and not anyway:
        raise InputError(
            *(f"{folder}: {one}" for one in differing),
            f"{folder}: its answers would not be those that were measured; export again with this version, "
            "or serve it all the same with --anyway",
        )
    expected = tuple(revisions.read_expected(folder))
    allow(map(origin, trusted))
    open_servers(recipe)
    return OpenedExport(
        folder, digest, recipe, expected, tuple(differing), tuple(revisions.other_libraries(known))
    )


def _refuse_strangers(recipe: ExportedRecipe, folder: Path, trusted: Collection[str]) -> None:
    try:
        known = {origin(one) for one in trusted}
    except ValueError as error:
        raise InputError(f"--trust: {error}") from None
    found: dict[str, None] = {}
    for model, address in asked_models(recipe):
        try:
            origins = destination(model, address).origins
        except UnknownServerError as error:
            found[f"{folder}: {error}"] = None
            continue
        if address and not is_of_this_machine(address) and not origins <= known:
            sent = f"would send questions, passages and the key of its provider to {address}"
            found[f"{folder}: {sent}; --trust {address} allows that"] = None
    for one in foreign_addresses(recipe):
        if one.origin is None:
            found[f"{folder}: {one.kind} ({one.package}) names a server by what is not an address"] = None
        elif one.origin not in known and not is_of_this_machine(one.origin):
            named = f"a parameter of {one.kind} ({one.package}) names {one.origin}"
            sent = f"where it may send questions and passages; --trust {one.origin} allows that"
            found[f"{folder}: {named}, {sent}"] = None
    if found:
        raise InputError(*found)


def open_export(export: OpenedExport, work: BuildContext, caps: Caps | None = None) -> Pipeline:
    resources = work.resource(RunResources)
    resources.local_threads = free_cores()  # somebody waits for one answer
    parts = export.recipe.parts(caps)
    index = OpenIndex(export.folder / INDEX)
    retrieval = open_tuned_retrieval(parts, index, export.digest, work)
    make_ready(retrieval)
    return pipeline_of(parts, retrieval, _headings(export), work)


def open_exported(folder: Path, work: BuildContext) -> Pipeline:
    return open_export(read_export(folder, work), work)


def _headings(export: OpenedExport) -> Headings | None:
    generator = export.recipe.generator
    if generator is None or not generator.chat:
        return None
    found = read_parquet(export.folder / HEADINGS, ["chunk_id", "heading_path"])
    return {chunk: tuple(path or ()) for chunk, path in found.iter_rows()}
