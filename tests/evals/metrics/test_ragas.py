"""Metrics that ragas has without an LLM, computed without ragas."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assay.evals.metrics.contract import Case, MetricContext
from rag_assay.evals.metrics.semantic_similarity import JUDGE, SemanticSimilarity
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


ALONE = """
import sys
from pathlib import Path
from rag_assay.evals.metrics.contract import MetricContext
from rag_assay.warehouse.paths import Home
from tests.evals.metrics.test_ragas import SemanticSimilarity, pair
print(SemanticSimilarity().measure([pair("ferry", "boat")], MetricContext(Home(Path(sys.argv[1]))))[0].value)
print("ragas" in sys.modules)
"""


@pytest.mark.models
def test_semantic_similarity_is_the_number_of_ragas_and_imports_nothing_of_it(
    weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.metrics.collections import SemanticSimilarity as RagasSimilarity

    weights("all-MiniLM-L6-v2")
    context = MetricContext(Home(tmp_path))

    class Embeddings(BaseRagasEmbedding):
        def embed_text(self, text: str, **_: object) -> list[float]:
            found: list[float] = context.embedder(JUDGE).passages([text]).vectors[0].tolist()
            return found

        async def aembed_text(self, text: str, **_: object) -> list[float]:
            return self.embed_text(text)

    texts = ["ferry", "The boat departs at midday.", "Die Fähre fährt um zwölf."]
    pairs = [(one, other) for one in texts for other in texts]
    found = [score.value for score in SemanticSimilarity().measure([pair(*both) for both in pairs], context)]
    metric = RagasSimilarity(embeddings=Embeddings())
    assert found == [asyncio.run(metric.ascore(reference=a, response=b)).value for a, b in pairs]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"
