"""Weights are chosen as trying them one by one, through the product's own fusion and metrics, would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals import metrics
from rag_assay.evals.metrics import get_metric, has_depth
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.metrics.ranking_metrics import EvidenceCoverage, HitRate, Mrr, Ndcg, Recall
from rag_assay.evals.retrieval.context import Memory, RetrievalContext
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
from rag_assay.evals.retrieval.fusion_tuning import (
    Bench,
    TrainCase,
    TrainQuestion,
    Worth,
    _middle,
    apart,
    choose_weights,
    grid,
    tune_retriever,
)
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.query_runner import hits_of
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.spans import Span
from tests.fakes.indexing import build_index

METRICS: dict[str, RetrievalMetric] = {
    one.name: one for one in (Ndcg(3), Mrr(4), Recall(5), HitRate(2), EvidenceCoverage(4))
}
CHUNKS = 60
ASKED = 6


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """Two chunks a document, d000 to d029."""
    return build_index(tmp_path_factory.mktemp("index"), [f"text {number}" for number in range(CHUNKS)])


def arm(rows: list[int], scores: list[float]) -> Ranking:
    return Ranking.best(np.array(rows, np.int64), np.array(scores, np.float64), 1_000)


def gold(*documents: int, needs_all: bool = True) -> Gold:
    names = [f"d{number:03}" for number in documents]
    spans = tuple(Span(name, 1, 5) for name in names)
    return Gold({name: 1 + n for n, name in enumerate(names)}, spans, needs_all=needs_all)


def made_up(index: OpenIndex, metric: RetrievalMetric, arms: int, depth: int = 20) -> list[TrainQuestion]:
    """Rankings with many equal scores; gold of which some is in no ranking, every other question's any."""
    chance = np.random.default_rng(arms)
    return [
        TrainQuestion(
            [
                arm(
                    chance.choice(CHUNKS, depth, replace=False).tolist(),
                    chance.integers(0, 6, depth).astype(float).tolist(),
                )
                for _ in range(arms)
            ],
            Worth(metric, gold(*chance.choice(32, 3, replace=False), needs_all=number % 2 == 0), index),
        )
        for number in range(ASKED)
    ]


def reported(question: TrainQuestion, ranking: Ranking) -> float:
    """What the stage of scores would make of the ranking."""
    index, worth = question.worth.index, question.worth
    hits = [hit.span for hit in hits_of(ranking, index)]
    return worth.metric.value(worth.gold, hits)


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
@pytest.mark.parametrize(("arms", "k"), [(2, 40), (3, 6)])
def test_the_curve_is_what_would_be_reported_of_each_choice(
    index: OpenIndex, arms: int, k: int, method: Method, metric: str
) -> None:
    questions = made_up(index, METRICS[metric], arms)
    tuned = choose_weights(questions, method, k, points=6)
    for weights, value in zip(tuned.tried, tuned.values, strict=True):
        found = [fuse_rankings(question.rankings, tuple(weights), method, k) for question in questions]
        expected = [reported(*pair) for pair in zip(questions, found, strict=True)]
        assert value == pytest.approx(np.mean(expected), abs=1e-12)
    assert tuned.value == tuned.values.max()
    assert tuned.questions == ASKED


def test_any_evidence_suffices_where_the_question_says_so(index: OpenIndex) -> None:
    # The first arm has one of two documents at the top, and the other nowhere.
    rankings = [arm([2, 40, 42], [3, 2, 1]), arm([50, 52, 4], [3, 2, 1])]
    values = {}
    for needs_all in (True, False):
        worth = Worth(Recall(2), gold(1, 2, needs_all=needs_all), index)
        values[needs_all] = choose_weights([TrainQuestion(rankings, worth)], Weighted(), 3, 5).values[-1]
    assert values == {True: 0.5, False: 1.0}


def test_chunks_that_share_what_is_delivered_count_once(tmp_path: Path) -> None:
    columns = {"context_start": [0, 0, 0, 0, 0], "context_end": [9] * 5}
    index = build_index(tmp_path, ["text one"] * 5, columns=columns)
    question = TrainQuestion(
        [arm([0, 1, 2], [3, 2, 1]), arm([0, 1, 2], [3, 2, 1])],
        Worth(EvidenceCoverage(2), Gold({"d001": 1}, (Span("d001", 0, 9),)), index),
    )
    # The chunks 0 and 1 deliver the same passage: 2 is the second one.
    assert choose_weights([question], Weighted(), 10, 5).value == 1.0


def test_steps_that_follow_are_tried_with_the_fusion(index: OpenIndex) -> None:
    rankings = [arm([2, 40], [1, 0]), arm([40, 2], [1, 0])]
    found = gold(1)
    without = TrainQuestion(rankings, Worth(Mrr(5), found, index))
    cut = TrainQuestion(rankings, Worth(Mrr(5), found, index, (lambda ranking: ranking.take(slice(1)),)))
    assert choose_weights([without], Weighted(), 5, 5).values.tolist() == [0.5, 0.5, 1.0, 1.0, 1.0]
    assert choose_weights([cut], Weighted(), 5, 5).values.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", filter(has_depth, metrics.METRICS.built_in))
