"""ragas' metrics without an LLM, through ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assay.evals.metrics.context import MetricContext
from rag_assay.evals.metrics.contract import Case
from rag_assay.evals.metrics.semantic_similarity import SemanticSimilarity
from rag_assay.evals.metrics.text_overlap import RougeL
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.cases import CONTEXT, answer, case, question


def pair(truth: str, text: str) -> Case:
    return case(question=question(ground_truth=truth), answer=answer(text=text))


def test_rouge_by_hand() -> None:
    cases = [
        pair("The ferry leaves at noon.", "The ferry leaves at noon."),
        pair("the ferry leaves at noon", "the boat leaves at noon"),  # 4 of 5 words in order, both ways
        pair("noon", "the ferry leaves at noon"),  # precision 1/5, recall 1: F = 1/3
        pair("the ferry", "a lamp"),
        case(answer=answer(Status.TIMEOUT)),
    ]
    scores = RougeL().measure(cases, CONTEXT)
    assert [score.value for score in scores[:4]] == pytest.approx([1, 0.8, 1 / 3, 0])
    assert (scores[4].status, scores[4].value) == (Status.TIMEOUT, None)


@pytest.mark.models
def test_semantic_similarity(weights: Callable[[str], Path], tmp_path: Path) -> None:
    weights("all-MiniLM-L6-v2")
    truth = "The ferry leaves the harbour at noon."
    texts = [
        truth,
        "At midday the boat departs from the port.",
        "Heat pumps use ground water.",
        truth + " " + "It calls at the island. " * 90,  # longer than the model reads: windows are averaged
    ]
    cases = [*[pair(truth, text) for text in texts], case(answer=None)]
    *values, absent = SemanticSimilarity().measure(cases, MetricContext(Home(tmp_path)))
    same, near, far, long = (score.value for score in values)
    assert same == pytest.approx(1, abs=1e-5)
    assert near is not None
    assert far is not None
    assert long is not None
    assert 1 > near > far
    assert far < 0.3
    assert -1 <= long < 1
    assert (absent.status, absent.value) == (Status.NOT_RUN, None)
