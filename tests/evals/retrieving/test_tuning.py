"""Weights are chosen as trying them one by one, through the product's own fusion and metrics, would."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from evals.measuring.contract import Gold, Span
from evals.measuring.hit_rate import HitRate
from evals.measuring.mrr import Mrr
from evals.measuring.ndcg import Ndcg
from evals.measuring.recall import Recall
from evals.retrieving.contract import Ranking, nothing
from evals.retrieving.fusing import fused
from evals.retrieving.methods import (
    Arithmetic,
    Geometric,
    Harmonic,
    Max,
    Method,
    RelativeScore,
    Rrf,
    Weighted,
)
from evals.retrieving.tuning import TrainQuestion, _middle, apart, choose_weights, grid
from warehouse.errors import InputError

METRICS = {"ndcg@3": Ndcg(3), "mrr@4": Mrr(4), "recall@5": Recall(5), "hit_rate@2": HitRate(2)}


def arm(rows: list[int], scores: list[float]) -> Ranking:
    return Ranking.best(np.array(rows, np.int64), np.array(scores, np.float64), 1_000)


def made_up(arms: int, chunks: int, depth: int, seed: int) -> list[TrainQuestion]:
    """Rankings with many equal scores, and grades of documents of which some are in no ranking."""
    chance = np.random.default_rng(seed)
    return [
        TrainQuestion(
            [
                arm(
                    chance.choice(chunks, depth, replace=False).tolist(),
                    chance.integers(0, 6, depth).astype(float).tolist(),
                )
                for _ in range(arms)
            ],
            {int(doc): float(chance.integers(1, 4)) for doc in chance.choice(chunks // 2, 3, replace=False)},
        )
        for _ in range(12)
    ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "method",
    [
        Rrf(),
        Weighted(),
        Weighted(normalise="z_score"),
        Max(),
        Arithmetic(),
        RelativeScore(),
        Geometric(),
        Harmonic(),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("arms", [2, 3])
def test_the_curve_is_that_of_trying_each_choice(arms: int, method: Method, metric: str) -> None:
    questions = made_up(arms, 60, 20, seed=arms)
    documents = np.arange(60) // 2  # two chunks a document: it stands at its better one
    tuned = choose_weights(questions, documents, method, metric, points=12)
    for weights, value in zip(tuned.tried, tuned.values, strict=True):
        expected = []
        for question in questions:
            ranking = fused(question.rankings, tuple(weights), method, 1_000)
            hits = [Span(f"{documents[row]}", int(row), int(row) + 1) for row in ranking.rows]
            gold = Gold({f"{doc}": int(grade) for doc, grade in question.grades.items()})
            expected.append(METRICS[metric].value(gold, hits))
        assert value == pytest.approx(np.mean(expected), abs=1e-12)
    assert tuned.value == tuned.values.max()
    assert tuned.questions == 12


def test_the_middle_of_a_plateau_is_taken() -> None:
    # The first arm is right about row 1, the second prefers row 2: any weight above 1/2 will do.
    question = TrainQuestion([arm([1, 2], [1, 0]), arm([2, 1], [1, 0])], {1: 1.0})
    tuned = choose_weights([question], np.arange(3), Weighted(), "mrr@10", points=101)
    best = np.flatnonzero(tuned.values == 1)
    assert tuned.tried[best][0].tolist() == [0.5, 0.5]  # equal scores: row 1 comes first
    assert tuned.weights == pytest.approx((0.75, 0.25))


def test_the_longest_of_two_plateaus_is_taken() -> None:
    values = np.array([1, 0, 1, 1, 1, 0, 1, 1], np.float64)
    assert _middle(grid(2, 8), np.flatnonzero(values == 1)) == 3


def test_a_useless_arm_gets_little() -> None:
    chance = np.random.default_rng(2)
    questions = []
    for _ in range(60):
        gold = int(chance.integers(100))
        good = chance.normal(size=100)
        good[gold] += 4
        noise = [chance.normal(size=100) for _ in range(2)]
        rankings = [arm(list(range(100)), scores.tolist()) for scores in (good, *noise)]
        questions.append(TrainQuestion(rankings, {gold: 1.0}))
    tuned = choose_weights(questions, np.arange(100), Weighted())
    assert tuned.weights[0] > 0.7
    assert sum(tuned.weights) == pytest.approx(1)


def test_a_question_that_no_arm_answers_counts_0() -> None:
    found = TrainQuestion([arm([1], [1]), nothing()], {1: 1.0})
    lost = TrainQuestion([nothing(), nothing()], {1: 1.0})
    assert choose_weights([found, lost], np.arange(3), Weighted(), "mrr@10", 5).value == 0.5


@pytest.mark.parametrize("arms", [2, 3, 4, 5])
def test_a_grid_covers_the_corners_and_adds_up(arms: int) -> None:
    weights = grid(arms)
    assert len(weights) <= 178
    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights >= 0).all()
    assert len(np.unique(weights, axis=0)) == len(weights)
    assert (weights.max(axis=1) == 1).sum() == arms


def test_what_cannot_be_tuned_is_told() -> None:
    question = TrainQuestion([arm([1], [1]), arm([2], [1])], {1: 1.0})
    for questions, metric, message in (
        ([], "ndcg@10", "holds no question"),
        ([question._replace(grades={})], "ndcg@10", "no graded document"),
        ([question], "bleu@10", "not by 'bleu@10'"),
        ([question], "ndcg", "not by 'ndcg'"),
    ):
        with pytest.raises(InputError, match=message):
            choose_weights(questions, np.arange(3), Weighted(), metric)


def test_178_weights_are_tried_on_rankings_of_depth_1000() -> None:
    chance = np.random.default_rng(1)
    questions = [
        TrainQuestion(
            [
                arm(chance.permutation(5_000)[:1_000].tolist(), chance.random(1_000).tolist())
                for _ in range(2)
            ],
            {int(doc): 1.0 for doc in chance.integers(0, 5_000, 2)},
        )
        for _ in range(3)  # `benchmarks/scifact.py` prints the time of 300
    ]
    assert choose_weights(questions, np.arange(5_000), Weighted()).tried.shape == (178, 2)


def questions(*rows: tuple[str, str, list[str]]) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "question_id": pl.String,
        "question": pl.String,
        "conversation": pl.List(pl.String),
    }
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_a_train_question_that_is_asked_too_is_not_tuned_on() -> None:
    asked = questions(
        ("1", "Obesity decreases life quality.", []), ("2", "And in winter?", ["When?", "At noon."])
    )
    train = questions(
        ("3", "  OBESITY decreases life  quality", []),  # another id, case, space and sign: the same question
        ("4", "And in winter?", ["When?", "At noon."]),
        ("5", "And in winter?", ["What does it cost?", "Two pounds."]),  # asks something else
        ("6", "Obesity decreases quality of life.", []),
    )
    assert apart(train, asked)["question_id"].to_list() == ["5", "6"]
    assert apart(train, asked.clear())["question_id"].to_list() == ["3", "4", "5", "6"]
    with pytest.raises(InputError, match="every train question is a test question"):
        apart(train.head(2), asked)
