"""A corpus of any size for `benchmarks.scale`: chunks of generated text, and vectors that lie in clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.parquet import frame, write_batches
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS, Schema

DIMENSIONS = 384
GROUP = 8_192
KEY = "bench.generated.clustered"
TOPIC = 500  # chunks of a topic: their vectors lie around one centre
NOISE = 0.8  # length of what is added to a centre of length 1: two chunks of a topic have a cosine near 0.6
RARE = 10_000_000  # words that can occur
_ASKED = 12  # groups of which questions are asked
_KNOWN = 200_000  # words that are written once

Vectors = npt.NDArray[np.float32]


def chunks(count: int, groups: Sequence[int] | None = None) -> Iterator[pl.DataFrame]:
    """Yield chunks of 40 to 160 words; their frequencies fall as rank^-1.5, so that new ones never end."""
    known = [f"w{number}" for number in range(_KNOWN)]
    for first in range(0, count, GROUP) if groups is None else groups:
        random = np.random.default_rng(first)
        size = min(GROUP, count - first)
        lengths = random.integers(40, 160, size)
        drawn = np.minimum(10 * random.pareto(0.5, lengths.sum()), 1e15).astype(np.int64) % RARE
        texts = np.split(drawn, np.cumsum(lengths)[:-1])
        rows: list[dict[str, object]] = [
            {
                "chunk_id": chunk_id(number),
                "doc_id": f"{number // 10:08}",
                "ordinal": number % 10,
                "start": 1_000 * (number % 10),
                "end": 1_000 * (number % 10) + 900,
                "context_start": 1_000 * (number % 10),
                "context_end": 1_000 * (number % 10) + 900,
                "text": " ".join(known[n] if n < _KNOWN else f"w{n}" for n in numbers.tolist()),
                "gap": " ",
                "title": f"Document {number // 10} of w{number % 9973}",
                "language": "en",
                "published_at": f"20{number % 24:02}-0{number % 9 + 1}-11",
                "keywords": [f"k{number % 97}"],
            }
            for number, numbers in enumerate(texts, first)
        ]
        yield frame(rows, CHUNKS)


def chunk_id(number: int) -> str:
    """Return an id as chunks have it: a digest, so that their order is not that of the documents."""
    return blake2b(str(number).encode(), digest_size=10).hexdigest()


def vectors(count: int, groups: Sequence[int] | None = None) -> Iterator[Vectors]:
    """Yield unit vectors around the centres of topics that follow one another, as those of documents do."""
    centres = np.random.default_rng(1).standard_normal((-(-count // TOPIC), DIMENSIONS), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    for first in range(0, count, GROUP) if groups is None else groups:
        numbers = np.arange(first, min(first + GROUP, count))
        yield near(centres[numbers // TOPIC], first + 1)


def near(points: Vectors, seed: int) -> Vectors:
    """Return unit vectors near given ones: noise of length NOISE is added."""
    noise = np.random.default_rng(seed).standard_normal(points.shape, np.float32)
    found: Vectors = points + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def store(home: Home, count: int) -> None:
    """Write chunks and embeddings as their stages would have."""
    held, identity = BuildContext(home).store, str(count)
    write_batches(chunks(count), CHUNKS, held.folder("chunks", identity) / "chunks.parquet")
    schema: Schema = {"chunk_id": pl.String, "vector": pl.Array(pl.Float32, DIMENSIONS)}

    def embedded() -> Iterator[pl.DataFrame]:
        first = 0
        for part in vectors(count):
            ids = [chunk_id(number) for number in range(first, first + len(part))]
            vector = pl.Series("vector", part, dtype=schema["vector"])
            yield pl.DataFrame({"chunk_id": ids}).with_columns(vector)
            first += len(part)

    write_batches(embedded(), schema, held.folder("embeddings", identity) / "embeddings.parquet")
    held.commit(Artifact("chunks", "bench.generated", identity, identity))
    held.commit(Artifact("embeddings", KEY, identity, identity))


def ask(home: Home, count: int, wanted: int) -> None:
    """Write questions: six words of a chunk, and a vector near that of the chunk (cosine about 0.78)."""
    random = np.random.default_rng(5)
    first = range(0, count, GROUP)
    groups = [first[int(at)] for at in random.choice(len(first), min(_ASKED, len(first)), replace=False)]
    words: list[str] = []
    found: list[Vectors] = []
    for at, texts, points in zip(groups, chunks(count, groups), vectors(count, groups), strict=True):
        rows = random.integers(0, len(points), -(-wanted // len(groups)))
        words += [
            " ".join(random.choice(text.split(), 6, replace=False)) for text in texts["text"].gather(rows)
        ]
        found.append(near(points[rows], 10_000_000 + at))
    np.savez(
        home.root / "questions.npz", texts=np.array(words[:wanted]), vectors=np.concatenate(found)[:wanted]
    )


def questions(home: Home) -> list[tuple[str, Vectors]]:
    """Return the questions that `ask` has written."""
    with np.load(home.root / "questions.npz") as file:
        return list(zip(file["texts"].tolist(), file["vectors"], strict=True))
