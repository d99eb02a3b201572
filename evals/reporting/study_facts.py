"""Facts of a study for its report: corpus, recipes, warnings of its stages."""

from __future__ import annotations

import os
import platform
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from rag_assay.evals.reporting.data import ChunkingFacts, Duplicates, Provenance, SourceFacts
from rag_assay.evals.spreadsheet_import.bundle import axis_words, sheet_facts
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.components import as_written
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

STATUSES = frozenset(Status)
NOTES = 3  # on each sheet
_UNUSABLE = {Status.PARSE_FAILED: "gave no text", Status.TRUNCATED: "were cut"}


@dataclass(frozen=True)
class StudyFacts:
    """What the stages of a study have stored about it; planned: how many cells the study has.

    recipes: name of a retriever, embedder, generator or judge -> its recipe as YAML, with what was tuned
    warnings: a sentence for each check that failed, and for what else a reader must know
    """

    corpus: tuple[SourceFacts, ...]
    chunkings: tuple[ChunkingFacts, ...]
    recipes: Mapping[str, str]
    warnings: tuple[str, ...]
    duplicates: Duplicates | None = None
    planned: int = 0


def study_facts(study: Study, store: ArtifactStore) -> StudyFacts:
    grid = Grid([study])
    return StudyFacts(
        corpus=tuple(_source_facts(store, name) for name in study.corpus.sources),
        chunkings=tuple(_chunking_facts(study, store)),
        recipes=_recipes(study, grid, store),
        warnings=tuple(_warnings(study, grid, store)),
        duplicates=_duplicates(study, store),
        planned=len(study.cells()),
    )


def _duplicates(study: Study, store: ArtifactStore) -> Duplicates | None:
    for chunking in study.chunkings:
        found = _meta(store.current("chunks", f"{study.corpus.name}.{chunking}")).get("duplicates")
        if found is not None:
            counts = (found["exact"], found["near"], found["left_out"])
            return Duplicates(*counts, study.corpus.near_duplicates)
    return None


def _source_facts(store: ArtifactStore, source: str) -> SourceFacts:
    crawled, read = store.current("pages", source), store.current("documents", source)
    pages, documents = _meta(crawled), _meta(read)
    ended = (pages.get("crawl") or {}).get("ended_at") or (crawled.created_at if crawled else None)
    return SourceFacts(
        source=source,
        pages=pages.get("pages", 0),
        documents=documents.get("documents", 0),
        dropped=documents.get("dropped_by_reason", {}),
        failed=pages.get("failed", {}),
        crawled=str(ended) if ended else None,
        digest=read.data_version if read else None,
    )


def _meta(artifact: Artifact | None) -> dict[str, Any]:
    return artifact.meta if artifact else {}


def _chunking_facts(study: Study, store: ArtifactStore) -> list[ChunkingFacts]:
    found = []
    for name, chunking in study.chunkings.items():
        meta = _meta(store.current("chunks", f"{study.corpus.name}.{name}"))
        keys = (f"{study.corpus.name}.{name}.{embedder}" for embedder in study.embedders)
        long = [_meta(store.current("embeddings", key)).get("too_long", 0) for key in keys]
        if meta:
            recipe = _yaml(as_written(chunking.chunker))
            names = ("chunks", "tokens_mean", "tokens_median", "tokens_max")
            counts: list[Any] = [*(meta[one] for one in names), max(long, default=0)]
            found.append(ChunkingFacts(name, recipe, *counts))
    return found


def _recipes(study: Study, grid: Grid, store: ArtifactStore) -> dict[str, str]:
    recipes = {
        name: _yaml(recipe.model_dump(mode="json", exclude_defaults=True))
        for name, recipe in study.embedders.items()
    }
    for name, part in {**study.retrievers, **study.generators, **study.judges}.items():
        recipes[name] = _yaml(as_written(part, exclude_none=True))
    if isinstance(study, ImportedStudy):
        recipes |= _said(study)
    for ranking, cell in grid.rankings.items():
        meta = _meta(store.current("rankings", ranking))
        for tuned in meta.get("tuned", ()):
            sentence = _tuned(tuned, meta.get("train_questions_left_out", 0))
            recipes[cell.retriever] += f"\n# {cell.chunking}, {cell.embedder}: {sentence}"
    for key in grid.answered():
        gate = _meta(store.current("answers", key)).get("gate")
        if gate:
            cell = grid.cells[key]
            place = f"{cell.chunking}, {cell.embedder}, {cell.retriever}"
            recipes[cell.generator] += f"\n# {place}: {_gate(gate)}"
    return recipes


def _said(study: ImportedStudy) -> dict[str, str]:
    found: dict[str, dict[str, str]] = {name: {} for name in study.generators}
    for (axis, name), words in axis_words(study.folder).items():
        found.setdefault(name, {})[axis] = words
    return {name: _yaml({"imported": words}) for name, words in found.items()}


def _tuned(chosen: dict[str, Any], left_out: int) -> str:
    """chosen: `evals.retrieval.fusion_tuning.Chosen`"""
    weights = " : ".join(f"{weight:.3f}" for weight in chosen["weights"])
    arms = " : ".join(chosen["arms"])
    return (
        f"weights {weights} ({arms}) were chosen on {chosen['questions']} train questions, "
        f"by {chosen['metric']} {chosen['value']:.4f} there"
        + (f"; {left_out} that are test questions, too, were left out" if left_out else "")
    )


