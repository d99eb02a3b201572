"""RM3, by sums that a reader can check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.evals.retrieval.bm25 import Bm25, RelevanceFeedback, interpolate_models
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.retrieval.terms import WordsOfChunks
from tests.fakes.indexing import build_index, query, searched

TEXTS = ["ferry quay quay quay", "ferry noon", "lamp", "quay lamp lamp lamp"]


def ranking(rows: list[int], scores: list[float]) -> Ranking:
    return Ranking(np.array(rows, np.int64), np.array(scores, np.float64))


def test_a_relevance_model_by_hand() -> None:
    corpus = WordsOfChunks.of(lexical_of(TEXTS))
    found = interpolate_models(
        {"ferry": 1.0},
        ranking([0, 1, 2], [3.0, 1.0, 0.5]),
        corpus,
        RelevanceFeedback(chunks=2, words=2, original=0.6),
    )
    # The first chunk has 3/4 of the two scores, the second 1/4:
    # P(quay) = 3/4 * 3/4 = 9/16, P(ferry) = 3/4 * 1/4 + 1/4 * 1/2 = 5/16, P(noon) = 1/4 * 1/2 = 2/16.
    # The two best words have 14/16 of it, and get 0.4 between them; ferry keeps 0.6 of its own 1.
    assert found == pytest.approx({"ferry": 0.6 + 0.4 * 5 / 14, "quay": 0.4 * 9 / 14})
    assert sum(found.values()) == pytest.approx(1.0)


def test_common_words_are_not_added() -> None:
    texts = ["the ferry quay", *["the"] * 30]
    corpus = WordsOfChunks.of(lexical_of(texts))
    found = interpolate_models({"ferry": 2.0}, ranking([0], [1.0]), corpus, RelevanceFeedback(original=0.5))
    assert found == pytest.approx({"ferry": 2 * (0.5 + 0.25), "quay": 2 * 0.25})


def test_feedback_finds_what_the_question_does_not_say(tmp_path: Path) -> None:
    index = build_index(tmp_path, TEXTS)
    assert searched(Bm25(variant="plus"), query("ferry"), index).rows.tolist() == [1, 0]
    found = searched(
        Bm25.model_validate({"variant": "plus", "feedback": {"chunks": 2, "words": 3}}), query("ferry"), index
    )
    assert set(found.rows.tolist()) == {0, 1, 3}  # chunk 3 by `quay`


def test_a_filter_takes_away_and_changes_nothing_else(tmp_path: Path) -> None:
    index = build_index(tmp_path, TEXTS)
    recipe = Bm25.model_validate({"variant": "plus", "feedback": {}})
    free = searched(recipe, query("ferry"), index)
    found = searched(recipe, Query("ferry", allowed=np.array([False, True, True, True])), index)
    assert found.rows.tolist() == [row for row in free.rows if row != 0]
    assert 3 in found.rows  # by `quay`, though the chunk that brought it in is not allowed
    assert set(found.scores) < set(free.scores)


@pytest.mark.parametrize("scores", [[0.0, 0.0], [-1.0, -2.0]])
def test_a_ranking_without_a_positive_score_changes_nothing(scores: list[float]) -> None:
    corpus = WordsOfChunks.of(lexical_of(TEXTS))
    assert interpolate_models({"ferry": 1.0}, ranking([0, 1], scores), corpus, RelevanceFeedback()) == {
        "ferry": 1.0
    }
    assert interpolate_models({"ferry": 1.0}, nothing(), corpus, RelevanceFeedback()) == {"ferry": 1.0}
