"""Questions and runs arrive at a collector as traces in OpenInference's attributes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.pipeline import traces
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.question_service.opened_cell import open_cell
from rag_assay.orchestration.run_report import failure_notes
from rag_assay.warehouse.inference import trace_export
from rag_assay.warehouse.inference.trace_export import trace_exporter
from tests.fakes.commands import assay
from tests.fakes.receivers import Hook, ReceivedSpan, hook, spans_of
from tests.fakes.shipped import Shipped
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models
AGAIN = "  meaning: {dense: {k: 5}}\n  again: [{hybrid: {k: 5}}, {group_by_document: {}}]\n"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setattr(trace_export, "_exporters", {})
    with hook() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{urlsplit(found.url).port}")
        yield found


def arrived(collector: Hook) -> list[list[ReceivedSpan]]:
    """What came, by trace: the root first."""
    exporter = trace_exporter()
    assert exporter is not None
    exporter.flush()
    found: dict[str, list[ReceivedSpan]] = defaultdict(list)
    for _, body in collector.posted:
        for span in spans_of(body):
            found[span.trace].append(span)
    return list(found.values())


def documents(span: ReceivedSpan) -> list[str]:
    at = span.attributes
    names = [name for name in at if name.startswith("retrieval.documents.") and name.endswith(".content")]
    return [at[name] for name in names]


def test_a_run_sends_a_trace_of_each_answer_that_was_scored(finished: Finished, collector: Hook) -> None:
    study = finished.edit("  meaning: {dense: {k: 5}}\n", AGAIN)
    Driver(study, finished.home).run()
    found = arrived(collector)
    told = [json.loads(root.attributes["metadata"]) for root, *_ in found]
    assert {(one["retriever"], one["question_id"]) for one in told} == {
        ("again", name) for name in ("q1", "q2", "q3")
    }, "the cells that were scored before are none of this run"
    data = report_data(study, finished.home, with_hits=False)
    for (root, search, ranked, answer, evaluated), about in zip(found, told, strict=True):
        kinds = [one.kind for one in (root, search, ranked, answer, evaluated)]
        assert kinds == ["CHAIN", "RETRIEVER", "RERANKER", "CHAIN", "EVALUATOR"], "no model answers here"
        assert {search.parent, ranked.parent, answer.parent, evaluated.parent} == {root.id}
        assert evaluated.links == [root.id]
        here = {"cell": about["cell"], "question_id": about["question_id"]}
        (row,) = data.answers.filter(**here).to_dicts()
        assert root.attributes.get("output.value") == row["answer"]
        assert root.attributes["input.value"] == answer.attributes["input.value"]
        ids = [
            search.attributes[f"retrieval.documents.{n}.document.id"] for n in range(len(row["chunk_ids"]))
        ]
        assert ids == row["chunk_ids"]
        assert answer.seconds == pytest.approx(row["seconds"] or 0.0, abs=1e-6)
        assert root.seconds == pytest.approx(search.seconds + answer.seconds, abs=1e-6)
        before, after = (
            {v for k, v in ranked.attributes.items() if k.startswith(f"reranker.{name}_documents")}
            for name in ("input", "output")
        )
        assert before == after
        at = evaluated.attributes
        scores = {
            at[name]: at.get(name.replace(".name", ".score"), at.get(name.replace(".name", ".label")))
            for name in at
            if name.endswith("evaluation.name")
        }
        stored = data.scores.filter(**here).select("metric", "status", "value").rows()
        assert scores == {metric: status if value is None else value for metric, status, value in stored}
    collector.posted.clear()
    Driver(study, finished.home).run()
    assert arrived(collector) == [], "nothing was scored again"


def test_ask_sends_a_trace_and_content_can_be_left_out(
    finished: Finished, collector: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "What does a mooring cost in summer?"
    assert assay("ask", str(finished.path), asked).returncode == 0
    (spans,) = arrived(collector)
    root, search, *_ = spans
    assert root.attributes["input.value"] == asked
    assert "twelve pounds" in root.attributes["output.value"]
    assert any("twelve pounds" in one for one in documents(search))
    about = json.loads(search.attributes["retrieval.documents.0.document.metadata"])
    assert about["url"].endswith("harbour.txt")
    collector.posted.clear()
    monkeypatch.setenv("OPENINFERENCE_HIDE_INPUTS", "true")
    monkeypatch.setenv("OPENINFERENCE_HIDE_OUTPUTS", "true")
    assert assay("ask", str(finished.path), asked).returncode == 0
    (spans,) = arrived(collector)
    assert [one.kind for one in spans] == [root.kind, search.kind, "CHAIN"]
    assert spans[0].attributes["input.value"] == traces.REDACTED
    assert documents(spans[1]) == [traces.REDACTED] * len(documents(search))
    body = collector.posted[0][1].lower()
    assert not [word for word in (b"mooring", b"harbour", b"pounds") if word in body]


def test_a_collector_that_fails_changes_no_result(
    finished: Finished, collector: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collector.replies = [(500, {})]
    study = finished.edit("evidence_coverage@5, rouge_l", "evidence_coverage@5, rouge_l, mrr@10")
    report = Driver(study, finished.home).run()
    assert (report.is_there("leaderboard"), failure_notes(report.stages)) == (True, ())
    assert [one.getMessage() for one in caplog.records if one.name == "assay.traces"] == [
        f"traces are not sent: the collector at {trace_exporter().collector.url[:-10]} answered 500"  # type: ignore[union-attr]
    ]
    monkeypatch.setattr(trace_export, "_exporters", {})
    collector.replies = [(200, {})]
    study = finished.edit("rouge_l, mrr@10", "rouge_l, mrr@10, hit_rate@5")
    monkeypatch.setattr(traces, "_traces_of", lambda *_: 1 / 0)
    assert failure_notes(Driver(study, finished.home).run().stages) == ()
    assert "traces are not sent: ZeroDivisionError" in caplog.text


def test_a_models_answer_has_tokens_cost_and_the_conversation(
    shipped: Shipped, work: BuildContext, collector: Hook
) -> None:
    cell = shipped.cell("hybrid", "model")
    said = ("Is there a boat 4?", "Yes, the boat 4 leaves every day.")
    with open_cell(shipped.bench.study, cell, work, None) as opened:
        turn = opened.answer(QuestionRequest("And when does it leave its pier?", conversation=said))
        opened.search(QuestionRequest("When does the boat 4 leave its pier?"))
    answered, searched = arrived(collector)
    assert Counter(one.kind for one in searched) == {"CHAIN": 1, "RETRIEVER": 1}
    (model,) = [one for one in answered if one.kind == "LLM"]
    at = model.attributes
    assert (at["llm.provider"], at["llm.model_name"]) == ("openai", "scripted")
    counts = [at[f"llm.token_count.{name}"] for name in ("prompt", "completion", "total")]
    assert counts == [11, 7, 18]
    assert at["llm.cost.total"] == pytest.approx(turn.usd)
    assert turn.usd
    turns = [at[f"llm.input_messages.{n}.message.content"] for n in range(3)]
    assert turns == [*said, "And when does it leave its pier?"]
    assert [at[f"llm.input_messages.{n}.message.role"] for n in range(3)] == ["user", "assistant", "user"]
    assert at["llm.output_messages.0.message.content"].startswith("It leaves soon [1].")


def test_studies_of_the_list_are_read_without_the_extra(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rag_assay.warehouse.extras.find_spec", lambda name: None)
    monkeypatch.setattr(trace_export, "_told", set())
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert read_study(finished.path).study == "town"
    assert trace_exporter() is None
    assert "install the extra `traces` of rag-assay" in caplog.text
