"""How long it would take to embed the chunks of a corpus on this machine."""

from __future__ import annotations

import heapq
import time

from rag_assay.assets.embedding.blocks import blocks, texts_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.corpora.facts import first_cell
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.paths import Home

FEW = 64  # chunks that are embedded in any case before an estimate of them would be there
WARM, TIMED = 8, 32  # of the new chunks: embedded before the clock starts, and against it


def seconds_to_embed(study: Study, home: Home) -> float:
    """Return how long the model of a study needs for the chunks that have no vectors yet, measured on some.

    0 where there are few, where the chunks are not there, and where no model of this machine embeds.

    Raises:
        AssayError: the model cannot be loaded.
    """
    cell = first_cell(study)
    recipe = study.embedders[cell.embedder]
    store = ArtifactStore(home)
    chunks = store.current("chunks", Grid([study]).index_key(cell).rpartition(".")[0])
    if chunks is None or recipe.api is not None or isinstance(recipe, OtherEmbedder):
        return 0.0
    embedder = CachedEmbedder(recipe, home)
    embedder.cache.refresh()
    new, sample = 0, dict[str, str]()
    for part in blocks(store.folder("chunks", chunks.identity) / "chunks.parquet"):
        texts = texts_of(part, embedder)
        hashes = [sha256_text(text) for text in texts]
        known = embedder.cache.has(hashes)
        lacking = {key: text for key, text, has in zip(hashes, texts, known, strict=True) if not has}
        new += len(lacking)
        sample = dict(heapq.nsmallest(TIMED, {**sample, **lacking}.items()))  # as good as by lot
    if new <= FEW:
        return 0.0
    chosen = list(sample.values())
    embedder.embedder.embed(chosen[:WARM])
    begin = time.perf_counter()
    embedder.embedder.embed(chosen)
    return (time.perf_counter() - begin) / len(chosen) * new
