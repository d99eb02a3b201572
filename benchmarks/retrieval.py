"""How fast retrievers rank: all combinations of four arms on three chunk sizes, and each retriever by itself.

    python -m benchmarks.retrieval FOLDER [--documents N] [--random-vectors]

FOLDER holds `scifact` (BEIR). SciFact has neither dates nor keywords; each document is given some by its
number, so that `recency` and `metadata` have work to do. Indexes are built once, below ASSAY_HOME, and not
timed: embedding them takes some ten minutes. `--random-vectors` indexes seeded random vectors instead; exact
search takes as long on them, and finds nothing sensible.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.evals.pipeline.ranking_rows import RankingRows
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.evals.retrieval.context import Memory, RetrievalContext, TextEmbedder
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query_runner import QueryRunner, warm_up
from rag_assay.evals.retrieval.query_vectors import QueryVector, embed_queries
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.paths import Home, home

ARMS = ("bm25", "dense", "recency", "metadata")
SIZES: dict[str, dict[str, Any]] = {
    "whole": {"document": {}},
    "tokens-128": {"tokens": {"size": 128, "overlap": 0}},
    "tokens-64": {"tokens": {"size": 64, "overlap": 0}},
}
ALONE = """
bm25-plain: {bm25: {k: 100, tokenizer: plain, function_words: keep}}
bm25-lemmatised: {bm25: {k: 100, tokenizer: lemmatised}}
fulltext: {fulltext: {k: 100}}
hybrid: {hybrid: {k: 100}}
lancedb: {lancedb: {k: 100}}
lancedb-linear: {lancedb: {k: 100, reranker: linear}}
graph: {graph: {of: {dense: {k: 100}}, k: 100}}
graph-adds: {graph: {of: {dense: {k: 100}}, k: 100, similarity: 0.5, add: 20}}
chain:
  - fuse: {of: [{bm25: {k: 100}}, {dense: {k: 100}}], k: 20}
  - neighbours: {n: 1}
  - deduplicate: {jaccard: 0.8}
  - token_budget: {tokens: 2000}
  - lost_in_the_middle: {}
