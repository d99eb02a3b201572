"""What each optional retrieval step changes by its defaults: nDCG@10 with the step less nDCG@10 without it.

    python -m benchmarks.step_defaults FOLDER [--words]

FOLDER is that of `benchmarks/defaults.py`. --words: only what needs no embeddings of chunks, in a minute.

A star marks a difference that a paired t-test finds significant (p < 0.05, two-sided, unadjusted).
Steps that change only what is delivered or in which order it is read are measured by recall@10, in which the
order does not count. Steps with a model of their own (`cross_encoder`, `by: llm`) are not measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_1samp

from benchmarks.defaults import MINILM, OWN, head, in_language
from benchmarks.defaults_data import Queries, collections, opened
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.hashing import Hashing
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.metrics.ranking_metrics import Ndcg, Recall
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.evals.retrieval.context import RetrievalContext, TextEmbedder
from rag_assay.evals.statistics.significance import ALPHA
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.paths import home

WORDS = Hashing(model="hashing")
BM25: dict[str, Any] = {"bm25": {"language": OWN, "k": 100}}
DENSE: dict[str, Any] = {"dense": {"k": 100}}
TRANSFORMS = ("follow_up", "time_frame", "entities", "keywords", "multi_query")
RERANKING = ("deduplicate", "group_by_document", "recent_first", "threshold", "adaptive")
DELIVERING = ("neighbours", "document_order", "lost_in_the_middle")


class Comparison(NamedTuple):
    """A retriever with a step and the same without it, as a study writes them.

    is_semantic: needs a real embedder
    """

    name: str
    without: Any
    with_step: Any
    metric: RetrievalMetric = Ndcg(10)
    is_semantic: bool = False


def comparisons() -> Iterator[Comparison]:
    """Yield every step that has defaults and runs without a model of its own."""
    for name in ("feedback", "expand"):
        yield Comparison(
            f"bm25: {name}", BM25, {"bm25": {**BM25["bm25"], name: {}}}, is_semantic=name == "expand"
        )
    for name in TRANSFORMS:
        yield Comparison(f"{name}, bm25", BM25, [{name: {}}, BM25])
    for name in ("keywords", "multi_query", "hyde"):
        yield Comparison(f"{name}, dense", DENSE, [{name: {}}, DENSE], is_semantic=True)
    for base in (BM25, DENSE):
        (kind,) = base
        yield Comparison(f"graph, {kind}", base, [base, {"graph": {}}], is_semantic=True)
    for name in RERANKING:
        yield Comparison(f"{name}, bm25", BM25, [BM25, {name: {}}])
    for name in DELIVERING:
        short = in_k(BM25, 10)
        yield Comparison(f"{name}, bm25", short, [short, {name: {}}], Recall(10))


def in_k(base: dict[str, Any], k: int) -> dict[str, Any]:
    """Return a retriever with another `k`."""
    ((kind, parameters),) = base.items()
    return {kind: {**parameters, "k": k}}


def values(
    one: Queries, written: Any, metric: RetrievalMetric, context: RetrievalContext
) -> np.ndarray[Any, Any]:
    """Return the metric of each question, shape (questions,)."""
    recipe = read_retriever(in_language(written, one.collection.language))
    searcher = recipe.open(one.index, context)
    return np.array(one.values([searcher.search(query) for query in one.queries], metric))


def line(compared: Comparison, asked: Sequence[Queries], contexts: Sequence[RetrievalContext]) -> None:
    """Print the differences of one step."""
    changes, cells = [], []
    for one, context in zip(asked, contexts, strict=True):
        before, after = (
            values(one, written, compared.metric, context)
            for written in (compared.without, compared.with_step)
        )
        difference = after - before
        p = ttest_1samp(difference, 0).pvalue if difference.any() else 1.0
        changes.append(difference.mean())
        cells.append(f"{before.mean():.3f} {difference.mean():+.3f}{'*' if p < ALPHA else ''}")
    print(f"| {compared.name} | {' | '.join(cells)} | {np.mean(changes):+.4f} |", flush=True)


def main(data: Path, *, only_words: bool = False, extra: Sequence[Comparison] = ()) -> None:
    """Print the table."""
    where = home()
    embedder = CachedEmbedder(WORDS if only_words else MINILM, where)
    asked = [opened(one, embedder, where) for one in collections(data, where, with_sites=not only_words)]
    contexts = [RetrievalContext(embed=TextEmbedder(embedder, Clock())) for _ in asked]
    head("step: without it, and what it changes", asked)
    for compared in (*comparisons(), *extra):
        if not (only_words and compared.is_semantic):
            line(compared, asked, contexts)


if __name__ == "__main__":
    from rag_assay.orchestration.settings import prepare

    prepare()
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, nargs="?", default=Path("../shared/data"))
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    main(given.data, only_words=given.words)
