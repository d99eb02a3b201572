"""What a cell takes, by its recipes."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.evals.study.complexity import Simplicity, simplicities, unmeasured, unpriced
from rag_assay.evals.study.registry import read_retriever
from rag_assay.evals.study.study import Study
from tests.fakes.town import PLAIN

LLM = {"model": "openai/gpt-4o-mini"}


def study(retriever: Any, generator: Any = None) -> Study:
    written = {**PLAIN, "retrievers": {"r": retriever}, "metrics": ["ndcg@10"]}
    written["generators"] = {"g": generator} if generator else {}
    return Study.model_validate(written)


@pytest.mark.parametrize(
    ("retriever", "generator", "expected"),
    [
        ({"bm25": {}}, None, (0, 0, 1, 40)),
        ({"dense": {}}, None, (0, 1, 1, 40)),
        ({"fuse": {"of": [{"bm25": {}}, {"dense": {}}]}}, None, (0, 1, 3, 40)),
        ([{"time_frame": {}}, {"bm25": {}}, {"top": {"k": 3}}], None, (0, 0, 3, 40)),
        ({"bm25": {}}, {"extractive": {}}, (0, 0, 1, 40)),
        ({"bm25": {}}, {"llm": LLM}, (1, 0, 1, 40)),
    ],
)
def test_what_a_cell_takes(retriever: Any, generator: Any, expected: tuple[int, ...]) -> None:
    (found,) = simplicities(study(retriever, generator), {"t16": 40}).values()
    assert found == Simplicity(*expected)


def test_a_retriever_that_asks_a_model_counts_its_calls_and_has_no_known_price() -> None:
    step = {"hyde": {"by": "llm", **LLM}}
    one = study([step, {"dense": {}}], {"llm": LLM})
    (found,) = simplicities(one, {}).values()
    assert (found.calls, found.chunks) == (2, None)
    assert unpriced(one) == {"tiny.t16.minilm.r.g"}
    assert not unpriced(study({"dense": {}}, {"llm": LLM}))  # an answer holds what it costs
    assert read_retriever([step, {"dense": {}}])


def test_a_cell_without_a_generator_lacks_no_metric_of_answers() -> None:
    written = {
        **PLAIN,
        "retrievers": {"words": {"bm25": {}}, "meaning": {"dense": {}}},
        "generators": {"quote": {"extractive": {}}},
        "restrict": {"quote": {"retrievers": ["words"], "others": "rankings"}},
        "metrics": ["ndcg@10", "rouge_l", "tokens", "answer_latency"],
    }
    assert unmeasured(Study.model_validate(written)) == {
        ("tiny.t16.minilm.meaning.none", name) for name in ("rouge_l", "tokens", "answer_latency")
    }
