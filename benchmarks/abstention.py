"""How well retrieval scores tell questions with an answer from those without, and what a fitted gate gives.

    python -m benchmarks.abstention FOLDER [NAME …]

FOLDER holds `beir-small`, `scifact` and `xquad`; names choose among the collections. Each question is
searched for twice: as it is, and without the documents that answer it. AUROC of a feature of a ranking's
first five scores is the chance that a question with an answer has the higher one. Balanced accuracy is the
mean of the shares rightly answered and rightly refused, 0.5 without a gate: of a threshold that is fitted on
half of the questions, drawn by their words, on that half and on the other one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from benchmarks.defaults import MINILM, OWN, in_language
from benchmarks.defaults_data import Queries, collections, opened
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.evals.generation.extractive import extract_many
from rag_assay.evals.generation.gate import Gate, ScoreFeature, feature_of, fit_threshold
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import home

READ = 5  # passages that are read
FEATURES: tuple[ScoreFeature, ...] = get_args(ScoreFeature)
ARMS: list[dict[str, Any]] = [{"bm25": {"k": 100, "language": OWN}}, {"dense": {"k": 100}}]
RETRIEVERS: dict[str, dict[str, Any]] = {
    "bm25": {"bm25": {"k": READ, "language": OWN}},
    "dense": {"dense": {"k": READ}},
    "hybrid": {"hybrid": {"k": READ, "bm25": {"language": OWN}}},
    "rrf": {"fuse": {"rrf": {}, "of": ARMS, "k": READ}},
}
SENTENCES = "xquad"  # the one collection whose sentences are embedded, for `min_score`
FEW = 200  # questions whose sentences are read
MINIMA = [0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
Floats = npt.NDArray[np.float64]


class Pair(NamedTuple):
    """The rankings of one question with its answer in the index, and without."""

    train: bool
    text: str
    answerable: Ranking
    unanswerable: Ranking


def pairs(asked: Queries, written: dict[str, Any]) -> list[Pair]:
    """Search for every question twice."""
    recipe = read_retriever(in_language(written, asked.collection.language))
    searcher = recipe.open(asked.index, RetrievalContext())
    documents = np.array(asked.documents)
    found = []
    for query, question in zip(asked.queries, asked.collection.questions, strict=True):
        held = np.isin(documents, list(question.gold.documents))
        if held.any():
            without = searcher.search(replace(query, allowed=~held))
            train = int(digest(question.text)[:8], 16) % 2 == 0
            found.append(Pair(train, question.text, searcher.search(query), without))
    return found


def values(rankings: Sequence[Ranking], feature: ScoreFeature) -> Floats:
    """Return a feature of each ranking; the lowest of all where one is empty."""
    found = [feature_of(ranking.scores.tolist(), feature) for ranking in rankings]
    return np.array([-np.inf if one is None else one for one in found])


def auroc(yes: Floats, no: Floats) -> float:
    """Return the chance that one of ``yes`` is above one of ``no``, ties counting half.

    >>> auroc(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
    0.875
    """
    below = np.searchsorted(np.sort(no), yes, side="left") + np.searchsorted(np.sort(no), yes, side="right")
    return float(below.sum() / (2 * len(yes) * len(no)))


def balanced(gate: Gate, feature: ScoreFeature, found: Sequence[Pair]) -> float:
    """Return the balanced accuracy of a gate."""
    yes, no = (
        values([getattr(one, kind) for one in found], feature) for kind in ("answerable", "unanswerable")
    )
    passed = np.mean([gate.refusal(value) is None for value in yes.tolist()])
    refused = np.mean([gate.refusal(value) is not None for value in no.tolist()])
    return float(passed + refused) / 2


def of_gate(found: Sequence[Pair], feature: ScoreFeature) -> tuple[float, float]:
    """Return the balanced accuracy of a gate on the half that it is fitted on, and on the other half."""
    train, test = [one for one in found if one.train], [one for one in found if not one.train]
    yes, no = (
        values([getattr(one, kind) for one in train], feature) for kind in ("answerable", "unanswerable")
    )
    fit = fit_threshold(feature, yes[np.isfinite(yes)].tolist(), no[np.isfinite(no)].tolist())
    return fit.value, balanced(Gate(feature=feature, threshold=fit.threshold), feature, test)


def of_min_score(asked: Queries, found: Sequence[Pair], embedder: CachedEmbedder) -> tuple[float, float]:
    """Return the same of `extractive`'s `min_score`, which reads the passages: the best of a few values."""
    texts = asked.index.chunks["text"].to_list()
    few = found[:: max(1, len(found) // FEW)]
    requests = [
        (one.text, [texts[row] for row in ranking.rows])
        for one in few
        for ranking in (one.answerable, one.unanswerable)
    ]
    train = np.array([one.train for one in few])
    accuracies = []
    for minimum in MINIMA:
        said = extract_many(
            requests,
            lambda of: embedder.passages(of).vectors,
            80,
            lambda of: [len(text.split()) for text in of],
            minimum,
        )
        answered = np.array([bool(text) for text in said]).reshape(-1, 2)
        right = np.stack([answered[:, 0], ~answered[:, 1]], axis=1).astype(float)
        accuracies.append((right[train].mean(), right[~train].mean()))
    return max(accuracies, key=lambda pair: pair[0])


def table(asked: Queries, embedder: CachedEmbedder) -> None:
    """Print a collection's table: a row a retriever and feature."""
    print(f"\n## {asked.collection.name}: {len(asked.queries)} questions\n")
    print("| retriever | feature | AUROC | fitted on one half | on the other half |\n|---|---|---|---|---|")
    for name, written in RETRIEVERS.items():
        found = pairs(asked, written)
        yes, no = [one.answerable for one in found], [one.unanswerable for one in found]
        for feature in FEATURES:
            fit, test = of_gate(found, feature)
            area = auroc(values(yes, feature), values(no, feature))
            print(f"| {name} | {feature} | {area:.3f} | {fit:.3f} | {test:.3f} |", flush=True)
        if name == "dense" and SENTENCES in asked.collection.name:
            fit, test = of_min_score(asked, found, embedder)
            print(f"| {name} | `min_score` of extractive | | {fit:.3f} | {test:.3f} |", flush=True)


def main(data: Path, names: Sequence[str]) -> None:
    """Print the tables of the collections whose name has one of these in it."""
    where = home()
    embedder = CachedEmbedder(MINILM, where)
    for collection in collections(data, where, with_sites=False):
        if any(name in collection.name for name in names or ("xquad", "cranfield", "cisi", "scifact")):
            table(opened(collection, embedder, where), embedder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
