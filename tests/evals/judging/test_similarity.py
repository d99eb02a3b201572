from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, Judgement
from rag_assay.evals.judging.similarity import Similarity
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status

VECTORS = {
    "When?": [1.0, 0.0],
    "At noon.": [0.6, 0.8],
    "The ferry leaves at noon.": [0.8, 0.6],
    "Tickets are sold on the quay.": [0.0, 1.0],
    "Bananas are blue.": [-1.0, 0.0],
}
PASSAGES = (Passage("Tickets are sold on the quay."), Passage(" "), Passage("The ferry leaves at noon."))
NOON = JudgeCase("When?", "en", "At noon.", passages=PASSAGES)


class Embedding:
    """Gives the vectors above, and keeps what was asked."""

    def __init__(self, vectors: dict[str, list[float]] = VECTORS) -> None:
        self.vectors = vectors
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> Matrix:
        self.asked.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def judge(home: Path, embed: Embedding, *cases: JudgeCase) -> list[dict[str, Judgement]]:
    with Gateway(Home(home)) as gateway:
        return [dict(one) for one in Similarity().judge(cases, JudgeContext(gateway, embed))]


def test_the_answer_is_held_against_the_passage_of_the_question(tmp_path: Path) -> None:
    """Question and ferry: 0.8 (the quay 0); answer and ferry: 0.6 x 0.8 + 0.8 x 0.6 = 0.96 (the quay 0.8)."""
    (found,) = judge(tmp_path, Embedding(), NOON)
    assert found["passage"].value == pytest.approx(0.96, abs=1e-6)
    assert found["passage_baseline"].value == pytest.approx(0.8, abs=1e-6)
    assert found["passage"].reason == "cosine of the answer with passage 3"
    (statement,) = found["passage"].statements
    assert (statement.of, statement.text) == ("passage 3", "The ferry leaves at noon.")
    assert {one.calls for one in found.values()} == {None}


def test_an_answer_beside_the_point_is_below_its_baseline(tmp_path: Path) -> None:
    (found,) = judge(tmp_path, Embedding(), replace(NOON, answer="Bananas are blue."))
    assert found["passage"].value == pytest.approx(-0.8, abs=1e-6)
    assert found["passage_baseline"].value == pytest.approx(0.8, abs=1e-6)


def test_all_texts_are_embedded_together_and_each_once(tmp_path: Path) -> None:
    embed = Embedding()
    judge(tmp_path, embed, NOON, NOON, replace(NOON, answer="Bananas are blue."))
    assert embed.asked == [sorted(VECTORS)]


def test_what_is_missing_is_typed(tmp_path: Path) -> None:
    failed = replace(NOON, answer=None, status=Status.TIMEOUT, reason="silence")
    empty = replace(NOON, answer=" ")
    alone = replace(NOON, passages=(Passage(" "),))
    embed = Embedding()
    found = judge(tmp_path, embed, failed, empty, alone)
    assert [one["passage"].status for one in found] == [
        Status.TIMEOUT,
        Status.PARSE_FAILED,
        Status.NO_CONTEXT,
    ]
    assert [one["passage_baseline"].value for one in found] == [
        pytest.approx(0.8),
        pytest.approx(0.8),
        None,
    ]
    assert embed.asked == [sorted({"When?", *(one.text for one in PASSAGES if one.text.strip())})]


@pytest.mark.parametrize("odd", [[np.nan, 0.0], [1e9, 0.0], [np.inf, 0.0]])
def test_vectors_that_are_none_give_no_number(odd: list[float], tmp_path: Path) -> None:
    (found,) = judge(tmp_path, Embedding({**VECTORS, "At noon.": odd}), NOON)
    assert (found["passage"].status, found["passage"].value) == (Status.PARSE_FAILED, None)
    assert found["passage_baseline"].status is Status.OK


def test_a_cosine_of_equal_texts_is_1_whatever_is_rounded(tmp_path: Path) -> None:
    third = [1 / 3**0.5 * 1.0000001] * 3
    vectors = {"When?": third, "At noon.": third, "Noon.": third}
    (found,) = judge(tmp_path, Embedding(vectors), replace(NOON, passages=(Passage("Noon."),)))
    assert [one.value for one in found.values()] == [1.0, 1.0]


def test_its_embedder_is_part_of_what_it_depends_on() -> None:
    assert Similarity().dependencies(7) == [Similarity().embeds_with.passage_revision()]
    assert Similarity().calls_per_case() == (0, 0)
