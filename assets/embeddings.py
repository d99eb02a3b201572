"""embeddings: the chunks as vectors, one partition a corpus, chunking and embedder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from assets.chunks import tokenizer_of
from assets.embedding.cached import CachedEmbedder
from assets.merging import Build
from assets.stage import Built, Check, Need, Stage, Work
from warehouse.errors import AssayError
from warehouse.identity import digest, digest_strings
from warehouse.parquet import read_parquet, write_parquet


class Embeddings(Stage):
    """Embeds every chunk; texts that were embedded before come from the vector cache."""

    name = "embeddings"
    group = "corpus"
    description = (
        "One unit vector a chunk, by a sentence-transformers model. A text is embedded once a revision, "
        "whatever chunking or study it comes from. Stored: Parquet, and the vector cache."
    )
    upstream = ("chunks",)
    checks: ClassVar[dict[str, str]] = {
        "chunks_fit": "Every chunk fits into what the model reads, unless the recipe truncates or averages."
    }

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        """Return `corpus.chunking.embedder` keys."""
        return sorted(self.build_plan.indexes)

    def needs(self, key: str) -> list[Need]:
        """Return the chunks."""
        return [Need("chunks", key.rpartition(".")[0])]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of the embedder."""
        name = self.build_plan.indexes[key][2]
        recipe = self.build_plan.embedders[name]
        return {f"embedder.{name}": digest([recipe.revision(), recipe.passage_prefix])}

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Embed the chunks of one chunking."""
        recipe = self.build_plan.embedders[self.build_plan.indexes[key][2]]
        (artifact,) = self.inputs(key, work.store)
        chunks = read_parquet(work.store.folder("chunks", artifact.identity) / "chunks.parquet")
        tokenizer = tokenizer_of(recipe.model, work)
        embedded_texts = (chunks["prefix"] + chunks["text"]).to_list()
        texts = [recipe.passage_prefix + text for text in embedded_texts]
        counts = np.array(tokenizer.count(texts), np.int64) + tokenizer.special_tokens
        too_long, longest = int((counts > recipe.max_tokens).sum()), int(counts.max(initial=0))
        if too_long and recipe.overflow == "fail":
            raise AssayError(
                f"embeddings of {key}: {too_long} of {len(chunks)} chunks are longer than the "
                f"{recipe.max_tokens} tokens that the embedder reads (longest: {longest}, special tokens "
                "included). Make the chunks smaller, raise max_tokens if the model allows it, or say "
                "`overflow: truncate` or `overflow: average`."
            )
        embedded = CachedEmbedder(recipe, work.home).passages(
            embedded_texts, lambda done, of: work.progress(f"embedding {key}", done, of)
        )
        dimensions = embedded.vectors.shape[1]
        vectors = pl.Series("vector", embedded.vectors, dtype=pl.Array(pl.Float32, dimensions))
        write_parquet(chunks.select("chunk_id").with_columns(vectors), folder / "embeddings.parquet")
        meta = {
            "chunks": len(chunks),
            "embedded_now": embedded.computed,
            "from_cache": len(set(texts)) - embedded.computed,
            "dimensions": dimensions,
            "too_long": too_long,
        }
        check = Check(
            "chunks_fit",
            too_long == 0 or recipe.overflow != "fail",
            f"{too_long} of {len(chunks)} chunks are longer than {recipe.max_tokens} tokens "
            f"(overflow: {recipe.overflow})",
            {"longest": longest},
        )
        version = digest([recipe.revision(), digest_strings(chunks["chunk_id"])])
        return Built(version, meta, (check,))
