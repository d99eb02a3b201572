"""Reads chunks for embedding in blocks of bounded memory, after one pass that counts them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rag_assay.assets.chunking.document_chunks import naming_damage
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.identity import sha256_text

if TYPE_CHECKING:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder

ROWS = 8192  # chunks in a block at most
CHARACTERS = 32_000_000  # in a block, as soon as it has them
READ = 256  # chunks that are read at once
SAMPLE = 64  # texts on which a fast backend is compared

COLUMNS = ("chunk_id", "text", "prefix", "title", "keywords")


def blocks(path: Path) -> Iterator[pl.DataFrame]:
    """Yield the chunks (COLUMNS of schemas.CHUNKS) in their order, as many as ROWS and CHARACTERS allow."""
    import pyarrow.parquet

    held: list[pl.DataFrame] = []
    rows = characters = 0
    with naming_damage(path), pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(READ, columns=list(COLUMNS)):
            part = pl.DataFrame(pl.from_arrow(batch))
            held.append(part)
            rows, characters = rows + len(part), characters + int(part["text"].str.len_chars().sum())
            if rows >= ROWS or characters >= CHARACTERS:
                yield pl.concat(held)
                held, rows, characters = [], 0, 0
    if held:
        yield pl.concat(held)


def texts_of(chunks: pl.DataFrame, embedder: CachedEmbedder) -> list[str]:
    whole = (embedder.passage_prefix + chunks["prefix"] + chunks["text"]).to_list()
    return all_encodable(whole)


@dataclass
class Survey:
    """What there is to embed.

    texts: chunks; distinct: different texts; new: those without a cached vector
    too_long, longest: chunks over the limit, and most tokens; 0 if not ``counted``
    sample: hash -> text of some texts, stable between runs
    """

    texts: int = 0
    distinct: int = 0
    new: int = 0
    too_long: int = 0
    longest: int = 0
    counted: bool = True
    sample: dict[str, str] = field(default_factory=dict)


def survey(path: Path, embedder: CachedEmbedder) -> Survey:
    """Look through the chunks without embedding one; tokens of cached texts are not counted again."""
    found = Survey(counted=embedder.tokenizer is not None)
    all_keys, new_keys = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    embedder.cache.refresh()
    for chunks in blocks(path):
        texts = texts_of(chunks, embedder)
        hashes = [sha256_text(text) for text in texts]
        keys = np.array([int(name[:16], 16) for name in hashes], np.uint64)
        all_keys.append(keys)
        new_keys.append(keys[~embedder.cache.has(hashes)])
        counts = embedder.token_counts(texts, hashes)
        found.texts += len(texts)
        if counts is not None:
            found.too_long += int((counts > embedder.recipe.max_tokens).sum())
            found.longest = max(found.longest, int(counts.max(initial=0)))
        smallest = heapq.nsmallest(SAMPLE, {**found.sample, **dict(zip(hashes, texts, strict=True))}.items())
        found.sample = dict(smallest)
    found.distinct = len(np.unique(np.concatenate(all_keys)))
    found.new = len(np.unique(np.concatenate(new_keys)))
    return found
