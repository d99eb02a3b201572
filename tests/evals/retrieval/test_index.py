from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.index import OpenIndex
from tests.fakes.indexing import build_index, query, searched

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
        exact = searched(Dense(k=COUNT), asked, approximate)
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


def test_what_is_computed_of_an_index_is_computed_once(tmp_path: Path) -> None:
    computed: list[int] = []

    def longer_than(index: OpenIndex, letters: int) -> list[str]:
        computed.append(letters)
        return [word for word in index.lexical.words if len(word) > letters]

    first, second = build_index(tmp_path / "1", ["a ferry"]), build_index(tmp_path / "2", ["an anchor"])
    assert first.derived(longer_than, 2) == ["ferry"]
    assert first.derived(longer_than, 2) is first.derived(longer_than, 2)
    assert second.derived(longer_than, 2) == ["anchor"], "each index has its own"
    assert first.derived(longer_than, 0) == ["a", "ferry"]
    assert computed == [2, 2, 0]


def test_facts_of_chunks_lie_in_their_order(tmp_path: Path) -> None:
    columns = {
        "published_at": ["2020-05-02", None, "2019", "2020-05-02"],
        "keywords": [["Quay", "Quay"], None, [], ["Lamp", "Quay"]],
        "title": ["T", None, "", "U"],
    }
    index = build_index(tmp_path, ["one", "two", "three", "four"], columns=columns)
    moments, places = index.moments
    assert [str(one) for one in moments] == ["2019-01-01T00:00:00", "2020-05-02T00:00:00", "NaT"]
    assert places.tolist() == [1, 2, 0, 1]
    assert [str(day) for day in index.days] == ["2020-05-02", "None", "2019-01-01", "2020-05-02"]
    assert {word: rows.tolist() for word, rows in index.carriers.items()} == {"Quay": [0, 3], "Lamp": [3]}
    assert index.spans.at(np.array([3, 0])) == [("d001", 1000, 1004), ("d000", 0, 3)]
    assert index.spans.within(np.array([1]), np.array([[2, 9]])) == [("d000", 2, 9)]
    assert {doc: rows.tolist() for doc, rows in index.spans.rows.items()} == {"d000": [0, 1], "d001": [2, 3]}


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
