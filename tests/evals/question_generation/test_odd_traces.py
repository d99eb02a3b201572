"""Trace files with figures and shapes that no tracer should write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.question_generation.from_traces import read_traces
from rag_assay.evals.systems.recorded import lines_of
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


@pytest.mark.parametrize(
    "attributes",
    [
        {"retrieval.documents.0.document.score": float("inf"), "retrieval.documents.0.document.id": 1e999},
        {f"retrieval.documents.{'9' * 5000}.document.id": "d", "llm.input_messages.\u00b2.message.role": 5},
        {"retrieval.documents.0.document.metadata": "[" * 5000, "output.value": "[" * 5000},
        {"output.value": "[" * 450 + "]" * 450, "retrieval.documents.0.document.content": "\ud800"},
        {"output.value": "\ud800", "session.id": "\ud800", "llm.model_name": "\ud800"},
    ],
)
def test_an_attribute_that_cannot_be_costs_no_question(tmp_path: Path, attributes: dict[str, Any]) -> None:
    kinds = [
        {"context": {"trace_id": "t", "span_id": "\ud800"}, "parent_id": {"a": 1}},
        {"context": {"trace_id": "t", "span_id": "r"}, "parent_id": "?", "span_kind": "RETRIEVER"},
    ]
    spans = [{**SPAN, "attributes": {**SPAN["attributes"], **attributes}, **kind} for kind in kinds]  # type: ignore[dict-item]
    found = read_traces(written(tmp_path, spans))
    assert [one.question for one in found.answers] == ["Why?"]
    (tmp_path / "answers.jsonl").write_text(lines_of(found.answers), encoding="utf-8")


def test_json_of_any_depth_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    around = {
        "[": "]",
        json.dumps({**SPAN, "attributes": 0}).replace(" 0}", '{"a": ["Why?", '): "0]}}",
        '{"a": ': "}",
    }
    refused = []
    for depth in range(100, 1000, 30):
        for begin, end in around.items():
            path.write_text(f"{begin}{'[' * depth}{']' * depth}{end}")
            try:
                read_traces([path])
            except InputError as error:
                refused.append(str(error))
    assert all("traces.json" in one for one in refused)
    assert {"too deeply" in one for one in refused} == {True, False}