def _gate(found: dict[str, Any]) -> str:
    """found: `evals.generation.gate.FittedThreshold`"""
    left_out = found.get("train_questions_left_out", 0)
    return (
        f"gate at {found['feature']} {found['threshold']:.4g}, fitted on rankings of train questions: "
        f"{found['answerable']} with an answer in the documents, {found['unanswerable']} without; "
        f"balanced accuracy {found['value']:.4f} there"
        + (f"; {left_out} that are test questions, too, were left out" if left_out else "")
    )


def weight_digests(study: Study) -> dict[str, str]:
    """Return model -> digest of its weights, of the embedders that run here."""
    local = {one.model: one.weights_identity() for one in study.embedders.values() if one.api is None}
    return dict(sorted(local.items()))


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None).strip()


def _warnings(study: Study, grid: Grid, store: ArtifactStore) -> list[str]:
    keys = {
        "pages": list(study.corpus.sources),
        "documents": list(study.corpus.sources),
        "chunks": study.chunk_sets(),
        "embeddings": study.indexes(),
        "indexes": study.indexes(),
        "questions": grid.set_keys(study.study),
    }
    found = []
    for stage, names in keys.items():
        for name in names:
            checks = _meta(store.current(stage, name)).get("checks", ())
            found += [f"{stage} of {name}: {check['description']}" for check in checks if not check["passed"]]
    rankings = {key: _meta(store.current("rankings", key)) for key in study.rankings()}
    answers = {key: _meta(store.current("answers", key)) for key in grid.answered()}
    timed = [*_several_machines("rankings", rankings), *_several_machines("answers", answers)]
    found += [*_stood_in(rankings), *_busy(rankings), *timed]
    return [*found, *_of_sheets(study), *_unusable(study, store)]


def _of_sheets(study: Study) -> list[str]:
    found = []
    for sheet in sheet_facts(study.folder) if isinstance(study, ImportedStudy) else ():
        what = f"the sheet {sheet.name} ({sheet.file})"
        if sheet.rejects:
            n_rejects = len(sheet.rejects)
            found.append(f"{what}: {n_rejects} reasons why rows were skipped, first: {sheet.rejects[0]}")
        found += [f"{what}: {note}" for note in sheet.notes[:NOTES]]
        if len(sheet.notes) > NOTES:
            found.append(f"{what}: {len(sheet.notes) - NOTES} further notes in its sheet.json")
    return found


def _unusable(study: Study, store: ArtifactStore) -> list[str]:
    found = []
    for cell in study.runs():
        meta = _meta(store.current("answers", cell.key))
        counts = {status: n for status, n in meta.get("by_status", {}).items() if status in _UNUSABLE}
        if counts:
            listed = ", ".join(f"{n} {_UNUSABLE[status]}" for status, n in counts.items())
            found.append(f"answers of {cell.key}: {listed}, of {meta.get('questions')}")
    return found


def _stood_in(rankings: dict[str, dict[str, Any]]) -> list[str]:
    found = []
    for key, meta in rankings.items():
        known = meta.get("understanding", {}).items()
        counts = {status: n for status, n in known if status.split(": ")[1] in STATUSES}
        if counts:
            listed = ", ".join(f"{status} ({n})" for status, n in counts.items())
            found.append(f"rankings of {key}: rules stood in where a model's output was of no use: {listed}")
    return found


def _busy(rankings: dict[str, dict[str, Any]]) -> list[str]:
    checks = [check for meta in rankings.values() for check in meta.get("checks", ())]
    busy = sum(check["name"] == "quiet_machine" and not check["passed"] for check in checks)
    sentence = "are too high: other work held the processors meanwhile"
    return [f"the latencies of {busy} of {len(rankings)} rankings {sentence}"] if busy else []


def _several_machines(stage: str, metas: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say where latencies of a stage were measured on several classes of machines.

    >>> small, large = {"machines": ["small"]}, {"machines": ["large"]}
    >>> print(*_several_machines("rankings", {"a": small, "b": large, "c": small, "d": {}}))
    latencies of rankings cannot be compared across classes of machines: 2 were measured on small, 1 on large
    >>> _several_machines("rankings", {"a": small, "c": small, "d": {}})
    []
    """
    counts = Counter(" and ".join(meta["machines"]) for meta in metas.values() if meta.get("machines"))
    if len({one for meta in metas.values() for one in meta.get("machines", ())}) < 2:
        return []
    (most, n), *others = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join([f"{n} were measured on {most}", *(f"{few} on {name}" for name, few in others)])
    return [f"latencies of {stage} cannot be compared across classes of machines: {listed}"]


def provenance(study: Study, digests: Sequence[str | None], board: pl.DataFrame) -> Provenance:
    """digests: of the documents of each source; board: schemas.LEADERBOARD"""
    ids = board.drop_nulls("cell_id").select("cell", "cell_id").unique("cell").iter_rows()
    name = study.slice.whole if study.slice else study.study
    return Provenance(
        digest([*digests]) if digests and all(digests) else None,
        machine(),
        {cell.name: command(name, cell.name.partition(".")[2]) for cell in study.cells()},
        dict(ids),
    )


def command(study: str, cell: str) -> str:
    return shlex.join(["assay", "run", study, "--cells", cell])


def machine() -> dict[str, str]:
    lines = _lines(Path("/proc/cpuinfo"))
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    found = {
        "processor": (named[0] if named else platform.processor()),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": _memory(),
        "graphics processors": ", ".join(_graphics()) or "none",
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    return {name: value for name, value in found.items() if value}


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system says it
        return ""
    return f"{size / 2**30:.1f} GiB"


def _graphics() -> Sequence[str]:
    found = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for path in found for line in _lines(path) if line.startswith("Model:")]
    return [line.partition(":")[2].strip() for line in lines]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
