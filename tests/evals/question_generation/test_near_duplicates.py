"""Near duplicates of questions: by words, and by embeddings of models of two kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.question_generation.generator import (
    UNRELATED,
    NearDuplicates,
    beyond_chance,
    chance_cosine,
)
from rag_assay.warehouse.paths import Home

X, Y = np.array([1, 0], np.float32), np.array([0, 1], np.float32)


def test_words_and_vectors_each_tell_a_duplicate() -> None:
    kept = NearDuplicates()
    kept.keep("What does a mooring cost in summer?", X)
    kept.keep("How many cars fit on the ferry?", Y)
    assert kept.like("Who is the mayor?", np.array([0.6, 0.8], np.float32)) is None
    assert kept.like("Who is the mayor?", X) == "What does a mooring cost in summer?"
    far = np.array([-1, 0], np.float32)
    assert kept.like("In summer, what did the mooring cost?", far) == "What does a mooring cost in summer?"
    assert kept.like("Wie viel kostet der Hafen?", far) is None


def test_questions_without_content_words_are_compared_by_vectors_alone() -> None:
    kept = NearDuplicates()
    kept.keep("What is it?", X)
    assert kept.like("Who are they?", Y) is None
    assert kept.like("Who are they?", X) == "What is it?"


def test_few_vectors_have_no_chance_level() -> None:
    assert chance_cosine(np.zeros((0, 2), np.float32)) == 0
    assert chance_cosine(X[None]) == 0
    assert chance_cosine(np.stack([X, Y])) == 0


@pytest.mark.models
@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "multilingual-e5-small"])
def test_the_same_threshold_serves_models_of_both_kinds(
    model: str, weights: Callable[[str], Path], tmp_path: Path
) -> None:
    weights(model)
    embedder = CachedEmbedder(EmbedderRecipe(model=model), Home(tmp_path))
    chance = chance_cosine(embedder.queries(UNRELATED).vectors)
    assert (chance > 0.5) == (model == "multilingual-e5-small")
    asked = [
        "What does a mooring cost in summer?",
        "Which fines does the library ask for?",
        "Who is the mayor?",
    ]
    vectors = embedder.queries(asked).vectors
    again = embedder.queries(["What does a mooring cost in the summer?"]).vectors[0]
    cosines = beyond_chance(vectors @ again, chance)
    assert cosines[0] > 0.8
    assert max(cosines[1:]) < 0.6
