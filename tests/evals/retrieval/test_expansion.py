"""Words of like meaning are searched, too: by vectors made up so that a reader can say which are near."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, searched

# Ship words point east and times north; `boat` lies between ferry (0 degrees) and noon (90), near the ships.
ANGLES = {"ferry": 0, "ferries": 2, "vessel": 10, "boat": 30, "noon": 90, "midday": 95}
TEXTS = [
    "ferry vessel",
    "vessel vessel quay",
    "boat boat",
    "noon boat",
    "noon ferry",
    "the quay",
    "the ferries",
]


class Embedder:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        angles = np.radians([ANGLES.get(text, 180.0) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


PLAIN = {"tokenizer": "plain", "function_words": "keep", "title": 0}


@pytest.fixture
def index(tmp_path: Path) -> OpenIndex:
    return build_index(tmp_path, TEXTS)


def ask(text: str, index: OpenIndex, embed: Any = None, **expand: Any) -> dict[int, float]:
    recipe = Bm25.model_validate({**PLAIN, "variant": "plus", "expand": expand})
    found = searched(recipe, Query(text), index, RetrievalContext(embed=embed or Embedder()))
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def alone(text: str, index: OpenIndex) -> dict[int, float]:
    found = searched(Bm25.model_validate({**PLAIN, "variant": "plus"}), Query(text), index)
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def test_the_nearest_words_are_searched_by_their_cosine(index: OpenIndex) -> None:
    found = ask("ferry", index, words=1, weight=0.5, similarity=0.5)
    # vessel: 10 degrees away, counted half its cosine; BM25 is a sum over words, so the rest is ferry's own.
    ferry, vessel = alone("ferry", index), alone("vessel", index)
    share = 0.5 * np.cos(np.radians(10))
    assert set(found) == set(ferry) | set(vessel)
    assert found[1] - found[4] == pytest.approx(
        share * (vessel[1] - _absent("vessel", index)) - (ferry[4] - _absent("ferry", index)), abs=1e-6
    )


def _absent(word: str, index: OpenIndex) -> float:
    """BM25+ gives delta * idf to a chunk without the word."""
    holding = sum(word in text.split() for text in TEXTS)
    return float(np.log((len(TEXTS) + 1) / holding))


def test_a_word_must_be_near_enough(index: OpenIndex) -> None:
    assert set(ask("ferry", index, words=5, similarity=0.8)) == {0, 1, 2, 3, 4}  # boat: cos 30 = 0.87
    assert set(ask("ferry", index, words=5, similarity=0.9)) == {0, 1, 4}


def test_only_unknown_words_are_replaced(index: OpenIndex) -> None:
    assert ask("ferry", index, only_unknown=True) == alone("ferry", index)
    assert not alone("midday", index)
    assert set(ask("midday", index, words=1, only_unknown=True)) == {3, 4}  # noon: 5 degrees away


def test_a_word_that_stands_once_or_is_a_function_word_is_no_candidate(index: OpenIndex) -> None:
    embed = Embedder()
    ask("ferry", index, embed)
    assert embed.asked == ["boat", "ferry", "noon", "quay", "vessel"]  # not ferries, midday, the


def test_the_vocabulary_is_embedded_once_and_cut_to_its_limit(index: OpenIndex) -> None:
    embed = Embedder()
    ask("ferry", index, embed, vocabulary=2)
    ask("noon", index, embed, vocabulary=2)
    assert embed.asked == ["boat", "ferry", "noon"]  # ferry has its vector from the vocabulary


def test_a_word_is_embedded_by_itself_so_that_no_other_changes_its_vector(index: OpenIndex) -> None:
    batches: list[list[str]] = []

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        batches.append(list(texts))
        return Embedder()(texts)

    ask("midday sunset dusk ferry", index, embed)
    assert batches[1:] == [["midday"], ["sunset"], ["dusk"]]


def test_the_first_128_words_of_a_question_are_expanded(index: OpenIndex) -> None:
    embed = Embedder()
    ask(" ".join(f"w{number}" for number in range(20_000)), index, embed)
    assert embed.asked[5:] == [f"w{number}" for number in range(128)]


def test_a_stem_is_not_its_own_neighbour(index: OpenIndex) -> None:
    recipe = {"tokenizer": "stemmed", "expand": {"words": 1, "similarity": 0.9}}
    context = RetrievalContext(embed=Embedder())
    found = searched(Bm25.model_validate(recipe), Query("ferries"), index, context)
    assert set(found.rows.tolist()) == {0, 1, 4, 6}  # ferry and ferries are one stem; vessel is the neighbour


def test_an_embedder_is_needed(index: OpenIndex) -> None:
    with pytest.raises(ValueError, match="needs an embedder"):
        searched(Bm25.model_validate({"expand": {}}), Query("ferry"), index)


def test_an_expanded_bm25_depends_on_the_embedder() -> None:
    assert not Bm25().needs_vector
    assert read_retriever({"bm25": {"expand": {}}}).needs_vector