"""
WORDS = ("cells", "protein", "patients", "cancer", "mice", "gene", "risk", "human", "disease", "treatment")


def documents_of(folder: Path, most: int | None) -> pl.DataFrame:
    """Read the corpus as documents (schemas.DOCUMENTS), with dates and keywords by their number."""
    from rag_assay.assets.cleaning.text_files import clean_beir
    from rag_assay.crawlers.readers.beir import Beir
    from rag_assay.warehouse.parquet import frame
    from rag_assay.warehouse.schemas import DOCUMENTS
    from rag_assay.warehouse.source import Source

    pages = Beir().read(Source.model_validate({"reader": "beir", "path": str(folder)}))
    rows: list[dict[str, object]] = []
    for number, page in enumerate(pages):
        if number == most:
            break
        draft = clean_beir(page.body or b"")
        keywords = [WORDS[number % 10], WORDS[number % 7], f"topic {number % 50}"]
        rows.append(
            {
                **{"doc_id": page.url, "version": "1", "source": "scifact", "url": page.url},
                **{"title": draft.title, "text": draft.text, "language": "en", "keywords": keywords},
                "published_at": (date(2024, 1, 1) - timedelta(days=number % 3_000)).isoformat(),
                **{"authors": [], "sections": [], "metadata": "{}"},
            }
        )
    return frame(rows, DOCUMENTS)


def prepare(data: Path, place: Path, most: int | None, *, by_chance: bool) -> None:
    """Build the indexes that are not there yet."""
    from rag_assay.assets.chunking.contract import Tools
    from rag_assay.assets.chunking.document_chunks import chunk_documents
    from rag_assay.assets.indexing import index_table
    from rag_assay.assets.recipes.build_half import Chunking
    from tests.fakes.indexing import HeldRows

    documents = documents_of(data, most)
    tokenizer = load_tokenizer(models.fetch("all-MiniLM-L6-v2", home()))
    for name, written in SIZES.items():
        if (place / name / "whole").exists():
            continue
        chunks = chunk_documents(documents, Chunking.model_validate(written).chunker, Tools(tokenizer))
        print(f"{name}: {len(chunks)} chunks to be embedded", file=sys.stderr)
        if by_chance:
            vectors = np.random.default_rng(7).normal(size=(len(chunks), 384)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        else:
            vectors = embedder(home()).passages((chunks["prefix"] + chunks["text"]).to_list()).vectors
        (place / name).mkdir(parents=True, exist_ok=True)
        index_table.build(place / name, HeldRows(chunks, vectors))
        (place / name / "whole").touch()


def embedder(place: Home) -> Any:
    """Return the embedder of the benchmark, cached."""
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.assets.embedding.embedder import EmbedderRecipe

    return CachedEmbedder(
        EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=256, overflow="truncate"), place
    )


class Figures(NamedTuple):
    """Seconds for all questions, milliseconds of one, and how many were timed on a busy machine."""

    wall: float
    p50: float
    p95: float
    busy: int


def run(
    recipe: Any,
    index: OpenIndex,
    questions: pl.DataFrame,
    vectors: dict[str, QueryVector],
    context: RetrievalContext,
) -> Figures:
    """Rank every question as the stage does."""
    begin = time.perf_counter()
    searcher = SharedSearcher(recipe, index, context)
    runner = QueryRunner(searcher, index, vectors if recipe.needs_vector else {}, context.clock)
    warm_up(runner, questions)
    rows = RankingRows(index, 100)
    for question in questions.iter_rows(named=True):
        rows.add({**question, "evidence": None}, runner.ask(question))
    wall = time.perf_counter() - begin
    failed = [row["reason"] for row in rows.ranked if row["reason"]]
    if failed:
        raise SystemExit(f"{recipe.kind}: {failed[0]}")
    seconds = np.array([spent.seconds for spent in rows.spent])
    busy = sum(spent.busy for spent in rows.spent)
    median, high = 1000 * np.quantile(seconds, (0.5, 0.95))
    return Figures(wall, median, high, busy)


def measure(data: Path, place: Path) -> None:
    """Rank, and print seconds by retriever and chunk size, memory, and latencies."""
    from rag_assay.evals.question_sets.readers.beir import read_beir
    from rag_assay.evals.study.registry import read_retriever_or_powerset
    from rag_assay.evals.study.sections import expand_powersets

    questions = pl.DataFrame(
        [
            {"question_id": row["question_id"], "question": row["question"]}
            for row in read_beir(data, "test", "t")
        ]
    )
    caller = embedder(home())
    vectors = embed_queries(questions["question"].to_list(), caller)
    recipes = {"all": {"powerset": list(ARMS), "fuse": "rrf", "k": 10}, **yaml.safe_load(ALONE)}
    retrievers = expand_powersets({name: read_retriever_or_powerset(one) for name, one in recipes.items()})
    clock = Clock()
    count = load_tokenizer(models.fetch("all-MiniLM-L6-v2", home())).count
    contexts = {
        name: RetrievalContext(TextEmbedder(caller, clock), memory=Memory(), clock=clock, count=count)
        for name in SIZES
    }
    begin = time.perf_counter()
    indexes = {name: OpenIndex(place / name) for name in SIZES}
    opened = sum(len(index.chunks) + len(index.vectors) for index in indexes.values()) // 2
    opening = time.perf_counter() - begin
    found: dict[tuple[str, str], Figures] = {}
    combined = [name for name in retrievers if name.startswith("all-")]
    begin, busy = time.perf_counter(), time.process_time()
    for name in combined:
        for size in SIZES:
            found[name, size] = run(retrievers[name], indexes[size], questions, vectors, contexts[size])
    seconds, busy = time.perf_counter() - begin + opening, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{len(combined)} combinations x {len(SIZES)} chunk sizes ({opened} chunks in all) x "
        f"{len(questions)} questions: {seconds:.1f} s (target 60), {opening:.1f} s of them opening the "
        f"indexes, {busy:.1f} s of processor after that; "
        f"peak memory {peak:.2f} GB (target 2)\n",
        flush=True,
    )
    for name in retrievers.keys() - set(combined):
        for size in SIZES:
            found[name, size] = run(retrievers[name], indexes[size], questions, vectors, contexts[size])
    print(f"{'retriever':<38}" + "".join(f"{size + ' s':>13}{'p50 ms':>9}{'p95 ms':>9}" for size in SIZES))
    for name in retrievers:
        figures = [found[name, size] for size in SIZES]
        print(f"{name:<38}" + "".join(f"{f.wall:>13.2f}{f.p50:>9.2f}{f.p95:>9.2f}" for f in figures))
    print(
        "\ns: all questions; a combination takes from memory what its arms ranked for an earlier one.\n"
        "ms: one question by itself, with its embedding and all arms, whatever came from memory."
    )
    busy = sum(figures.busy for figures in found.values())
    if busy:
        of = len(found) * len(questions)
        print(f"{busy} of {of} latencies were measured while other work held the processors: too high.")


def main() -> None:
    """Read the arguments, prepare in a process of its own, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--random-vectors", action="store_true")
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    from rag_assay.orchestration.settings import prepare as quiet

    quiet()
    kind = f"{given.documents or 'all'}{'-random' if given.random_vectors else ''}"
    place = home().root / "bench" / "retrieval" / kind
    if given.prepare:
        prepare(given.folder / "scifact", place, given.documents, by_chance=given.random_vectors)
        return
    # What building the indexes takes of memory is not what ranking takes.
    subprocess.run([sys.executable, "-m", "benchmarks.retrieval", *sys.argv[1:], "--prepare"], check=True)
    measure(given.folder / "scifact", place)


if __name__ == "__main__":
    main()
