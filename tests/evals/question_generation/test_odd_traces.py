"""Trace files with figures and shapes that no tracer should write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.question_generation.from_traces import read_traces
from rag_assay.warehouse.errors import InputError

SPAN = {
    "context": {"trace_id": "t", "span_id": "s"},
    "start_time": "2026-01-01T00:00:00+00:00",
    "attributes": {"input.value": "Why?", "openinference.span.kind": "LLM"},
}


def written(folder: Path, data: Any) -> list[Path]:
    path = folder / "traces.json"
    path.write_text(json.dumps(data))
    return [path]


@pytest.mark.parametrize("figure", [-1, float("inf"), "x", 1e300])
def test_a_figure_that_cannot_be_is_none(tmp_path: Path, figure: object) -> None:
    told = {"llm.token_count.prompt": figure, "llm.cost.total": figure}
    given = {**SPAN, "attributes": {**SPAN["attributes"], **told}}  # type: ignore[dict-item]
    (answer,) = read_traces(written(tmp_path, given)).answers
    assert (answer.prompt_tokens, answer.usd) == (None, None)


@pytest.mark.parametrize("data", [{**SPAN, "start_time": 1e30}, {"resourceSpans": [{"scopeSpans": ["a"]}]}])
def test_what_is_no_trace_is_refused_with_its_file(tmp_path: Path, data: object) -> None:
    with pytest.raises(InputError, match=r"traces\.json"):
        read_traces(written(tmp_path, data))
