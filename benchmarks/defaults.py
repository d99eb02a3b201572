"""What the defaults of `bm25` and `hybrid` were chosen by: nDCG@10 of alternatives over several collections.

    python -m benchmarks.defaults FOLDER

FOLDER holds `beir-small`, `scifact`, `xquad`, `blog-18f` and `fundus-de`; what is not there is left out. The
demo's sites are crawled from this machine. Indexes are built once below ASSAY_HOME, which takes some ten
minutes of embedding. multilingual-e5-small is measured on the collections of at most 1,000 chunks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults_data import Collection, Queries, collections, opened
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.metrics.ranking_metrics import Mrr, Ndcg
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.paths import home

MINILM = EmbedderRecipe(model="all-MiniLM-L6-v2", max_tokens=256, overflow="truncate")
E5 = EmbedderRecipe.model_validate({"model": "multilingual-e5-small", "overflow": "truncate"})
SMALL = 1_000  # chunks
OWN = "own"  # stands for the language of the collection
LEXICAL: dict[str, dict[str, Any]] = {
    "plain words (the default before)": {"tokenizer": "plain", "function_words": "keep", "title": 0},
    "plain, no function words": {
        **{"tokenizer": "plain", "function_words": "drop", "title": 0},
        "language": OWN,
    },
    "stemmed": {"function_words": "keep", "language": OWN, "title": 0},
    "stemmed, no function words": {"function_words": "drop", "language": OWN, "title": 0},
    "lemmatised": {"tokenizer": "lemmatised", "function_words": "keep", "language": OWN, "title": 0},
    "lemmatised, no function words": {
        **{"tokenizer": "lemmatised", "function_words": "drop", "title": 0},
        "language": OWN,
    },
    "default: `bm25: {}`": {},
    "default, `language` said": {"language": OWN},
    "the same, title 0": {"language": OWN, "title": 0},
    "the same, title 2": {"language": OWN, "title": 2},
    "the same, plus": {"language": OWN, "variant": "plus"},
    "the same, lower_bounded": {"language": OWN, "variant": "lower_bounded"},
    "the same, k1 0.9, b 0.4": {"language": OWN, "k1": 0.9, "b": 0.4},
    "the same, k1 1.2, b 0.75": {"language": OWN, "k1": 1.2},
    "the same, k1 2.0, b 0.75": {"language": OWN, "k1": 2.0},
}


def fusions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield fusions of BM25 (in the collection's language) and dense search."""
    yield "default: `hybrid: {}`, in the collection's language", {"hybrid": {"bm25": {"language": OWN}}}
    for depth in (100, 1000):
        arms = [{"bm25": {"k": depth, "language": OWN}}, {"dense": {"k": depth}}]
        for name, method in (
            ("rrf, k 60", {"rrf": {}}),
            ("rrf, k 10", {"rrf": {"k": 10}}),
            ("sum, min_max", {"weighted": {}}),
            ("sum, z_score", {"weighted": {"normalise": "z_score"}}),
            ("sum, sum", {"weighted": {"normalise": "sum"}}),
            ("geometric, min_max", {"geometric": {}}),
        ):
            yield f"{name}, depth {depth}", {"fuse": {**method, "of": arms}}
    for weight in (0.3, 0.4, 0.6, 0.7):
        given = {"weight": weight, "bm25": {"language": OWN}}
        yield f"sum, min_max, depth 1000, dense {weight}", {"hybrid": given}
    for parameters in ({"title": 0}, {"k1": 2.0}):
        told = ", ".join(f"{name} {value}" for name, value in parameters.items())
        yield f"default, bm25 with {told}", {"hybrid": {"bm25": {"language": OWN, **parameters}}}


def in_language(given: Any, language: str) -> Any:
    """Return a recipe with the language of a collection in its place.

    >>> in_language({"bm25": {"language": "own"}}, "german")
    {'bm25': {'language': 'german'}}
    """
    if isinstance(given, dict):
        return {key: in_language(value, language) for key, value in given.items()}
    if isinstance(given, list):
        return [in_language(value, language) for value in given]
    return language if given == OWN else given


def line(name: str, given: dict[str, Any], asked: Sequence[Queries], metric: RetrievalMetric) -> None:
    """Print one retriever's mean in each collection, and the mean of these."""
    means = []
    for one in asked:
        recipe = read_retriever(in_language(given, one.collection.language))
        deep = recipe.at_depth(100)  # of chunks: ten documents may take more than ten
        searcher = deep.open(one.index, RetrievalContext())
        means.append(np.mean(one.values([searcher.search(query) for query in one.queries], metric)))
    cells = " | ".join(f"{mean:.3f}" for mean in [*means, np.mean(means)])
    print(f"| {name} | {cells} |", flush=True)


def head(title: str, asked: Sequence[Queries]) -> None:
    """Print the first lines of a table."""
    names = [f"{one.collection.name} ({len(one.queries)})" for one in asked]
    print(f"\n| {title} | {' | '.join(names)} | mean |\n|{'---|' * (len(names) + 2)}", flush=True)


def main(data: Path) -> None:
    """Print the tables."""
    where = home()
    found: list[Collection] = list(collections(data, where))
    asked = [opened(one, CachedEmbedder(MINILM, where), where) for one in found]
    head("bm25", asked)
    for name, given in LEXICAL.items():
        line(name, {"bm25": given}, asked, Ndcg(10))
    head("bm25 and MiniLM", asked)
    line("dense", {"dense": {}}, asked, Ndcg(10))
    for name, recipe in fusions():
        line(name, recipe, asked, Ndcg(10))
    small = [one for one in found if len(one.chunks) <= SMALL]
    multilingual = [opened(one, CachedEmbedder(E5, where), where) for one in small]
    smaller = [one for one in asked if any(one.collection is other for other in small)]
    for metric in (Ndcg(10), Mrr(10)):
        head(f"multilingual-e5-small, {metric.title}", multilingual)
        line("dense, MiniLM", {"dense": {}}, smaller, metric)
        line("dense, e5", {"dense": {}}, multilingual, metric)
        line("bm25", {"bm25": {"language": OWN}}, multilingual, metric)
        line("hybrid, MiniLM", {"hybrid": {"bm25": {"language": OWN}}}, smaller, metric)
        line("hybrid, e5", {"hybrid": {"bm25": {"language": OWN}}}, multilingual, metric)


if __name__ == "__main__":
    from rag_assay.orchestration.settings import prepare

    prepare()
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
