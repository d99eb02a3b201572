"""What is known of a corpus: how much is in it, when it was built, whether it can be asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from rag_assay.evals.reporting.display import MISSING, count, several
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import NamedCorpus
from rag_assay.orchestration.terminal.cli_errors import console, text, width
from rag_assay.orchestration.terminal.turn_view import NARROWEST
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

NARROW = 100  # columns below which a corpus is some lines of its own


def show_corpora(found: Sequence[CorpusSummary], selected: str | None) -> None:
    out = console(width=width(NARROWEST))
    if out.width < NARROW:
        for at, one in enumerate(found, 1):
            mark = "*" if one.corpus.name == selected else " "
            out.print(text(f"{mark} {at} {one.corpus.name}", "bold"))
            out.print(text(f"    {sentence_of(one)}"))
            out.print(text(f"    {one.corpus.target}", "dim"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("", "corpus", "documents", "chunks", "MB", "embedder", "built", "from"):
        right = name in {"", "documents", "chunks", "MB"}
        table.add_column(
            name, justify="right" if right else "left", overflow="fold", no_wrap=name == "corpus"
        )
    for at, one in enumerate(found, 1):
        at_time = one.built_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.built_at else ""
        gone = "" if one.corpus.is_there else " (not there any more)"
        table.add_row(
            "*" if one.corpus.name == selected else "",
            str(at),
            text(one.corpus.name, "bold"),
            MISSING if one.documents is None else count(one.documents),
            MISSING if one.chunks is None else count(one.chunks),
            MISSING if one.size is None else f"{one.size / 1e6:.1f}",
            text(one.embedder or ""),
            text(at_time if one.is_ready else one.state),
            text(one.corpus.target + gone),
        )
    out.print(table)


def corpora_as_json(found: Sequence[CorpusSummary], selected: str | None) -> str:
    rows: list[dict[str, Any]] = [
        {
            "name": one.corpus.name,
            "selected": one.corpus.name == selected,
            "kind": one.corpus.kind,
            "target": one.corpus.target,
            "target_is_there": one.corpus.is_there,
            "state": one.state,
            "documents": one.documents,
            "chunks": one.chunks,
            "bytes": one.size,
            "embedder": one.embedder,
            "built_at": one.built_at.isoformat() if one.built_at else None,
            "study": one.study,
            "folder": str(one.corpus.folder),
        }
        for one in found
    ]
    return json.dumps(rows, indent=2)


def sentence_of(facts: CorpusSummary) -> str:
    """Say what is in a corpus, in a few words.

    >>> from rag_assay.orchestration.corpora.records import NamedCorpus
    >>> sentence_of(CorpusSummary(NamedCorpus(name="n", target="/t"), documents=2, chunks=9, size=1_500_000))
    '2 documents, 9 chunks, 1.5 MB'
    """
    if not facts.is_ready:
        return facts.state
    parts = [
        several(facts.documents, "document") if facts.documents is not None else "",
        several(facts.chunks, "chunk") if facts.chunks is not None else "",
        f"{facts.size / 1e6:.1f} MB" if facts.size is not None else "",
    ]
    return ", ".join(part for part in parts if part)


BUILT = ("pages", "documents", "chunks", "enrichments", "embeddings", "indexes")
"""The stages that a corpus is built by."""


@dataclass(frozen=True)
class CorpusSummary:
    """A corpus in figures.

    documents, chunks, size: None where it is not built; `size` in bytes, what several corpora share counted
        in each
    built_at: when its index was made
    embedder: of its first cell
    state: ready | not built | why it cannot be asked
    """

    corpus: NamedCorpus
    documents: int | None = None
    chunks: int | None = None
    size: int | None = None
    built_at: datetime | None = None
    embedder: str | None = None
    study: str | None = None
    state: str = "ready"

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"


def facts_of(corpus: NamedCorpus, home: Home) -> CorpusSummary:
    if corpus.kind == "export":
        return _of_export(corpus)
    try:
        study = read_study(corpus.study, sources_gone=True)
    except InputError as error:
        return CorpusSummary(corpus, state=error.findings[0])
    store = ArtifactStore(home)
    cell = first_cell(study, store)
    embedder = study.embedders[cell.embedder].model
    key = Grid([study]).index_key(cell)
    chunks = store.current("chunks", key.rpartition(".")[0])
    index = store.current("indexes", key)
    if chunks is None or index is None:
        return CorpusSummary(corpus, embedder=embedder, study=study.study, state="not built")
    stages = [store.current("embeddings", key), chunks, index]
    stages += [store.current("documents", source) for source in study.corpus.sources]
    return CorpusSummary(
        corpus,
        chunks.meta.get("documents"),
        chunks.meta.get("chunks"),
        sum(sum(one.files.values()) for one in stages if one),
        datetime.fromisoformat(index.created_at),
        embedder,
        study.study,
    )


def set_damaged_aside(study: Study, home: Home) -> int:
    """Set damaged artifacts of a corpus aside, so that a build makes them again; return how many."""
    store, grid = ArtifactStore(home), Grid([study])
    keys = sorted({grid.index_key(cell) for cell in study.cells() if cell.reads_ranking})
    names = {(stage, key) for key in keys for stage in ("embeddings", "indexes")}
    names |= {("chunks", key.rpartition(".")[0]) for key in keys}
    found = [artifact for stage, one in sorted(names) if (artifact := store.current(stage, one))]
    damaged = [artifact for artifact in found if store.damage(artifact)]
    for artifact in damaged:
        store.set_aside(artifact)
    return len(damaged)


def first_cell(study: Study, store: ArtifactStore | None = None) -> Cell:
    found = [cell for cell in study.cells() if cell.reads_ranking]
    if not found:
        raise InputError(f"{study.path}: no cell of the study can be asked")
    grid = Grid([study])
    there = (cell for cell in found if store and store.current("indexes", grid.index_key(cell)))
    return next(there, found[0])


def _of_export(corpus: NamedCorpus) -> CorpusSummary:
    from rag_assay.evals.export.checksums import INDEX
    from rag_assay.evals.export.recipe import asking_of, read_written

    folder = Path(corpus.target)
    try:
        asking_of(read_written(folder))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        at = datetime.fromtimestamp((folder / INDEX).stat().st_mtime).astimezone()
    except (InputError, OSError) as error:
        return CorpusSummary(corpus, state=" ".join(str(error).split()))
    from rag_assay.evals.retrieval.index import OpenIndex

    index = OpenIndex(folder / INDEX)
    return CorpusSummary(corpus, None, len(index), size, at, None, None)
