from __future__ import annotations

import numpy as np
import pytest

from rag_assay.assets.enrichment.similarity import similarities, tags_text

PLACES = {"east": [1.0, 0.0], "north": [0.0, 2.0], "north-east": [1.0, 1.0]}


def test_each_distinct_text_is_embedded_once_and_blank_ones_not_at_all() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.array([PLACES[text] for text in texts], np.float32)

    chunks = np.array([[3, 0], [0, 1], [1, 0], [1, 1], [-2, 0]], np.float32)
    found = similarities(chunks, ["east", "north-east", None, " ", "east"], embed)
    assert asked == [["east", "north-east"]]
    assert found == [pytest.approx(1), pytest.approx(0.5**0.5), None, None, pytest.approx(-1)]
    assert similarities(chunks[:1], [None], embed) == [None]
    assert len(asked) == 1


def test_tags_are_one_text() -> None:
    assert tags_text(["ferry", " ", "harbour"]) == "ferry, harbour"
    assert tags_text([]) is tags_text(None) is None
