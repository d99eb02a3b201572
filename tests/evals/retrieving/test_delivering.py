from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals.retrieving.contract import Ranking
from evals.retrieving.delivering import Deduplicate, Neighbours, TokenBudget, passages
from evals.retrieving.index import OpenIndex
from evals.retrieving.ordering import DocumentOrder, GroupByDocument, LostInTheMiddle, RecentFirst
from tests.fakes.indexing import build_index, query

A = ("One two. ", "Three four. ", "Five six. ", "Seven eight. ", "Nine ten.")  # chunks of document a
B = ("Alpha beta gamma.", "Delta.")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    texts = [*A, *B]
    docs = ["a"] * 5 + ["b"] * 2
    starts = [sum(map(len, A[:n])) for n in range(5)] + [0, len(B[0]) + 1]
    ends = [start + len(text.rstrip()) for start, text in zip(starts, texts, strict=True)]
    columns = {
        **{"doc_id": docs, "ordinal": [*range(5), 0, 1], "gap": [" "] * 4 + ["", " ", ""]},
        **{"start": starts, "end": ends, "context_start": starts, "context_end": ends},
        **{"title": ["Report 2023"] * 5 + ["Report 2024"] * 2, "n_tokens": [3, 3, 3, 3, 2, 4, 2]},
        "published_at": ["2023-01-01"] * 5 + ["2024-01-01"] * 2,
    }
    return build_index(tmp_path_factory.mktemp("index"), [t.rstrip() for t in texts], columns=columns)


def ranking(*rows: int) -> Ranking:
    return Ranking(np.array(rows, np.int64), np.arange(len(rows), 0, -1).astype(np.float64))


def test_neighbours_are_delivered_once(index: OpenIndex) -> None:
    found = Neighbours(n=1).apply(ranking(1, 5), query("?"), index)
    assert found.rows.tolist() == [1, 5]
    assert passages(found, index) == ["One two. Three four. Five six.", "Alpha beta gamma. Delta."]
    # 3 and 1 share chunk 2, and 0 lies in what 1 brings: one passage, at the place of the best of them.
    found = Neighbours(n=1).apply(ranking(5, 3, 1, 0), query("?"), index)
    assert found.rows.tolist() == [5, 3]
    assert found.scores.tolist() == [4, 3]
    assert passages(found, index)[1] == "".join(A)


def test_two_neighbours_reach_to_the_ends(index: OpenIndex) -> None:
    found = Neighbours(n=2).apply(ranking(4, 6), query("?"), index)
    assert passages(found, index) == ["Five six. Seven eight. Nine ten.", "Alpha beta gamma. Delta."]


def test_stretches_that_touch_but_for_white_space_become_one(index: OpenIndex) -> None:
    found = Neighbours(n=1).apply(ranking(0, 3), query("?"), index)
    assert passages(found, index) == ["".join(A)]  # 0..1 and 2..4


def test_tokens_are_those_of_chunks_or_their_share(index: OpenIndex) -> None:
    assert len(TokenBudget(tokens=6).apply(ranking(0, 1, 2), query("?"), index)) == 2
    assert TokenBudget(tokens=7).apply(ranking(0, 5, 6, 4), query("?"), index).rows.tolist() == [0, 5]
    assert TokenBudget(tokens=5).apply(ranking(0, 5, 6), query("?"), index).rows.tolist() == [0]
    assert TokenBudget(tokens=5, skip=True).apply(ranking(0, 5, 6), query("?"), index).rows.tolist() == [0, 6]
    wide = Neighbours(n=1).apply(
        ranking(0), query("?"), index
    )  # 20 characters, 19 of them in chunks of 6 tokens
    assert len(TokenBudget(tokens=7).apply(wide, query("?"), index)) == 1  # 20 * 6 / 19 = 6.3
    assert len(TokenBudget(tokens=6).apply(wide, query("?"), index)) == 0


def test_equal_and_nearly_equal_texts(tmp_path: Path) -> None:
    index = build_index(
        tmp_path, ["The ferry leaves.", "the FERRY leaves", "The ferry leaves late.", "!", "?"]
    )
    everything = ranking(0, 1, 2, 3, 4)
    assert Deduplicate().apply(everything, query("?"), index).rows.tolist() == [0, 2, 3, 4]
    assert Deduplicate(jaccard=0.75).apply(everything, query("?"), index).rows.tolist() == [0, 3, 4]  # 3 of 4
    assert Deduplicate(jaccard=0.76).apply(everything, query("?"), index).rows.tolist() == [0, 2, 3, 4]


def test_documents_by_the_sum_of_their_scores(index: OpenIndex) -> None:
    found = GroupByDocument().apply(ranking(5, 0, 3, 6), query("?"), index)  # b: 4 + 1, a: 3 + 2
    assert found.rows.tolist() == [5, 6, 0, 3]
    assert GroupByDocument().apply(ranking(5, 0, 3), query("?"), index).rows.tolist() == [5, 0, 3]  # 3 and 3
    assert GroupByDocument().apply(ranking(5, 0, 3, 1), query("?"), index).rows.tolist() == [0, 3, 1, 5]


def test_documents_in_their_own_order(index: OpenIndex) -> None:
    assert DocumentOrder().apply(ranking(3, 6, 0, 5), query("?"), index).rows.tolist() == [0, 3, 5, 6]


def test_the_best_at_both_ends(index: OpenIndex) -> None:
    found = LostInTheMiddle().apply(ranking(0, 1, 2, 3, 4, 5), query("?"), index)
    assert found.rows.tolist() == [0, 2, 4, 5, 3, 1]
    assert found.scores.tolist() == [6, 4, 2, 1, 3, 5]
    assert LostInTheMiddle().apply(ranking(0, 1, 2), query("?"), index).rows.tolist() == [0, 2, 1]


def test_the_newer_of_like_titles_comes_first(index: OpenIndex) -> None:
    assert RecentFirst().apply(ranking(0, 5, 1), query("?"), index).rows.tolist() == [5, 0, 1]
    assert RecentFirst(ratio=95).apply(ranking(0, 5, 1), query("?"), index).rows.tolist() == [0, 5, 1]
