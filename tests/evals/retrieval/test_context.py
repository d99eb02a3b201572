"""What the rankings of a run share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.context import LoadedModels, TextEmbedder
from tests.fakes.indexing import vector_of


def test_texts_made_of_a_question_are_embedded_as_questions_are() -> None:
    asked: list[list[str]] = []

    now = [0.0]

    def embed(texts: list[str]) -> Any:
        asked.append(texts)
        now[0] += 0.25 * len(texts)
        return np.stack([vector_of(text) for text in texts])

    clock = Clock(wall=lambda: now[0], waited=lambda: 0.0)
    # The prefix is the embedder's: a recipe may only name the prompt that the model keeps.
    embedder: Any = SimpleNamespace(query_prefix="query: ", embedder=SimpleNamespace(embed=embed))
    shared = TextEmbedder(embedder, clock)
    (first,) = shared(["who won?"])
    assert asked == [["warm up"], ["query: who won?"]]
    assert np.array_equal(first, vector_of("query: who won?"))
    assert clock.saved == Spent()
    (again,) = shared(["who won?"])
    assert np.array_equal(again, first)
    assert len(asked) == 2, "taken from memory"
    assert clock.saved == Spent(0.25), "and its seconds are counted all the same"
    shared(["who lost?", "who drew?", "who won?"])
    shared(["who drew?", "who drew?"])
    assert clock.saved == Spent(0.75), "each text once, by its share of the call"


def test_a_model_is_loaded_once_for_each_way_to_load_it() -> None:
    loaded: list[tuple[str, int]] = []

    def load(name: str, length: int) -> list[str]:
        loaded.append((name, length))
        return [name] * length

    def load_other(name: str, length: int) -> str:
        return name * length

    models = LoadedModels()
    assert models.get(load, "a", 2) is models.get(load, "a", 2)
    assert models.get(load, "a", 3) == ["a", "a", "a"]
    assert models.get(load_other, "a", 2) == "aa", "by another function"
    assert LoadedModels().get(load, "a", 2) == ["a", "a"], "each run has its own"
    assert loaded == [("a", 2), ("a", 3), ("a", 2)]
