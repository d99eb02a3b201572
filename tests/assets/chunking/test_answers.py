"""Answers that are no longer than the overlap are never cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chunks import OVERLAPPING, kept_answers
from rag_assay.assets.chunking import CHUNKERS
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not (DATA / "xquad").is_dir(), reason="shared/data/xquad is not there"),
]


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


@pytest.mark.parametrize(("kind", "parameters"), OVERLAPPING, ids=str)
def test_every_answer_lies_in_a_chunk(kind: str, parameters: dict[str, Any], tokenizer: Tokenizer) -> None:
    kept = kept_answers(DATA, CHUNKERS[kind](**parameters), tokenizer)
    assert kept.answers == 1190
    assert kept.asked > 1170
    assert kept.lost == ()


def test_answers_that_are_cut_are_noticed(tokenizer: Tokenizer) -> None:
    kept = kept_answers(DATA, CHUNKERS["recursive"](unit="tokens", size=32, overlap=2), tokenizer)
    assert kept.asked < kept.answers
    chunker = CHUNKERS["tokens"](size=64, overlap=32)
    assert kept_answers(DATA, Shortened(size=64, overlap=32), tokenizer).lost != ()
    assert kept_answers(DATA, chunker, tokenizer).lost == ()


class Shortened(CHUNKERS["tokens"]):  # type: ignore[misc]
    """Says that it overlaps, and does not."""

    def split(self, material: Any, tools: Any) -> Any:
        return CHUNKERS["tokens"](size=64, overlap=0).split(material, tools)
