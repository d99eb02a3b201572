"""What is left out of a sum changes no ranking: BM25 with pruning against the full sum, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rag_assay.assets.indexing.lexical import Lexical, lexical_of
from rag_assay.evals.retrieval import terms
from rag_assay.evals.retrieval.ranking import Mask, Ranking, lower_bound
from rag_assay.evals.retrieval.terms import Bm25Scores, Parameters, Variant

VARIANTS: tuple[Variant, ...] = ("okapi", "plus", "l", "lower_bounded")


def corpus(chunks: int, seed: int) -> Lexical:
    """Words whose frequencies fall as 1 / rank, in chunks of up to 30 words, some of them equal."""
    chance = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(200)])
    shares = 1 / np.arange(1, 201)
    texts = [
        " ".join(chance.choice(words, size=chance.integers(0, 30), p=shares / shares.sum()))
        for _ in range(chunks)
    ]
    return lexical_of([*texts, *texts[: chunks // 10]])


def full_sum(model: Bm25Scores, words: dict[str, float], k: int, allowed: Mask | None) -> Ranking:
    """Add up every word for every chunk, in the order of the words."""
    total = np.zeros(len(model.norms))
    found = np.zeros(len(model.norms), np.bool_)
    constant = 0.0
    for word, weight in words.items():
        if word in model.lexical.numbers:
            rows, counts = model.lexical.postings(word)
            idf = weight * model.idf[model.lexical.numbers[word]]
            total[rows] += idf * model._saturated(rows, counts)
            found[rows] = True
            constant += idf
    rows = np.flatnonzero(found if allowed is None else found & allowed)
    is_plus = model.parameters.variant == "plus"
    return Ranking.best(rows, total[rows] + (model.parameters.delta * constant if is_plus else 0.0), k)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
def test_pruning_changes_no_bit(variant: Variant, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "LONG", 20)
    monkeypatch.setattr(terms, "HELD", 3_000)  # so that saturations are dropped, too
    chance = np.random.default_rng(seed)
    lexical = corpus(1_500, seed)
    epsilon = float(seed % 2)  # 0: a word in more than half of the chunks adds nothing, and is found
    model = Bm25Scores.of(
        lexical, Parameters(variant, 1.5, 0.75, epsilon, 0.0 if variant == "okapi" else 0.7)
    )
    allowed = chance.random(len(lexical.lengths)) < 0.3
    for _ in range(30):
        drawn = chance.zipf(1.3, size=chance.integers(1, 8)) % 220
        words = {f"w{number}": float(chance.choice([1, 1, 2, 0.3])) for number in drawn.tolist()}
        for k in (1, 10, 2_000):
            for permitted in (None, allowed, np.zeros_like(allowed)):
                found = model.best(words, k, permitted)
                expected = full_sum(model, words, k, permitted)
                assert found.rows.tolist() == expected.rows.tolist()
                assert found.scores.tolist() == expected.scores.tolist()


def test_a_frequent_word_is_not_added_up_beside_a_rare_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "LONG", 20)
    texts = ["rare often"] * 5 + ["often other"] * 400 + ["nothing here"] * 1_555
    model = Bm25Scores.of(lexical_of(texts), Parameters("okapi", 1.5, 0.75, 0.25, 0.0))
    added: list[int] = []
    add = Bm25Scores._add
    monkeypatch.setattr(
        Bm25Scores, "_add", lambda self, word, total: (added.append(word.number), add(self, word, total))[1]
    )
    numbers = model.lexical.numbers
    assert model.best({"often": 1.0, "rare": 1.0}, 3).rows.tolist() == [0, 1, 2]
    assert added == [numbers["rare"]]
    assert len(model.best({"often": 1.0, "rare": 1.0}, 405)) == 405, "those without the rare word are needed"
    assert added == [numbers["rare"], numbers["rare"], numbers["often"]]


def test_memory_of_kept_saturations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "HELD", 500)
    lexical = corpus(300, 1)
    model = Bm25Scores.of(lexical, Parameters("okapi", 1.5, 0.75, 0.25, 0.0))
    for word in lexical.words:
        model.best({word: 1.0}, 10)
        assert sum(map(len, model._kept.values())) <= 500
    assert model._kept
    assert replace(model)._held == sum(map(len, model._kept.values()))


@pytest.mark.parametrize("k", [1, 3, 100, 5_000])
def test_at_least_k_scores_reach_the_lower_bound(k: int) -> None:
    chance = np.random.default_rng(k)
    for scores in (
        chance.random(4_999),
        np.zeros(4_999),
        np.arange(4_999.0),
        chance.integers(0, 3, 4_999) / 1,
    ):
        bound = lower_bound(scores, k)
        assert (np.count_nonzero(scores >= bound) >= k) == (k <= 4_999)
        assert bound <= np.sort(scores)[-min(k, 4_999)]
