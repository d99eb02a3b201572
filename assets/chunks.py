"""chunks: documents cut up, one partition a corpus and chunking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.chunking import Tools
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.row_checks import at_most
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.engine.table import StageTable, distribution
from rag_assay.assets.recipes.build_half import Build, Chunking
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.identity import digest, digest_strings
from rag_assay.warehouse.parquet import write_batches, write_parquet
from rag_assay.warehouse.schemas import CHUNKS

if TYPE_CHECKING:
    from rag_assay.assets.chunking.document_chunks import Earlier

COPIES_AT_MOST = 0.1  # of the documents, without a warning


class Chunks(Stage):
    """Cuts the documents of a corpus by one chunking."""

    name = "chunks"
    group = "corpus"
    description = (
        "A corpus' documents cut by one chunking. Offsets are exact: document.text[start:end] == text; "
        "ids follow from document, version and offsets. Stored: Parquet; beside it duplicates.parquet links "
        "copies of a document to the first one, the only one that is cut where the corpus asks for that."
    )
    table = StageTable(
        "chunks.parquet",
        CHUNKS,
        ("title", "ordinal", "n_tokens", "text"),
        (distribution("tokens of a chunk", "n_tokens"),),
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "parquet"})
    code_version = "3"
    upstream = ("documents",)
    family = "chunkings"
    blocking: ClassVar[frozenset[str]] = frozenset({"exact_offsets"})
    checks: ClassVar[dict[str, str]] = {
        "exact_offsets": "Every chunk is the text at its offsets in its document: evidence is measured "
        "by offsets.",
        "covered": "Every document has at least one chunk; what has none is never found.",
        "few_copies": f"At most {COPIES_AT_MOST:.0%} of the documents are copies of others that are searched "
        "too; copies take places in the rankings.",
    }

    def __init__(self, build: Build) -> None:
        self.build_plan = build

    def keys(self) -> list[str]:
        return sorted(self.build_plan.chunk_sets)

    def needs(self, key: str) -> list[PartitionRef]:
        corpus, _ = self.build_plan.chunk_sets[key]
        return [PartitionRef("documents", source) for source in self.build_plan.corpora[corpus].sources]

    def recipes(self, key: str) -> dict[str, str]:
        corpus, chunking = self.build_plan.chunk_sets[key]
        return {
            f"chunking.{chunking}": self.build_plan.chunkings[chunking].identity(),
            **self.build_plan.corpora[corpus].recipes(),
        }

    def pool(self) -> str | None:
        chunkers = (one.chunker for one in self.build_plan.chunkings.values())
        return LOCAL_MODEL if any(one.embedding_model for one in chunkers) else None

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.assets.chunking.document_chunks import chunk_batches
        from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates

        corpus, chunking = self.build_plan.chunk_sets[key]
        recipe = self.build_plan.chunkings[chunking]
        threshold = self.build_plan.corpora[corpus].near_duplicates
        inputs = self.inputs(key, work.store)
        documents = corpus_documents(inputs, work)
        duplicates = corpus_duplicates(inputs, documents, threshold, work)
        write_parquet(duplicates, folder / "duplicates.parquet")
        if threshold is not None:
            documents = documents.join(duplicates, on="doc_id", how="anti")
        tally = _Tally(documents)
        cut_by = digest([self.code_version, recipe.identity()])
        batches = chunk_batches(
            documents,
            recipe.chunker,
            _tools(recipe, work),
            _earlier(work.store.current(self.name, key), cut_by, work),
        )
        write_batches(
            tally.counted(batches, lambda done, of: work.progress(f"chunking {key}", done, of)),
            CHUNKS,
            folder / "chunks.parquet",
        )
        if not tally.chunks:
            raise AssayError(f"chunks of {key}: the corpus has no text to cut")
        tokens = np.concatenate(tally.tokens)
        meta = {
            "cut_by": cut_by,
            "sources": list(self.build_plan.corpora[corpus].sources),
            "chunks": tally.chunks,
            "documents": len(documents),
            "duplicates": {
                "exact": int(duplicates["exact"].sum()),
                "near": int((~duplicates["exact"]).sum()),
                "left_out": len(duplicates) if threshold is not None else 0,
            },
            "tokens_mean": round(float(tokens.mean()), 1),
            "tokens_median": float(np.median(tokens)),
            "tokens_max": int(tokens.max()),
        }
        copies = duplicates["doc_id"].to_list() if threshold is None else []
        checks = (
            *tally.checks(),
            at_most("few_copies", COPIES_AT_MOST, copies, len(documents), "documents are copies"),
        )
        return BuildResult(digest_strings(pl.concat(tally.versions)), meta, checks)


def _earlier(before: Artifact | None, cut_by: str, work: BuildContext) -> Earlier | None:
    from rag_assay.assets.chunking.document_chunks import Earlier

    if before is None or before.meta.get("cut_by") != cut_by:
        return None
    try:
        return Earlier(work.store.folder(before.stage, before.identity) / "chunks.parquet")
    except CorruptFileError:
        return None


@dataclass
class _Tally:
    """What is kept of each batch of chunks once it is written; ``versions`` are digested."""

    documents: pl.DataFrame
    versions: list[pl.Series] = field(default_factory=list)
    tokens: list[npt.NDArray[np.int64]] = field(default_factory=list)
    chunks: int = 0
    bad_offsets: list[str] = field(default_factory=list)
    with_chunks: set[str] = field(default_factory=set)

    def counted(
        self, batches: Iterable[pl.DataFrame], progress: Callable[[int, int], None]
    ) -> Iterator[pl.DataFrame]:
        columns = ["chunk_id", "doc_version", "prefix", "context_start", "context_end"]
        done = 0
        for batch in batches:
            self.versions.append(batch.select(pl.concat_str(columns, separator="\x1f")).to_series())
            self.tokens.append(batch["n_tokens"].to_numpy())
            self.chunks += len(batch)
            ids = batch["doc_id"].unique()
            self.bad_offsets += _bad_offsets(self.documents.filter(pl.col("doc_id").is_in(ids)), batch)
            self.with_chunks.update(ids)
            done += len(ids)
            progress(done, len(self.documents))
            yield batch

    def checks(self) -> tuple[Check, ...]:
        rows = self.documents.select("doc_id", "url").iter_rows()
        without = [str(url) for doc_id, url in rows if doc_id not in self.with_chunks]
        bad = self.bad_offsets
        return (
            at_most("exact_offsets", 0, bad, self.chunks, "chunks differ from their document", severe=True),
            at_most("covered", 0, without, len(self.documents), "documents have no chunk"),
        )


def _tools(recipe: Chunking, work: BuildContext) -> Tools:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder

    tokenizer = tokenizer_of(recipe.tokenizer, work.home, lambda text: work.progress(text, 0, 0))
    model = recipe.chunker.embedding_model
    if model is None:
        return Tools(tokenizer)
    # A group of long sentences is more than the model reads: its windows are averaged, none is left out.
    embedder = CachedEmbedder(EmbedderRecipe(model=model, overflow="average"), work.home)
    label = f"embedding sentences by {model}"
    return Tools(
        tokenizer,
        lambda texts: embedder.passages(texts, lambda done, of: work.progress(label, done, of)).vectors,
    )


def _bad_offsets(documents: pl.DataFrame, chunks: pl.DataFrame) -> list[str]:
    texts = dict(documents.select("doc_id", "text").iter_rows())
    rows = chunks.select("chunk_id", "doc_id", "start", "end", "text").iter_rows()
    return [chunk for chunk, doc, start, end, text in rows if texts[doc][start:end] != text]
