"""Chunks that end where the subject changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from rag_assay.assets.chunking import ChunkerInput, Tools
from rag_assay.assets.chunking.semantic import Semantic, breakpoints, neighbour_distances, sentence_groups
from rag_assay.assets.chunking.sentences import Units
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer
from rag_assay.warehouse.paths import Home

pytestmark = pytest.mark.models

FERRIES = (
    "The ferry leaves the harbour every hour. It carries nineteen cars and eighty passengers. "
    "Tickets for the crossing are sold on board. In winter the last boat sails at six. "
    "The captain waits for the evening train. "
)
BREAD = (
    "Knead the dough for ten minutes. Let it rise in a warm place. Bake the loaf until its crust is brown. "
    "Rye flour needs more water than wheat. A little salt improves the taste of the bread."
)


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def test_a_chunk_ends_where_the_subject_changes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    embedder = CachedEmbedder(EmbedderRecipe(model="all-MiniLM-L6-v2"), Home(tmp_path))
    text = FERRIES + BREAD
    tools = Tools(tokenizer, lambda texts: embedder.passages(texts).vectors)
    spans = Semantic(buffer=0, amount=95).split(ChunkerInput(text), tools)
    assert [text[span.start : span.end] for span in spans] == [FERRIES.strip(), BREAD]


DISTANCES = np.array([0.1, 0.1, 0.5, 0.1, 0.2, 0.9, 0.1])  # mean 0.2857, deviation 0.2799


@pytest.mark.parametrize(
    ("kind", "amount", "expected"),
    [
        ("percentile", 50, [3, 5, 6]),  # the median is 0.1
        ("percentile", 75, [3, 6]),  # (0.2 + 0.5) / 2
        ("percentile", None, [6]),  # 0.5 + 0.4 x (0.9 - 0.5) = 0.66
        ("percentile", 100, []),
        ("standard_deviation", 1, [6]),  # more than 0.5656
        ("standard_deviation", 0.5, [3, 6]),  # more than 0.4256
        ("standard_deviation", None, []),
        ("interquartile", 0.5, [3, 6]),  # 0.2857 + 0.5 x (0.35 - 0.1) = 0.4107
        ("interquartile", None, [6]),  # 0.6607
        # Slopes 0, 0.2, 0, -0.15, 0.4, -0.05, -0.8; 0.8 of the way from 0 to 0.2 is 0.16.
        ("gradient", 80, [2, 5]),
        ("gradient", None, [5]),  # 0.2 + 0.4 x (0.4 - 0.2) = 0.28
    ],
)
def test_thresholds(kind: Any, amount: float | None, expected: list[int]) -> None:
    assert breakpoints(DISTANCES, kind, amount) == expected


@pytest.mark.parametrize("kind", ["percentile", "standard_deviation", "interquartile", "gradient"])
def test_too_little_to_compare_gives_no_breakpoints(kind: Any) -> None:
    assert breakpoints(np.array([]), kind) == breakpoints(np.array([0.7]), kind) == []


def test_distances_are_those_of_neighbours() -> None:
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0, 1]], np.float32)
    assert neighbour_distances(vectors).tolist() == [0, 0.4, 0.2]


def test_sentences_are_embedded_with_their_neighbours(tokenizer: Tokenizer) -> None:
    units = Units("One.\nTwo  two. Three. Four.", tokenizer, 64)
    assert sentence_groups(units, 0) == ["One.", "Two two.", "Three.", "Four."]
    assert sentence_groups(units, 1) == [
        "One. Two two.",
        "One. Two two. Three.",
        "Two two. Three. Four.",
        "Three. Four.",
    ]
    assert sentence_groups(Units("One.", tokenizer, 64), 1) == []


class Counted:
    """Vectors by the first letter of the middle sentence; counts the calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls.append(list(texts))
        angles = np.array([ord(text[0]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_many_documents_are_embedded_in_one_call_and_cut_as_alone(tokenizer: Tokenizer) -> None:
    chunker = Semantic(buffer=0, amount=60)
    materials = [
        ChunkerInput("A one. A two. B one. B two."),
        ChunkerInput(""),
        ChunkerInput("C."),
        ChunkerInput("D one. E one. E two."),
    ]
    embed = Counted()
    together = chunker.split_many(materials, Tools(tokenizer, embed))
    assert embed.calls == [["A one.", "A two.", "B one.", "B two.", "D one.", "E one.", "E two."]]
    assert together == [chunker.split(material, Tools(tokenizer, Counted())) for material in materials]
    cut = [
        [material.text[s.start : s.end] for s in spans]
        for material, spans in zip(materials, together, strict=True)
    ]
    assert cut == [["A one. A two.", "B one. B two."], [], ["C."], ["D one.", "E one. E two."]]


def test_a_long_stretch_of_one_subject_is_cut_between_sentences(tokenizer: Tokenizer) -> None:
    text = "A ferry leaves the harbour. " * 20
    spans = Semantic(limit=32).split(ChunkerInput(text), Tools(tokenizer, Counted()))
    assert {text[span.start : span.end] for span in spans} == {("A ferry leaves the harbour. " * 5).strip()}
    assert len(spans) == 4


def test_it_names_its_model() -> None:
    assert Semantic().embedding_model == "all-MiniLM-L6-v2"
    assert Semantic(embedding_model="all-mpnet-base-v2").embedding_model == "all-mpnet-base-v2"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"embedding_model": "all-MiniLM-L6-v3"}, "unknown embedding model 'all-MiniLM-L6-v3'"),
        ({"breakpoint": "median"}, "Input should be 'percentile'"),
        ({"amount": 101}, "amount (101) is a percentile for percentile: 0 to 100"),
        ({"breakpoint": "interquartile", "amount": 0}, "amount (0) must be greater than 0"),
        ({"buffer": -1}, "greater than or equal to 0"),
        ({"limit": 8}, "greater than or equal to 16"),
    ],
)
def test_what_is_wrong_is_said(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Semantic(**parameters)
    assert message in str(caught.value)
