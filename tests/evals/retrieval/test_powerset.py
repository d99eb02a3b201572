"""All combinations of four arms: each is the fusion of its own arms, and of nothing else."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import read_retriever, read_retriever_or_powerset
from tests.fakes.indexing import build_index, query, searched

ARMS = ["bm25", "dense", "recency", "metadata"]
TEXTS = ["ferry noon", "ferry quay ferry", "noon quay", "lamp", "ferry lamp noon", "quay"]
COLUMNS: dict[str, Any] = {
    "keywords": [["Quay"], ["Lamp", "Noon"], [], ["Noon"], ["Quay", "Lamp", "Oil"], []],
    "published_at": [f"2024-05-{day:02}" for day in (1, 9, 3, 7, 7, 2)],
}


@pytest.fixture
def index(tmp_path: Path) -> OpenIndex:
    return build_index(tmp_path, TEXTS, columns=COLUMNS)


def made(written: Any) -> dict[str, Retriever]:
    recipes = read_retriever_or_powerset(written).retrievers("all")
    return dict(recipes)


def by_hand(places: tuple[int, ...], asked: Query, index: OpenIndex, k: int) -> list[int]:
    """Rank by the sum of 1 / (60 + rank) over the arms, equal ones by their row."""
    arms = [read_retriever({ARMS[place]: {"k": 100}}) for place in places]
    points: dict[int, float] = {}
    for arm in arms:
        for rank, row in enumerate(searched(arm, asked, index).rows.tolist(), 1):
            points[row] = points.get(row, 0) + 1 / (60 + rank)
    return sorted(points, key=lambda row: (-round(points[row], 12), row))[:k]


def test_sixteen_combinations_the_empty_one_among_them(index: OpenIndex) -> None:
    found = made({"powerset": ARMS, "fuse": "rrf", "k": 4})
    assert len(found) == 16
    asked = query("ferry quay at noon")
    for size in range(5):
        for places in combinations(range(4), size):
            name = f"all-{'+'.join(ARMS[place] for place in places) or 'none'}"
            if size == 1:
                alone = read_retriever({ARMS[places[0]]: {"k": 4}})
                expected = searched(alone, asked, index).rows.tolist()
            else:
                expected = by_hand(places, asked, index, 4)
            assert searched(found.pop(name), asked, index).rows.tolist() == expected, name
    assert not found


def test_arms_may_be_compositions(index: OpenIndex) -> None:
    nested = {"fuse": {"max": {}, "of": [{"bm25": {}}, {"fuse": {"of": [{"dense": {}}, {"fulltext": {}}]}}]}}
    found = made({"powerset": ["bm25", nested, [{"dense": {}}, {"top": {"k": 3}}]], "k": 5})
    assert list(found) == [
        *("all-none", "all-bm25", "all-fuse", "all-dense", "all-bm25+fuse", "all-bm25+dense"),
        *("all-fuse+dense", "all-bm25+fuse+dense"),
    ]
    for name, recipe in found.items():
        assert bool(len(searched(recipe, query("ferry quay"), index))) == (name != "all-none")


@pytest.mark.parametrize(
    "given", [{"powerset": []}, {"powerset": ["bm25"] * 9}, {"powerset": ARMS, "fuse": "borda"}]
)
def test_what_is_no_powerset_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_retriever_or_powerset(given)
