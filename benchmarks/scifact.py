"""What lifts retrieval on SciFact, step by step: nDCG@10 of whole abstracts, chosen on train, read on test.

Every parameter and weight is chosen on the 807 train questions alone (two more are test questions, too);
the 300 test questions are asked once for each line that is printed. Needs a BEIR folder:
`python -m benchmarks.scifact FOLDER`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scifact_data import Questions, SciFact, read
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.fusion import (
    Arithmetic,
    Geometric,
    Harmonic,
    Max,
    Method,
    RelativeScore,
    Rrf,
    Weighted,
    fuse_rankings,
)
from rag_assay.evals.retrieval.fusion_tuning import choose_weights
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.paths import home

DEPTH = 1_000
TOKENIZERS: dict[str, dict[str, Any]] = {
    "plain": {"tokenizer": "plain", "function_words": "keep", "title": 0},
    "stemmed": {"tokenizer": "stemmed", "function_words": "keep", "title": 0},
    "stemmed, no function words": {"tokenizer": "stemmed", "function_words": "drop", "title": 0},
    "lemmatised": {"tokenizer": "lemmatised", "title": 0},
}
BM25_GRID: dict[str, tuple[Any, ...]] = {
    "variant": ("okapi", "plus", "lower_bounded"),
    "k1": (0.9, 1.2, 1.5, 2.0, 3.0),
    "b": (0.4, 0.5, 0.6, 0.75, 0.9),
    "title": (0, 1, 2),
}
FUSED_GRID: dict[str, tuple[Any, ...]] = {
    "k1": (1.2, 1.5, 2.0, 3.0),
    "b": (0.5, 0.6, 0.75),
    "title": (0, 1, 2),
    "delta": (0.5, 1.0, 1.5),
}
EXPAND_GRID: dict[str, tuple[Any, ...]] = {
    "words": (2,),
    "weight": (0.1, 0.3),
    "similarity": (0.7,),
}
FEEDBACK_GRID: dict[str, tuple[Any, ...]] = {
    "chunks": (5, 10),
    "words": (10, 20),
    "original": (0.5, 0.7, 0.9),
}
Arm = dict[str, list[Ranking]]


SUM = Weighted(normalise="sum")


def climbed(value: Callable[[dict[str, Any]], float], grid: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Choose parameters by their value, one after the other until none changes."""
    chosen = {name: values[len(values) // 2] for name, values in grid.items()}
    known: dict[str, float] = {}

    def remembered(parameters: dict[str, Any]) -> float:
        key = repr(sorted(parameters.items()))
        if key not in known:
            known[key] = value(parameters)
        return known[key]

    while True:
        before = dict(chosen)
        for name, values in grid.items():
            found = [remembered({**chosen, name: one}) for one in values]
            chosen[name] = values[int(np.argmax(found))]
        if chosen == before:
            return chosen


class Study:
    """Ranks, fuses and prints; holds nothing but the data."""

    def __init__(self, data: SciFact) -> None:
        self.data = data
        self.splits: dict[str, Questions] = {"train": data.train, "test": data.test}

    def ranked(self, recipe: Retriever, split: str) -> list[Ranking]:
        """Ask all questions of a split."""
        searcher = recipe.open(self.data.index, self.data.context)
        return [searcher.search(query) for query in self.splits[split].queries]

    def arm(self, recipe: Retriever) -> Arm:
        """Ask the questions of both splits."""
        return {split: self.ranked(recipe, split) for split in self.splits}

    def value(self, rankings: list[Ranking], split: str) -> float:
        """Return nDCG@10."""
        return self.splits[split].ndcg(rankings)

    def line(self, name: str, arm: Arm, chosen: str = "") -> None:
        """Print one step."""
        train, test = (self.value(arm[split], split) for split in ("train", "test"))
        print(f"| {name} | {chosen} | {train:.4f} | {test:.4f} |", flush=True)

    def train_value(self, recipe: Retriever) -> float:
        """Return nDCG@10 of the train questions."""
        return self.value(self.ranked(recipe, "train"), "train")

    def fused_train_value(self, recipe: Retriever, dense: Arm) -> float:
        """Return nDCG@10 of the train questions, fused with dense under the best of 21 weights."""
        questions = self.data.train.with_arms([self.ranked(recipe, "train"), dense["train"]])
        return choose_weights(questions, SUM, DEPTH, points=21).value

    def fusion(self, name: str, arms: Sequence[Arm], method: Method) -> Arm:
        """Choose the weights on train; fuse both splits."""
        questions = self.data.train.with_arms([arm["train"] for arm in arms])
        tuned = choose_weights(questions, method, DEPTH)
        found = {
            split: [
                fuse_rankings(rankings, tuned.weights, method, DEPTH)
                for rankings in zip(*(arm[split] for arm in arms), strict=True)
            ]
            for split in self.splits
        }
        self.line(name, found, " : ".join(f"{weight:.3f}" for weight in tuned.weights))
        return found


def methods() -> Iterator[tuple[str, Method]]:
    """Return every method of `fuse`, with each of its normalisations."""
    yield "rrf, k 60", Rrf()
    yield "rrf, k 10", Rrf(k=10)
    for kind in (Weighted, Max):
        for normalise in ("min_max", "z_score", "sum"):
            yield f"{kind.__name__.lower()}, {normalise}", kind.model_validate({"normalise": normalise})
    yield "relative_score", RelativeScore()
    yield "arithmetic, min_max", Arithmetic()
    yield "geometric, min_max", Geometric()
    yield "harmonic, min_max", Harmonic()


def lexical(study: Study) -> dict[str, dict[str, Any]]:
    """Print BM25 of every analyzer, with its defaults and as chosen on train; return what was chosen."""
    best: dict[str, dict[str, Any]] = {}
    for name, analyzer in TOKENIZERS.items():
        for variant in ("okapi", "plus", "l", "lower_bounded"):
            recipe = Bm25.model_validate({**analyzer, "variant": variant, "k": DEPTH})
            study.line(f"bm25 {variant}, {name}", study.arm(recipe), "defaults")

        def value(given: dict[str, Any], analyzer: dict[str, Any] = analyzer) -> float:
            return study.train_value(Bm25.model_validate({**analyzer, **given, "k": 10}))

        chosen = climbed(value, BM25_GRID)
        best[name] = {**analyzer, **chosen}
        recipe = Bm25.model_validate({**best[name], "k": DEPTH})
        study.line(f"bm25, {name}", study.arm(recipe), _written(chosen))
    return best


def for_fusion(study: Study, dense: Arm) -> dict[str, Any]:
    """Choose BM25's parameters by what it adds to dense on train, rather than by its own value."""
    base = {**TOKENIZERS["stemmed, no function words"], "variant": "lower_bounded"}

    def value(given: dict[str, Any]) -> float:
        return study.fused_train_value(Bm25.model_validate({**base, **given, "k": DEPTH}), dense)

    return {**base, **climbed(value, FUSED_GRID)}


def widened(study: Study, base: dict[str, Any]) -> dict[str, Arm]:
    """Print expansion and feedback on top of a BM25."""
    arms: dict[str, Arm] = {}
    for part, grid in (("feedback", FEEDBACK_GRID), ("expand", EXPAND_GRID)):

        def value(given: dict[str, Any], part: str = part) -> float:
            return study.train_value(Bm25.model_validate({**base, part: given, "k": 10}))

        chosen = climbed(value, grid)
        arms[part] = study.arm(Bm25.model_validate({**base, part: chosen, "k": DEPTH}))
        study.line(f"the same with {part}", arms[part], _written(chosen))
    only = {"only_unknown": True, "weight": 1.0}
    arms["expand, only unknown words"] = study.arm(Bm25.model_validate({**base, "expand": only, "k": DEPTH}))
    study.line("the same with expand", arms["expand, only unknown words"], "only_unknown, weight 1")
    return arms


def vector_feedback(study: Study, dense: Arm) -> None:
    """Print Rocchio feedback on the question's vector: the product has none, since it does not help."""
    vectors = study.data.index.vectors
    for chunks, share in ((2, 0.2), (3, 0.4), (5, 0.4)):
        arm: Arm = {}
        for split, questions in study.splits.items():
            moved = []
            for query, ranking in zip(questions.queries, dense[split], strict=True):
                assert query.vector is not None  # noqa: S101 -- every question was embedded
                vector = query.vector + share * vectors[ranking.rows[:chunks]].mean(axis=0)
                moved.append(Query(query.text, vector / np.linalg.norm(vector)))
            searcher = Dense(k=DEPTH).open(study.data.index, study.data.context)
            arm[split] = [searcher.search(query) for query in moved]
        study.line("dense + Rocchio", arm, f"{chunks} chunks, {share}")


def speeds(study: Study) -> None:
    """Print BM25's query time beside rank-bm25's, and the time of choosing weights."""
    import rank_bm25

    index, queries = study.data.index, study.data.test.queries
    corpus = [plain_tokens(text) for text in index.chunks["text"]]
    for variant, library in (
        ("okapi", rank_bm25.BM25Okapi),
        ("plus", rank_bm25.BM25Plus),
        ("l", rank_bm25.BM25L),
    ):
        model = library(corpus)
        ours, theirs, differs = [], [], 0.0
        recipe = Bm25.model_validate({"variant": variant, **TOKENIZERS["plain"]})
        searcher = recipe.open(index, study.data.context)
        searcher.search(queries[0])
        for query in queries:
            begin = time.perf_counter()
            ranking = searcher.search(query)
            middle = time.perf_counter()
            scores = model.get_scores(plain_tokens(query.text))
            np.argsort(-scores, kind="stable")[:10]
            theirs.append(time.perf_counter() - middle)
            ours.append(middle - begin)
            differs = max(differs, float(np.abs(scores[ranking.rows] - ranking.scores).max(initial=0)))
        ratio = sum(theirs) / sum(ours)
        print(
            f"bm25 {variant}: {1000 * np.median(ours):.3f} ms a query, "
            f"rank-bm25 {1000 * np.median(theirs):.2f} ms: {ratio:.0f} times as fast; "
            f"largest difference of a score {differs:.1e}"
        )


def tuning_speed(study: Study, arms: Sequence[Arm]) -> None:
    """Print how long 178 weights over two rankings of depth 1,000 take for 300 questions."""
    questions = study.data.train.with_arms([arm["train"] for arm in arms])[:300]
    for name, method in (("weighted", Weighted()), ("rrf", Rrf()), ("geometric", Geometric())):
        begin = time.perf_counter()
        tuned = choose_weights(questions, method, DEPTH)
        seconds = time.perf_counter() - begin
        print(f"{len(tuned.tried)} weights, {len(questions)} questions, {name}: {seconds:.2f} s")


def _written(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def main(folder: Path) -> None:
    """Print the table of steps, then the speeds."""
    begin = time.perf_counter()
    study = Study(read(folder, home()))
    print(
        f"{len(study.data.index)} abstracts, {len(study.data.train.queries)} train and "
        f"{len(study.data.test.queries)} test questions"
    )
    print("| step | chosen on train | train | test |\n|---|---|---|---|")
    dense = study.arm(Dense(k=DEPTH))
    study.line("dense, MiniLM", dense)
    default = study.arm(Bm25.model_validate({"tokenizer": "lemmatised", "title": 0, "k": DEPTH}))
    study.fusion("bm25 okapi lemmatised, defaults + dense: rrf, k 60", [default, dense], Rrf())
    study.fusion("bm25 okapi lemmatised, defaults + dense: weighted, sum", [default, dense], SUM)
    chosen = lexical(study)
    lemmatised = study.arm(Bm25.model_validate({**chosen["lemmatised"], "k": DEPTH}))
    study.fusion("bm25, lemmatised + dense: weighted, sum", [lemmatised, dense], SUM)
    alone = study.arm(Bm25.model_validate({**chosen["stemmed, no function words"], "k": DEPTH}))
    study.fusion("bm25, stemmed, no function words + dense: weighted, sum", [alone, dense], SUM)
    base = for_fusion(study, dense)
    best = study.arm(Bm25.model_validate({**base, "k": DEPTH}))
    study.line("bm25 chosen by its fusion", best, _written(base))
    for name, method in methods():
        study.fusion(f"bm25 chosen by its fusion + dense: {name}", [best, dense], method)
    study.fusion("the same with a third arm, lemmatised: weighted, sum", [best, lemmatised, dense], SUM)
    for name, arm in widened(study, base).items():
        study.fusion(f"bm25 with {name} + dense: weighted, sum", [arm, dense], SUM)
    vector_feedback(study, dense)
    print(f"the table took {time.perf_counter() - begin:.0f} s")
    speeds(study)
    tuning_speed(study, [best, dense])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/scifact"))
