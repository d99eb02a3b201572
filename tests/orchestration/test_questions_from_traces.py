"""`assay questions from-traces`: traces of other tools become a question set, and their answers a system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from rag_assay.evals.question_generation.from_traces import read_traces
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.systems.contract import NOT_RECORDED
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import failure_notes
from rag_assay.warehouse.errors import InputError
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished

FERRY = "When does the ferry stay in port in a storm?"
FILMS = "For how long does the library lend films?"
PASSAGE = "In a storm above nine Beaufort it stays in port."
BEGIN = 1_764_288_000


def value(one: Any) -> dict[str, Any]:
    """A value as OTLP writes it in JSON: 64-bit integers are texts."""
    match one:
        case int():
            return {"intValue": str(one)}
        case float():
            return {"doubleValue": one}
        case _:
            return {"stringValue": one}


def span(trace: str, name: str, kind: str, at: int, parent: str = "", **attributes: Any) -> dict[str, Any]:
    keyed = {"openinference.span.kind": kind, **attributes}
    return {
        "traceId": trace * 32,
        "spanId": name * 16,
        "parentSpanId": parent * 16,
        "name": kind.lower(),
        "startTimeUnixNano": str((BEGIN + at) * 10**9),
        "endTimeUnixNano": str((BEGIN + at + 2) * 10**9),
        "attributes": [{"key": key, "value": value(one)} for key, one in keyed.items()],
        "status": {"code": 2, "message": "upstream timed out"} if attributes.get("failed") else {},
    }


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def production() -> list[dict[str, Any]]:
    """Six traces: as LangChain has them, a follow-up, a repetition, a failure, no question, a refusal."""
    retrieved = {
        "retrieval.documents.0.document.content": PASSAGE,
        "retrieval.documents.0.document.score": 0.9,
        "retrieval.documents.0.document.metadata": json.dumps({"source": "docs/ferry.txt"}),
    }
    model = {
        "llm.model_name": "gpt-x",
        "llm.token_count.prompt": 90,
        "llm.token_count.completion": 8,
        "llm.cost.total": 0.002,
    }
    people = {"annotations.0.annotation.annotator_kind": "HUMAN", "annotations.0.annotation.score": 1}
    return [
        otlp(
            span("a", "1", "CHAIN", 0, **{"input.value": json.dumps({"input": FERRY}), "session.id": "s",
                 **people, "output.value": json.dumps({"answer": "In a storm above nine Beaufort."})}),
            span("a", "2", "RETRIEVER", 0, "1", **retrieved),
            span("a", "3", "LLM", 1, "1", **model),
        ),
        otlp(span("b", "1", "CHAIN", 10, **{"input.value": "And how often does it run?", "session.id": "s",
                  "output.value": "Every forty minutes."})),
        otlp(span("c", "1", "CHAIN", 20, **{"input.value": f" {FERRY.upper()}", "output.value": "Never."})),
        otlp(span("d", "1", "CHAIN", 30, failed="x", **{"input.value": FILMS})),
        otlp(span("e", "1", "EMBEDDING", 40)),
        otlp(span("f", "1", "LLM", 50, **{
            "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "Be kind.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "Who is mayor?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "The documents do not say."})),
    ]  # fmt: skip


def as_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_questions_and_answers_of_otlp(tmp_path: Path) -> None:
    path = as_lines(tmp_path / "traces.jsonl", production())
    found = read_traces([path])
    assert found.without_question == 1
    by_question = {one.question: one for one in found.asked}
    assert list(by_question) == [FERRY, "And how often does it run?", FERRY.upper(), FILMS, "Who is mayor?"]
    assert by_question["And how often does it run?"].history == (FERRY, "In a storm above nine Beaufort.")
    assert [one.up for one in found.asked] == [1, 0, 0, 0, 0]
    assert [one.is_declined for one in found.asked] == [False, False, False, False, True]
    first, *_, failed, _ = found.answers
    assert (first.answer, first.model, first.seconds) == ("In a storm above nine Beaufort.", "gpt-x", 2.0)
    assert (first.prompt_tokens, first.completion_tokens, first.usd) == (90, 8, 0.002)
    assert first.passages == [{"text": PASSAGE, "url": "docs/ferry.txt", "score": 0.9}]
    assert (failed.answer, failed.reason, failed.passages) == (None, "upstream timed out", None)
    one_document = tmp_path / "traces.json"
    merged = {"resourceSpans": [one for row in production() for one in row["resourceSpans"]]}
    one_document.write_text(json.dumps(merged))
    assert read_traces([one_document]) == found
    assert read_traces([path, one_document]) == found, "a span that is in two files is one"


def test_questions_and_answers_of_phoenix(tmp_path: Path) -> None:
    document = {
        "document.content": PASSAGE,
        "document.score": 0.9,
        "document.metadata": {"source": "ferry.txt"},
    }
    rows = [
        {
            "name": "chain",
            "span_kind": "CHAIN",
            "parent_id": None,
            "start_time": "2025-11-28T00:00:00+00:00",
            "end_time": "2025-11-28T00:00:03+00:00",
            "status_code": "OK",
            "context.trace_id": "t1",
            "context.span_id": "s1",
            "attributes.input.value": FERRY,
            "attributes.output.value": "Above nine Beaufort.",
            "attributes.retrieval.documents": None,
        },
        {
            "name": "retriever",
            "span_kind": "RETRIEVER",
            "parent_id": "s1",
            "start_time": "2025-11-28T00:00:01+00:00",
            "end_time": "2025-11-28T00:00:02+00:00",
            "status_code": "OK",
            "context.trace_id": "t1",
            "context.span_id": "s2",
            "attributes.input.value": None,
            "attributes.output.value": None,
            "attributes.retrieval.documents": [document],
        },
    ]
    lines = as_lines(tmp_path / "phoenix.jsonl", rows)
    table = tmp_path / "phoenix.parquet"
    times = [pl.col(name).str.to_datetime(time_zone="UTC") for name in ("start_time", "end_time")]
    pl.DataFrame(rows, infer_schema_length=None).with_columns(times).write_parquet(table)
    api = tmp_path / "api.json"
    spans = [
        {
            "context": {"trace_id": row["context.trace_id"], "span_id": row["context.span_id"]},
            "attributes": {k.partition(".")[2]: v for k, v in row.items() if k.startswith("attributes.")},
            **row,
        }
        for row in rows
    ]
    api.write_text(json.dumps({"data": spans, "next_cursor": None}))
    (answer,) = read_traces([lines]).answers
    assert (answer.question, answer.answer, answer.seconds) == (FERRY, "Above nine Beaufort.", 3.0)
    assert answer.passages == [{"text": PASSAGE, "url": "ferry.txt", "score": 0.9}]
    assert read_traces([table]).answers == read_traces([api]).answers == [answer]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"resourceSpans": []}\n{"resource', "a.jsonl:2: it is not JSON"),
        ("a.json", '{"spans": []}', "it is not a span; give OTLP as JSON"),
        ("a.json", '{"resourceSpans": []}', "there are no spans in it"),
        ("a.json", '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "a span cannot be read"),
        ("a.parquet", "no", "it is not a Parquet file"),
        ("a.bin", b"\x0a\xff\xfe", "OTLP is read as JSON, not as protobuf"),
    ],
)
def test_files_that_are_no_traces(tmp_path: Path, name: str, text: str | bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        read_traces([path])
    assert words in str(raised.value)


@pytest.mark.models
def test_a_trace_file_becomes_a_question_set_and_its_answers_a_system(finished: Finished) -> None:
    folder = finished.path.parent
    traces = as_lines(folder / "traces.jsonl", production())
    made = assay("questions", "from-traces", str(finished.path), str(traces))
    assert made.returncode == 0, made.stderr
    review, answers = map(Path, made.stdout.split())
    assert (review.name, answers.name) == ("town-traced.review.yaml", "town-traced.answers.jsonl")
    assert "1 traces were left out: their input is not a question" in made.stderr
    try:
        file = yaml.safe_load(review.read_text())
        by_text = {one["question"]: one for one in file["questions"]}
        assert set(by_text) == {FERRY, "And how often does it run?", FILMS}, (
            "the study knows who the mayor is"
        )
        assert by_text[FERRY]["asked"] == {"times": 2, "up": 1, "also_as": [FERRY.upper()]}
        assert by_text[FERRY]["passages"][0]["text"] == PASSAGE
        truths = {
            FERRY: "Above nine Beaufort.",
            "And how often does it run?": "Every forty minutes.",
            FILMS: "One.",
        }
        for question, one in by_text.items():
            one |= {"review": "accept", "ground_truth": truths[question]}
        by_text[FERRY]["evidence"] = [{"url": "ferry.txt", "quote": PASSAGE}]
        review.write_text(yaml.safe_dump(file))
        again = assay("questions", "from-traces", str(finished.path), str(traces))
        assert again.returncode == 0, again.stderr
        assert review.read_text().count("review: accept") == 3, "what was decided stays"
        reviewed = assay("questions", "review", str(review))
        assert reviewed.returncode == 0, reviewed.stderr
        systems = "systems: {traced: {recorded: {file: town-traced.answers.jsonl}}}\nmetrics: ["
        finished.edit("metrics: [", systems)
        study = finished.edit(
            "town.questions.yaml}]", "town.questions.yaml}, {file: town-traced.questions.yaml}]"
        )
        report = Driver(study, finished.home).run()
        (note,) = failure_notes(report.stages)
        assert "town.-.-.-.traced: 1 of 6 answers failed, first: error: upstream timed out" in note
        data = report_data(study, finished.home, with_hits=False)
        names = {row["question_id"]: row["question"] for row in data.questions.iter_rows(named=True)}
        of_system = data.answers.filter(pl.col("cell").str.ends_with(".traced"))
        rows = {names[row["question_id"]]: row for row in of_system.iter_rows(named=True)}
        assert (rows[FERRY]["answer"], rows[FERRY]["seconds"], rows[FERRY]["usd"]) == ("Never.", 2.0, None)
        assert rows["And how often does it run?"]["answer"] == "Every forty minutes."
        assert (rows[FILMS]["status"], rows[FILMS]["reason"]) == ("error", "upstream timed out")
        unknown = rows["What does a mooring cost in summer?"]
        assert unknown["status"] == "not_run"
        assert unknown["reason"] == NOT_RECORDED
    finally:
        for path in folder.glob("town-traced.*"):
            path.unlink()
        traces.unlink()


def test_mistakes_in_recorded_answers_are_told(tmp_path: Path, study_path: Path) -> None:
    text = study_path.read_text()
    systems = "systems: {traced: {recorded: {file: answers.jsonl}}}\nmetrics: ["
    study_path.write_text(text.replace("metrics: [", systems))
    answers = tmp_path / "answers.jsonl"
    missing = read_study(study_path).systems["traced"].missing()
    assert missing == f"there is no {answers}"
    for line, words in (
        ('{"anser": "b"}', "it names no question"),
        ('{"question": "a", "seconds": -1}', "`seconds`: Input should be greater"),
        ("{", "expected a JSON object with a question"),
    ):
        answers.write_text(f'{{"question": "x", "answer": "y"}}\n{line}\n')
        found = assay("check", str(study_path))
        assert found.returncode == 2
        assert words in found.stderr
    answers.write_text('{"question": "x", "answer": "y"}\n')
    home = {"ASSAY_HOME": str(tmp_path / "var"), "DAGSTER_HOME": ""}
    planned = assay("run", str(study_path), "--dry-run", **home)
    assert planned.returncode == 0, planned.stderr
    assert "no model is called, so nothing costs money" in planned.stdout
