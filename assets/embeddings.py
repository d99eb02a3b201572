"""embeddings: the chunks as vectors, one partition a corpus, chunking and embedder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rag_assay.assets.embedding.blocks import ROWS, Survey, blocks, survey, texts_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.assets.embedding.windows import first_windows
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.engine.table import StageTable
from rag_assay.assets.enrichment.similarity import similarities, tags_text
from rag_assay.assets.indexing.index_rows import QUESTIONS
from rag_assay.assets.recipes.build_half import Build, may_cost
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest, sha256_text
from rag_assay.warehouse.parquet import read_parquet, write_batches
from rag_assay.warehouse.schemas import EMBEDDINGS, Schema

CLOSE = 0.999  # least cosine of a fast backend's vector and that of fp32


CUT_AT_MOST = 0.1  # of the chunks, without a warning


class Embeddings(Stage):
    """Embeds every chunk; texts that were embedded before come from the vector cache."""

    name = "embeddings"
    group = "corpus"
    description = (
        "One vector a chunk, by a sentence-transformers model or an API, and one a question that enrichment "
        "wrote, where those are indexed. A text is embedded once a revision, whatever chunking or study it "
        "comes from. Stored: Parquet, and the vector cache."
    )
    table = StageTable("embeddings.parquet", EMBEDDINGS, ())
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "sentence-transformers", "parquet"})
    code_version = "2"
    upstream = ("chunks", "enrichments")
    family = "embedders"
    checks: ClassVar[dict[str, str]] = {
        "chunks_fit": "Every chunk fits into what the model reads; else nothing is embedded, unless the "
        "recipe truncates or averages.",
        "few_truncated": f"At most {CUT_AT_MOST:.0%} of the chunks are cut before they are embedded; what is "
        "cut off is not found by its vector.",
        "close_to_fp32": f"The vectors of a faster backend have a cosine of at least {CLOSE} to fp32.",
    }

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        return sorted(self.build_plan.indexes)

    def needs(self, key: str) -> list[PartitionRef]:
        chunks = key.rpartition(".")[0]
        return [
            PartitionRef("chunks", chunks),
            *([PartitionRef("enrichments", chunks)] if self._asks(key) else []),
        ]

    def recipes(self, key: str) -> dict[str, str]:
        name = self.build_plan.indexes[key][2]
        recipe = self.build_plan.embedders[name]
        asking = {f"embedder.{name}.questions": recipe.query_revision()} if self._asks(key) else {}
        return {f"embedder.{name}": recipe.passage_revision(), **asking}

    def _asks(self, key: str) -> bool:
        recipe = self.build_plan.chunkings.get(self.build_plan.indexes[key][1])
        return recipe is not None and recipe.enrich is not None and recipe.enrich.index

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        return may_cost(self.build_plan.embedders[self.build_plan.indexes[key][2]])

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        """Embed the chunks of one chunking; nothing is embedded when a chunk is too long and may not be."""
        recipe = self.build_plan.embedders[self.build_plan.indexes[key][2]]
        artifact, *enriched = self.inputs(key, work.store)
        path = work.store.folder("chunks", artifact.identity) / "chunks.parquet"
        embedder = CachedEmbedder(recipe, work.home, lambda text: work.progress(text, 0, 0))
        embedder.cache.compact()
        found = survey(path, embedder)
        fit = self._fit(key, recipe, found)
        if not fit.passed:
            return BuildResult(
                digest([recipe.passage_revision(), artifact.data_version, "too long"]),
                {"chunks": found.texts, "too_long": found.too_long, "incomplete": fit.description},
                (fit,),
                complete=False,
            )
        writing = _Writing(embedder, key, work, found.new)
        frames = writing.frames(path)
        first = next(frames, None)
        if first is None:
            raise AssayError(f"embeddings of {key}: there are no chunks")
        schema: Schema = {**EMBEDDINGS, "vector": first.schema["vector"]}
        write_batches(chain([first], frames), schema, folder / "embeddings.parquet")
        meta = {
            "chunks": found.texts,
            "embedded_now": writing.computed,
            "from_cache": found.distinct - writing.computed,
            "dimensions": writing.dimensions,
            "too_long": found.too_long,
        }
        for questions in enriched:
            meta["questions"] = _write_questions(questions, embedder, folder, work)
            writing.content.update(f"{questions.data_version} {recipe.query_revision()}".encode())
        cut = found.too_long if recipe.overflow == "truncate" else 0
        message = f"{cut} of {found.texts} chunks were cut at {recipe.max_tokens} tokens"
        numbers = {"count": cut, "of": found.texts, "threshold": CUT_AT_MOST, "longest": found.longest}
        few = Check("few_truncated", cut <= CUT_AT_MOST * found.texts, message, numbers, severe=False)
        checks = [fit, few]
        if recipe.dtype != "fp32":
            facts, close = _closeness(embedder, found)
            meta |= facts
            checks.append(close)
        version = digest([recipe.passage_revision(), writing.content.hexdigest()])
        return BuildResult(version, meta, tuple(checks))

    def _fit(self, key: str, recipe: EmbedderRecipe, found: Survey) -> Check:
        _, chunking, name = self.build_plan.indexes[key]
        known = self.build_plan.chunkings.get(chunking)
        cutter = f"the chunking `{chunking}`" + (f" (chunker `{known.chunker.kind}`)" if known else "")
        model = f"the embedder `{name}` ({recipe.model})"
        if not found.counted:
            message = f"the tokens of {cutter} are not counted for {model}: its api names no tokenizer"
            return Check("chunks_fit", True, message)
        message = (
            f"{found.too_long} of {found.texts} chunks of {cutter} are longer than the {recipe.max_tokens} "
            f"tokens that {model} reads (overflow: {recipe.overflow}; longest: {found.longest}, special "
            "tokens included)"
        )
        passed = not found.too_long or recipe.overflow != "fail"
        if not passed:
            message += (
                ". Make the chunks smaller, raise max_tokens if the model allows it, or say "
                "`overflow: truncate` or `overflow: average`"
            )
        return Check("chunks_fit", passed, message, {"longest": found.longest})


@dataclass
class _Writing:
    """Turns blocks of chunks into blocks of vectors; its numbers are known after the last frame."""

    embedder: CachedEmbedder
    key: str
    work: BuildContext
    new: int
    computed: int = 0
    dimensions: int = 0
    content: Any = field(default_factory=hashlib.sha256)

    def frames(self, path: Path) -> Iterator[pl.DataFrame]:
        for chunks in blocks(path):
            texts = texts_of(chunks, self.embedder)
            embedded = self.embedder.embed(texts, self._tell)
            self.computed += embedded.computed
            self.dimensions = embedded.vectors.shape[1]
            titles, tags = self._others(chunks)
            for parts in zip(chunks["chunk_id"].to_list(), texts, titles, tags, strict=True):
                self.content.update(
                    f"{parts[0]} {' '.join(sha256_text(p or '') for p in parts[1:])}\n".encode()
                )
            yield pl.DataFrame(
                {
                    "chunk_id": chunks["chunk_id"],
                    "vector": embedded.vectors,
                    "title_similarity": self._similar(embedded.vectors, titles),
                    "tags_similarity": self._similar(embedded.vectors, tags),
                },
                schema={**EMBEDDINGS, "vector": pl.Array(pl.Float32, self.dimensions)},
            )

    def _tell(self, done: int, _of: int) -> None:
        of = max(self.new, self.computed + done)
        self.work.progress(f"embedding {self.key}", self.computed + done, of)

    def _others(self, chunks: pl.DataFrame) -> tuple[list[str | None], list[str | None]]:
        if not self.embedder.recipe.similarities:
            return [None] * len(chunks), [None] * len(chunks)
        return chunks["title"].to_list(), [tags_text(tags) for tags in chunks["keywords"].to_list()]

    def _similar(self, vectors: Matrix, others: list[str | None]) -> list[float | None]:
        return similarities(vectors, others, self._embed)

    def _embed(self, texts: list[str]) -> Matrix:
        tokenizer, recipe = self.embedder.tokenizer, self.embedder.recipe
        whole = [self.embedder.passage_prefix + text for text in texts]
        if tokenizer is not None and recipe.overflow == "fail":
            whole = first_windows(whole, tokenizer, recipe.max_tokens - tokenizer.special_tokens)
        label = f"embedding titles and tags of {self.key}"
        return self.embedder.embed(whole, lambda done, of: self.work.progress(label, done, of)).vectors


def _write_questions(enriched: Artifact, embedder: CachedEmbedder, folder: Path, work: BuildContext) -> int:
    path = work.store.folder(enriched.stage, enriched.identity) / "enrichments.parquet"
    is_question = pl.col("kind") == "question"
    rows = read_parquet(path, ["chunk_id", "kind", "text"]).filter(is_question & pl.col("text").is_not_null())

    def frames() -> Iterator[pl.DataFrame]:
        for part in rows.iter_slices(ROWS):
            vectors = embedder.queries(part["text"].to_list()).vectors
            kind = pl.Array(pl.Float32, vectors.shape[1])
            yield part.select("chunk_id").with_columns(pl.Series("vector", vectors, dtype=kind))

    blocks_of = frames()
    first = next(blocks_of, None)
    if first is not None:
        write_batches(chain([first], blocks_of), dict(first.schema), folder / QUESTIONS)
    return len(rows)


def _closeness(embedder: CachedEmbedder, found: Survey) -> tuple[dict[str, Any], Check]:
    texts = list(found.sample.values())
    plain = CachedEmbedder(embedder.recipe.model_copy(update={"dtype": "fp32"}), embedder.home)
    one, other = embedder.embed(texts).vectors, plain.embed(texts).vectors
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.einsum("ij,ij->i", one, other) / np.maximum(lengths, 1e-12)
    least, mean = float(cosines.min()), float(cosines.mean())
    facts = {
        "fp32_cosine_min": round(least, 6),
        "fp32_cosine_mean": round(mean, 6),
        "fp32_sample": len(texts),
    }
    message = (
        f"cosine of {embedder.recipe.dtype} and fp32 vectors of {len(texts)} texts: {least:.5f} at least, "
        f"{mean:.5f} on average; {CLOSE} is wanted"
    )
    return facts, Check("close_to_fp32", least >= CLOSE, message, facts, severe=False)
