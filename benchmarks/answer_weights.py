"""Fits the weights of the extractive generator, and says what they give on questions they were not fitted on.

    python -m benchmarks.answer_weights FOLDER

FOLDER holds `xquad`; the demo has to have been run in the workspace (`make demo`). Half of each collection's
questions, drawn by their words, is fitted on. Each question is searched for twice: as it is, and without the
documents that answer it. Printed are the JSON of `evals/generation/extractive.json` and two tables for the
other half: how often the first sentences hold the answer, and what thresholds of the confidence refuse.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import minimize

from benchmarks.defaults import MINILM
from benchmarks.defaults_data import collections, opened
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.evals.generation.answer_sentences import passage_stretches
from rag_assay.evals.generation.context_budget import within
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.quotation import SENTENCE_FEATURES, Candidate, Draft, embedded, fitted
from rag_assay.evals.pipeline.passages import passage_of
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Searcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.registry import read_retriever
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home, home

XQUAD = {"hybrid": {"k": 5, "bm25": {"language": "english"}}}
EVERY = 2  # of the XQuAD questions
DEMO = ("articles", "bilingual")
TOKENS = 1000  # of the demo's context
COSINES = ("cosine", "context")
PENALTY = 0.02  # L2, of standardised features
THRESHOLDS = [round(0.05 * step, 2) for step in range(2, 17)]
Floats = npt.NDArray[np.float64]
Holds = Callable[[Candidate, Sequence[Passage]], bool]


class Case(NamedTuple):
    """A question over some passages; holds: whether a sentence answers it, None where none of them can."""

    collection: str
    question: str
    passages: tuple[Passage, ...]
    holds: Holds | None


class Read(NamedTuple):
    """Features of its sentences, and which of them answer; none where the documents are not there.

    foreign: the embedder does not know the language
    """

    collection: str
    foreign: bool
    train: bool
    answerable: bool
    features: Floats
    right: npt.NDArray[np.bool_]


def searched(query: Query, searcher: Searcher, index: OpenIndex, gold: set[str]) -> Iterator[Ranking]:
    yield searcher.search(query)
    yield searcher.search(replace(query, allowed=~np.isin(index.chunks["doc_id"].to_numpy(), list(gold))))


def passages_in(index: OpenIndex, ranking: Ranking) -> tuple[Passage, ...]:
    chunks = index.chunks[ranking.rows]
    places = zip(chunks["chunk_id"], chunks["start"], chunks["end"], ranking.scores.tolist(), strict=True)
    return tuple(passage_of(index, *place) for place in places)


def xquad(folder: Path, embedder: CachedEmbedder, where: Home) -> Iterator[Case]:
    read = json.loads(gzip.decompress((folder / "xquad" / "xquad.en.json.gz").read_bytes()))
    answers = {
        one["question"]: one["answers"][0]["text"].casefold()
        for article in read["data"]
        for paragraph in article["paragraphs"]
        for one in paragraph["qas"]
    }
    collection = next(one for one in collections(folder, where, with_sites=False) if "xquad" in one.name)
    asked = opened(collection, embedder, where)
    searcher = read_retriever(XQUAD).open(asked.index, RetrievalContext())
    for query, question in list(zip(asked.queries, collection.questions, strict=True))[::EVERY]:
        gold = set(question.gold.documents)

        def holds(
            one: Candidate, passages: Sequence[Passage], text: str = question.text, gold: set[str] = gold
        ) -> bool:
            return passages[one.passage].document in gold and answers[text] in one.text.casefold()

        found, without = searched(query, searcher, asked.index, gold)
        yield Case("xquad", question.text, passages_in(asked.index, found), holds)
        yield Case("xquad", question.text, passages_in(asked.index, without), None)


def demo(embedder: CachedEmbedder, where: Home) -> Iterator[Case]:
    study = read_study(BUNDLED / "demo.yaml")
    store, grid = ArtifactStore(where), Grid([study])

    def folder(stage: str, key: str) -> Path:
        artifact = store.current(stage, key)
        if artifact is None:
            raise SystemExit("run `make demo` first")
        return store.folder(stage, artifact.identity)

    cell = next(one for one in study.cells() if (one.chunking, one.retriever) == DEMO)
    index = OpenIndex(folder("indexes", grid.index_key(cell)))
    searcher = study.retrievers[cell.retriever].open(index, RetrievalContext())
    asked = pl.concat(
        [read_parquet(folder("questions", key) / "questions.parquet") for key in grid.set_keys(study.study)]
    )
    vectors = embedder.queries(asked["question"].to_list()).vectors
    for row, vector in zip(asked.iter_rows(named=True), vectors, strict=True):
        gold = set(gold_of(row).documents)
        if not gold:
            continue
        places = [(one["doc_id"], one["start"], one["end"]) for one in row["evidence"] if one["end"]]

        def holds(
            one: Candidate, passages: Sequence[Passage], places: list[tuple[str, int, int]] = places
        ) -> bool:
            stretch = passage_stretches(passages)[one.stretch]
            document = passages[stretch.places[0]].document
            start, end = stretch.start + one.unit.start, stretch.start + one.unit.end
            return any(
                doc == document and min(end, b) - max(start, a) > min(end - start, b - a) / 2
                for doc, a, b in places
            )

        found, without = (
            within(passages_in(index, ranking), TOKENS)[0]
            for ranking in searched(Query(row["question"], vector), searcher, index, gold)
        )
        yield Case("demo", row["question"], found, holds)
        yield Case("demo", row["question"], without, None)


def read_cases(cases: Sequence[Case], embedder: CachedEmbedder) -> list[Read]:
    drafts = [Draft.of(case.question, case.passages) for case in cases]
    vectors = embedded(drafts, lambda texts: embedder.passages(texts).vectors)
    return [
        Read(
            f"{case.collection}, foreign" if is_foreign else case.collection,
            is_foreign,
            int(digest(case.question)[:8], 16) % 2 == 0,
            case.holds is not None,
            draft.features(vectors),
            np.array([case.holds is not None and case.holds(one, case.passages) for one in draft.candidates]),
        )
        for case, draft in zip(cases, drafts, strict=True)
        if draft.candidates
        for is_foreign in [draft.is_foreign(vectors)]
    ]


def fit_sentences(reads: Sequence[Read], by_words: bool) -> Floats:
    """Maximise the mean log probability (softmax) of the sentences that answer; collections count alike.

    by_words: with no weight for cosines
    """
    usable = [one for one in reads if one.right.any()]
    used = np.array([not (by_words and name in COSINES) for name in SENTENCE_FEATURES])
    scale = np.where(used, np.vstack([one.features for one in usable]).std(axis=0) + 1e-9, np.inf)
    share = {
        name: 1 / sum(one.collection == name for one in usable) for name in {one.collection for one in usable}
    }

    def loss(weights: Floats) -> tuple[float, Floats]:
        value, slope = PENALTY / 2 * float(weights @ weights), PENALTY * weights
        for one in usable:
            features = one.features / scale
            odds = np.exp((scores := features @ weights) - scores.max())
            all_of, right = odds / odds.sum(), odds * one.right / (odds * one.right).sum()
            counts = share[one.collection]
            value -= counts * float(np.log(all_of[one.right].sum()))
            slope = slope + counts * (features.T @ (all_of - right))
        return value, slope

    found = minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B")
    return np.asarray(found.x / scale)


def fit_confidence(reads: Sequence[Read], best: Floats) -> tuple[float, float]:
    """Platt scaling of the best sentence's score: documents there or not; all four groups count alike."""
    answerable = np.array([one.answerable for one in reads])
    groups = [(one.collection, one.answerable) for one in reads]
    counts = np.array([1 / groups.count(one) for one in groups])
    counts /= counts.sum()

    def loss(line: Floats) -> float:
        odds = line[0] * best + line[1]
        return float(counts @ np.logaddexp(0, np.where(answerable, -odds, odds)))

    slope, intercept = minimize(loss, np.zeros(2), method="L-BFGS-B").x
    return float(slope), float(intercept)


