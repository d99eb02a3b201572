"""Who answers by quoting, or by the smallest model, hears of better models and their cost."""

from __future__ import annotations

import pytest

from rag_assay.evals.chat.model_override import model_advice
from rag_assay.evals.study.registry import read_generator


def test_quotes_and_the_smallest_model_are_told_of_better_ones() -> None:
    quoted = model_advice(read_generator({"extractive": {}}))
    small = model_advice(read_generator({"llm": {"model": "local/smollm2-135m-instruct"}}))
    assert quoted is not None
    assert small is not None
    local = "--model local/qwen2.5-coder-0.5b-instruct (491 MB once"
    for part in (local, "--model openai/gpt-4o-mini (a key, about $0.0003 an answer)"):
        assert part in quoted
        assert part in small
    assert quoted.startswith("This answer is quoted")


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "local/qwen2.5-coder-0.5b-instruct"])
def test_a_capable_model_is_left_in_peace(model: str) -> None:
    assert model_advice(read_generator({"llm": {"model": model}})) is None
