"""What is known of a corpus: how much is in it, when it was built, whether it can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import NamedCorpus
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

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
        """Whether it can be asked."""
        return self.state == "ready"


def facts_of(corpus: NamedCorpus, home: Home) -> CorpusSummary:
    """Return what is known of a corpus; what is wrong with it is its state."""
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
    """Let what is damaged of a corpus not count any longer, so that a build makes it again; return how many.

    Building stops at the index, and reads none: a run of the grid finds damage when it searches.
    """
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
    """Return the first cell of a study that answers questions from passages.

    store: where the index of a cell may lie: the first one that has one goes before the others, as that of
        words does until meanings are embedded
    """
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