class Fit(NamedTuple):
    """Weights of the features, and the line from the best sentence's score to the log odds of an answer."""

    weights: Floats
    slope: float
    intercept: float

    @classmethod
    def of(cls, reads: Sequence[Read], *, by_words: bool) -> Fit:
        weights = np.round(fit_sentences(reads, by_words), 2)
        best = np.array([(one.features @ weights).max() for one in reads])
        return cls(weights, *(round(value, 3) for value in fit_confidence(reads, best)))

    def confidence(self, features: Floats) -> float:
        return float(1 / (1 + np.exp(-(self.slope * (features @ self.weights).max() + self.intercept))))


def main(data: Path) -> None:
    """Fit on one half of the questions, print the JSON, and the tables of the other half."""
    where = home()
    embedder = CachedEmbedder(MINILM, where)
    reads = read_cases([*xquad(data, embedder, where), *demo(embedder, where)], embedder)
    train, test = [one for one in reads if one.train], [one for one in reads if not one.train]
    known = [one for one in train if not one.foreign]
    fits = {False: Fit.of(known, by_words=False), True: Fit.of(train, by_words=True)}

    def sure(one: Read) -> float:
        return fits[one.foreign].confidence(one.features)

    def refused(given: Sequence[Read], threshold: float, kind: Callable[[Read], bool]) -> float:
        return float(np.mean([sure(one) < threshold for one in given if kind(one)]))

    def quoted(one: Read) -> bool:
        order = np.argsort(-(one.features @ fits[one.foreign].weights), kind="stable")
        return bool(one.right[order[:2]].any())

    names = sorted({one.collection for one in reads})
    for is_foreign, fit in fits.items():
        sentence = {
            name: float(value)
            for name, value in zip(SENTENCE_FEATURES, fit.weights, strict=True)
            if not is_foreign or name not in COSINES
        }
        label = "foreign" if is_foreign else "sentence, confidence"
        print(label, json.dumps({**sentence, "slope": fit.slope, "intercept": fit.intercept}))
    shipped = {
        is_foreign: np.array([weights.get(name, 0.0) for name in SENTENCE_FEATURES])
        for is_foreign, weights in ((False, fitted()["sentence"]), (True, fitted()["foreign"]["sentence"]))
    }
    found = {is_foreign: fit.weights for is_foreign, fit in fits.items()}
    print("\n| questions | the first sentence answers | one of the first two | shipped: first | two |")
    print("|---|---|---|---|---|")
    for name in names:
        for half, given in (("fitted on", train), ("others", test)):
            usable = [one for one in given if one.collection == name and one.right.any()]
            cells = " | ".join(f"{value:.3f}" for of in (found, shipped) for value in hits(usable, of))
            print(f"| {name}, {half}, {len(usable)} | {cells} |")
    print(
        "\n| threshold |"
        + "".join(f" {name}: answerable refused | of quoted | unanswerable |" for name in names)
    )
    print("|---|" + "---|---|---|" * len(names))
    for at in THRESHOLDS:
        row = [
            f"{refused([one for one in test if one.collection == name], at, kind):.2f}"
            for name in names
            for kind in (lambda one: one.answerable, quoted, lambda one: not one.answerable)
        ]
        print(f"| {at} | {' | '.join(row)} |")


def hits(reads: Sequence[Read], weights: Mapping[bool, Floats]) -> tuple[float, float]:
    """Return how often a sentence that answers is the first one, and among the first two."""
    orders = [np.argsort(-(one.features @ weights[one.foreign]), kind="stable") for one in reads]
    first = [one.right[order[0]] for one, order in zip(reads, orders, strict=True)]
    two = [one.right[order[:2]].any() for one, order in zip(reads, orders, strict=True)]
    return float(np.mean(first)), float(np.mean(two))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
