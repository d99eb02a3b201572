"""Question vectors are embedded once, one by one, and their seconds are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evals.retrieving.queries import embed_queries
from tests.fakes.indexing import vector_of
from warehouse.paths import Home


@dataclass
class CountingEmbedder:
    """Stands for a CachedEmbedder: writes down what it is asked."""

    home: Home
    query_prefix: str = ""
    revision: str = "r1"
    asked: list[list[str]] = field(default_factory=list)

    @property
    def recipe(self) -> Any:
        return SimpleNamespace(query_revision=lambda: f"{self.revision} {self.query_prefix}")

    @property
    def embedder(self) -> Any:
        def embed(texts: list[str]) -> np.ndarray:
            self.asked.append(texts)
            return np.stack([vector_of(text) for text in texts])

        return SimpleNamespace(embed=embed)


@pytest.fixture
def embedder(tmp_path: Path) -> CountingEmbedder:
    return CountingEmbedder(Home(tmp_path), query_prefix="query: ")


def embed(questions: list[str], embedder: CountingEmbedder) -> dict[str, Any]:
    return embed_queries(questions, embedder)  # type: ignore[arg-type]


def test_each_distinct_question_is_embedded_by_itself(embedder: CountingEmbedder) -> None:
    found = embed(["when?", "where?", "when?"], embedder)
    assert embedder.asked == [["warm up"], ["query: when?"], ["query: where?"]]
    assert set(found) == {"when?", "where?"}
    assert np.array_equal(found["when?"].vector, vector_of("query: when?"))
    assert found["when?"].seconds > 0


def test_a_second_run_computes_nothing_and_keeps_the_seconds(embedder: CountingEmbedder) -> None:
    first = embed(["when?", "where?"], embedder)
    embedder.asked.clear()
    second = embed(["where?", "when?"], embedder)
    assert embedder.asked == []
    assert {text: q.seconds for text, q in second.items()} == {text: q.seconds for text, q in first.items()}
    assert all(np.array_equal(second[text].vector, first[text].vector) for text in first)
    assert second["when?"].vector.dtype == np.float32


@pytest.mark.parametrize("change", [{"prefix": "q: "}, {"revision": "r2"}])
def test_another_revision_or_prefix_is_embedded_again(
    embedder: CountingEmbedder, change: dict[str, str]
) -> None:
    embed(["when?"], embedder)
    other = CountingEmbedder(embedder.home, change.get("prefix", "query: "), change.get("revision", "r1"))
    embed(["when?"], other)
    assert len(other.asked) == 2


@pytest.mark.parametrize("keep", [0, 4, 200])
def test_a_torn_file_is_made_again(embedder: CountingEmbedder, keep: int) -> None:
    first = embed(["when?"], embedder)
    (path,) = embedder.home.cache("queries").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    embedder.asked.clear()
    again = embed(["when?"], embedder)
    assert embedder.asked == [["warm up"], ["query: when?"]]
    assert np.array_equal(again["when?"].vector, first["when?"].vector)


def test_no_question_needs_no_model(embedder: CountingEmbedder) -> None:
    assert embed([], embedder) == {}
    assert embedder.asked == []
