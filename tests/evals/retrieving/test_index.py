from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assets.indexing.recipe import IndexRecipe
from evals.retrieving.dense import Dense
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index, query

WORDS = ["ferry", "quay", "lamp", "keeper", "storm", "tide", "anchor", "crane"]
COUNT = 1_000


def text(number: int) -> str:
    return " ".join(np.random.default_rng(number).choice(WORDS, 6))


@pytest.fixture(scope="module")
def approximate(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """Many texts are alike, so that there are ties; even numbers are German."""
    languages = ["de" if number % 2 == 0 else "en" for number in range(COUNT)]
    return build_index(
        tmp_path_factory.mktemp("index"),
        [text(number) for number in range(COUNT)],
        columns={"language": languages},
        recipe=IndexRecipe(search="hnsw", ef_construction=60),
    )


def test_an_approximate_search_gives_the_scores_of_an_exact_one(approximate: OpenIndex) -> None:
    assert approximate.has_ann
    hits = 0
    for number in range(30):
        asked = query(f"ferry {text(number)} tide")
        assert asked.vector is not None
        exact = Dense(k=COUNT).rank(asked, approximate)
        scores = dict(zip(exact.rows.tolist(), exact.scores.tolist(), strict=True))
        rows, found = approximate.search_ann(asked.vector, 10)
        assert len(set(rows.tolist())) == 10
        assert found.tolist() == [scores[row] for row in rows], "bit by bit"
        assert [(-score, row) for row, score in zip(rows, found, strict=True)] == sorted(
            (-score, row) for row, score in zip(rows, found, strict=True)
        ), "falling, ties by position"
        hits += int((found >= exact.scores[9]).sum())
    assert hits / 300 >= 0.9


def test_an_approximate_search_keeps_to_a_predicate(approximate: OpenIndex) -> None:
    asked = query("lamp keeper")
    assert asked.vector is not None
    rows, scores = approximate.search_ann(asked.vector, 50, "language = 'de'")
    assert len(rows) == len(scores) == 50
    assert (rows % 2 == 0).all()
    assert not len(approximate.search_ann(asked.vector, 5, "language = 'fr'")[0])


def test_an_exact_index_has_no_approximate_search(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["one", "two"])
    assert not index.has_ann
    with pytest.raises(ValueError, match="searched exactly"):
        index.search_ann(np.zeros(24, np.float32), 1)


def test_dates_are_sortable_and_unknown_ones_are_not_times(tmp_path: Path) -> None:
    dates = ["2019-05", "2019-05-01T23:30:00+05:00", None, "whenever", "2018"]
    index = build_index(tmp_path, list("abcde"), columns={"published_at": dates})
    assert index.published.dtype == np.dtype("datetime64[s]")
    assert [str(day) for day in index.published] == [
        "2019-05-01T00:00:00",
        "2019-05-01T23:30:00",
        "NaT",
        "NaT",
        "2018-01-01T00:00:00",
    ]
    days = index.chunks["published_on"]
    assert days.dtype == pl.Date
    assert days.cast(pl.String).to_list() == ["2019-05-01", "2019-05-01", None, None, "2018-01-01"]
    assert np.array_equal(
        index.published.astype("datetime64[D]"), days.to_numpy().astype("datetime64[D]"), equal_nan=True
    )


def test_words_are_searched_without_reading_vectors(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["the ferry", "the quay", "a lamp"])
    assert len(index) == 3
    assert "vector" not in index.chunks.columns
    assert index.lexical.postings("ferry")[0].tolist() == [0]
    assert "vectors" not in vars(index)
    assert index.vectors.shape == (3, 24)
    for number, chunk in enumerate(index.chunks["text"]):
        vector = query(chunk).vector
        assert vector is not None
        assert np.array_equal(index.vectors[number], vector), "each chunk has its own"


def test_an_empty_index_opens(tmp_path: Path) -> None:
    index = build_index(tmp_path, [])
    assert len(index) == 0
    assert index.vectors.shape[0] == 0
    assert not len(index.published)