def test_what_stands_after_the_kth_document_changes_no_metric(name: str) -> None:
    metric = get_metric(f"{name}@3")
    assert isinstance(metric, RetrievalMetric)
    chance = np.random.default_rng(4)
    for needs_all in (True, False):
        hits = [Span(f"d{doc:03}", 0, 9) for doc in chance.integers(0, 6, 30)]
        documents = [span.doc_id for span in hits]
        enough = next(n for n in range(31) if len(set(documents[:n])) == 3)
        wanted = gold(1, 3, 5, needs_all=needs_all)
        assert metric.value(wanted, hits[:enough]) == metric.value(wanted, hits)


def test_the_middle_of_a_plateau_is_taken(index: OpenIndex) -> None:
    # The first arm is right about row 2, the second prefers row 4: any weight above 1/2 will do.
    rankings = [arm([2, 4], [1, 0]), arm([4, 2], [1, 0])]
    tuned = choose_weights([TrainQuestion(rankings, Worth(Mrr(10), gold(1), index))], Weighted(), 10, 101)
    best = np.flatnonzero(tuned.values == 1)
    assert tuned.tried[best][0].tolist() == [0.5, 0.5]  # equal scores: row 2 comes first
    assert tuned.weights == pytest.approx((0.75, 0.25))


def test_the_longest_of_two_plateaus_is_taken() -> None:
    values = np.array([1, 0, 1, 1, 1, 0, 1, 1], np.float64)
    assert _middle(grid(2, 8), np.flatnonzero(values == 1)) == 3


def test_a_useless_arm_gets_little(index: OpenIndex) -> None:
    chance = np.random.default_rng(2)
    questions = []
    for _ in range(20):
        wanted = int(chance.integers(CHUNKS // 2))
        good = chance.normal(size=CHUNKS)
        good[2 * wanted] += 4
        noise = [chance.normal(size=CHUNKS) for _ in range(2)]
        rankings = [arm(list(range(CHUNKS)), scores.tolist()) for scores in (good, *noise)]
        questions.append(TrainQuestion(rankings, Worth(Ndcg(10), gold(wanted), index)))
    tuned = choose_weights(questions, Weighted(), 60)
    assert tuned.weights[0] > 0.7
    assert sum(tuned.weights) == pytest.approx(1)


def test_a_question_that_no_arm_answers_counts_0(index: OpenIndex) -> None:
    found = TrainQuestion([arm([2], [1]), nothing()], Worth(Mrr(10), gold(1), index))
    lost = TrainQuestion([nothing(), nothing()], Worth(Mrr(10), gold(1), index))
    assert choose_weights([found, lost], Weighted(), 10, 5).value == 0.5


@pytest.mark.parametrize("arms", [2, 3, 4, 5])
def test_a_grid_covers_the_corners_and_adds_up(arms: int) -> None:
    weights = grid(arms)
    assert len(weights) <= 178
    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights >= 0).all()
    assert len(np.unique(weights, axis=0)) == len(weights)
    assert (weights.max(axis=1) == 1).sum() == arms


def test_what_cannot_be_tuned_is_told() -> None:
    with pytest.raises(InputError, match="holds no question"):
        choose_weights([], Weighted(), 10)


def test_178_weights_are_tried_on_rankings_of_depth_1000(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["text"] * 1_500)
    chance = np.random.default_rng(1)
    rankings = [
        arm(chance.permutation(1_500)[:1_000].tolist(), chance.random(1_000).tolist()) for _ in range(2)
    ]
    question = TrainQuestion(rankings, Worth(Ndcg(10), gold(5, 300), index))
    assert choose_weights([question], Weighted(), 1_000).tried.shape == (178, 2)


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


def test_a_retriever_is_tuned_from_its_inner_parts_out(index: OpenIndex) -> None:
    """Arms by their own rankings, a chain by what it delivers; nothing is left behind in the memory."""
    inner = {"fuse": {"of": [{"bm25": {}}, {"recency": {}}], "weights": "tuned"}}
    written = [{"fuse": {"of": [inner, {"fulltext": {}}], "weights": "tuned"}}, {"top": {"k": 3}}]
    chain = read_retriever({"graph": {"of": written, "similarity": 0.1}})
    context = RetrievalContext(memory=Memory())
    docs = index.chunks["doc_id"].to_list()
    cases = [TrainCase(Query(index.chunks["text"][row]), Gold({docs[row]: 1})) for row in (0, 7, 20)]
    found = tune_retriever(chain, cases, Bench(index, context, Ndcg(3)))
    assert [one.arms for one in found.chosen] == [("bm25", "recency"), ("fuse", "fulltext")]
    assert all(sum(one.weights) == pytest.approx(1) and one.questions == 3 for one in found.chosen)
    assert not found.retriever.needs_tuning
    assert found.retriever.at_depth(7).k == 7
    assert chain.needs_tuning, "the recipe itself is as it was"
    assert not context.memory or not context.memory.held
    again = tune_retriever(found.retriever, cases, Bench(index, context, Ndcg(3)))
    assert (again.retriever, again.chosen) == (found.retriever, ())
    with pytest.raises(InputError, match="none have been chosen"):
        chain.open(index, context).search(Query("ferry"))
