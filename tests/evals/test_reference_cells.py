"""Closed book and reference passages: one cell a study, measured by answers alone, whatever the axes are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.passages import evidence_passages
from rag_assay.evals.pipeline.pipeline import open_pipeline
from rag_assay.evals.reporting.caveats import ceiling_sentences
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.standings import main_subset
from rag_assay.evals.study.cells import UNREAD, Cell
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import plan
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.tiny import TEXTS, Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
EXTRACTIVE = "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
METRICS = "[ndcg@10, evidence_coverage@5, abstention, retrieval_latency]"
CLOSED, ORACLE = "tiny.-.-.-.closed", "tiny.-.-.-.oracle"


def respond(received: Received) -> Scripted:
    """Answer well from the evidence, worse from a ranking, badly from nothing."""
    asked = received.body["messages"][-1]["content"]
    if "<passage " not in asked:
        return answer("Nobody can say when.")
    return answer("At noon." if asked.count("<passage ") == 1 else "It leaves at noon or so.")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    with FakeOpenAI(respond=respond) as fake:
        yield fake


@pytest.fixture
def bench(make_bench: MakeBench, server: FakeOpenAI) -> Bench:
    chat = f"model: openai/any, api_base: '{server.api_base}'"
    generators = (
        f"  llm: {{llm: {{{chat}, passages: 2}}}}\n"
        f"  closed: {{no_context: {{{chat}}}}}\n"
        f"  oracle: {{oracle_context: {{{chat}}}}}\n"
    )
    return make_bench({EXTRACTIVE: generators, METRICS: "[rouge_l, ndcg@10, abstention, retrieval_latency]"})


def answers(bench: Bench, key: str) -> dict[str, dict[str, Any]]:
    found = read_parquet(bench.folder("answers", key) / "answers.parquet")
    return {row["question_id"]: row for row in found.iter_rows(named=True)}


def test_they_are_one_cell_each_and_read_what_they_say(bench: Bench, server: FakeOpenAI) -> None:
    assert [cell.key for cell in bench.study.cells()][-2:] == [CLOSED, ORACLE]
    assert not any(UNREAD in key for key in (*bench.grid.rankings, *bench.study.indexes()))
    outcomes = bench.build()
    assert all(found.ok for stage in outcomes.values() for found in stage), outcomes
    closed, oracle = answers(bench, CLOSED), answers(bench, ORACLE)
    assert {row["status"] for row in closed.values()} == {"ok"}
    assert {row["answer"] for row in closed.values()} == {"Nobody can say when."}
    assert (oracle["noon"]["answer"], len(oracle["noon"]["chunk_ids"])) == ("At noon.", 1)
    assert (oracle["captain"]["status"], oracle["captain"]["answer"]) == ("no_context", None)
    assert oracle["captain"]["reason"] == "the question has no evidence in the documents"
    sent = [json.dumps(one.body) for one in server.requests]
    of_oracle = [text for text in sent if text.count("<passage ") == 1 and "leave the harbour" in text]
    assert len(of_oracle) == 1
    assert "The ferry leaves the harbour at noon." in of_oracle[0]
    assert "It calls at the island" not in of_oracle[0]
    # Each key once: what was asked of two rankings is two calls, of none is one.
    assert sum("<passage " not in text for text in sent) == 3


def test_metrics_of_retrieval_have_no_value_there_and_nothing_leads_by_them(bench: Bench) -> None:
    bench.build()
    for key in (CLOSED, ORACLE):
        rows = read_parquet(bench.folder("scores", key) / "scores.parquet")
        of_ranking = rows.filter(pl.col("metric").is_in(["ndcg@10", "retrieval_latency"]))
        assert set(of_ranking["status"]) == {"not_run"}
        assert set(of_ranking["reason"]) == {"reads no ranking"}
        assert of_ranking["value"].null_count() == len(of_ranking)
        assert rows.filter(metric="rouge_l", question_id="noon")["status"].to_list() == ["ok"]
    board = read_parquet(bench.folder("leaderboard", "tiny") / "leaderboard.parquet")
    ranks = dict(board.filter(metric="rouge_l").select("generator", "rank").unique().iter_rows())
    assert ranks["oracle"] is None, "no pipeline can have the reference passages"
    assert set(board.filter(generator="oracle")["retriever"]) == {None}
    assert len(set(board.filter(metric="ndcg@10")["n"])) == 1
    checks = {check["name"]: check for check in bench.artifact("leaderboard", "tiny").meta["checks"]}
    assert checks["equal_questions"]["passed"]


def test_they_hang_on_what_they_read_alone(bench: Bench, make_bench: MakeBench) -> None:
    stage = bench.stages["answers"]
    bench.build()

    def ids(of: Bench) -> dict[str, str]:
        return {key: of.stages["answers"].identity(key, of.store) for key in (CLOSED, ORACLE)}

    before = ids(bench)
    assert [need.stage for need in stage.needs(CLOSED)] == ["questions"]
    assert [need.stage for need in stage.needs(ORACLE)] == ["documents", "questions"]
    text = bench.study.path.read_text()
    bench.study.path.write_text(
        text.replace("size: 16", "size: 12").replace("dense: {k: 5}", "dense: {k: 4}")
    )
    other = Bench(bench.study.path, bench.home)
    other.build("chunks", "embeddings", "indexes", "questions", "rankings")
    assert ids(other) == before, "neither chunking nor retriever is anything to them"
    other.give({**TEXTS, "ferry": TEXTS["ferry"] + " Bring a coat."})
    other.build("questions")
    assert ids(other)[ORACLE] != before[ORACLE]


def test_the_report_says_what_retrieval_costs(bench: Bench) -> None:
    bench.build()
    assert bench.write_report().ok
    data = report_data(bench.study, bench.home)
    (sentence,) = ceiling_sentences(data, main_subset(data))
    assert sentence.startswith("ROUGE-L of openai/any: ")
    for words in ("from retrieved passages", "from the reference passages", "from no passage at all"):
        assert words in sentence
    gain = sentence.partition("from the reference passages (")[2].partition(" [")[0]
    assert gain.startswith("+")
    assert "oracle" not in " ".join(data.verdict.sentences)
    assert "from the reference passages (" in render_html(data)


def test_such_a_cell_cannot_be_asked_anything(bench: Bench) -> None:
    bench.build()
    cell = next(one for one in bench.study.cells() if one.generator == "closed")
    with pytest.raises(InputError, match=r"closed \(no_context\) reads no ranking"):
        open_pipeline(bench.study, cell, BuildContext(bench.home))
    assert replace(cell, sample=None) == Cell("tiny", UNREAD, UNREAD, UNREAD, "closed")


def test_they_are_planned_with_one_call_a_question(bench: Bench) -> None:
    found = plan(bench.study, bench.stages, bench.home)
    calls = {row.what: row.calls.most for row in estimates(bench.study, found, bench.stages, bench.home)}
    assert (calls["answers by closed"], calls["answers by oracle"], calls["answers by llm"]) == (3, 3, 6)


DOCUMENT = {
    "doc_id": "d",
    "title": "Ferry",
    "url": "u",
    "published_at": None,
    "text": "One ends. Two is here. Three follows. Four is last.",
    "sections": [{"heading": "H", "level": 1, "start": 0, "end": 51}],
}


def piece(start: int | None, end: int | None, grade: int = 1, **more: Any) -> dict[str, Any]:
    return {"doc_id": "d", "start": start, "end": end, "grade": grade, "reason": None, **more}


@pytest.mark.parametrize(
    ("evidence", "texts"),
    [
        ([piece(14, 16)], ["Two is here."]),
        ([piece(5, 12)], ["One ends. Two is here."]),
        ([piece(23, 28), piece(38, 42)], ["Three follows.", "Four is last."]),
        ([piece(30, 42), piece(14, 30)], ["Two is here. Three follows. Four is last."]),
        ([piece(14, 16, 1), piece(38, 42, 3)], ["Four is last.", "Two is here."]),
        ([piece(None, None)], [DOCUMENT["text"]]),
        ([piece(14, 16), piece(None, None)], [DOCUMENT["text"]]),
        ([piece(None, None, reason="gone")], []),
        ([piece(1, 2, doc_id="other")], []),
        ([], []),
    ],
)
def test_evidence_is_widened_to_its_sentences(evidence: list[dict[str, Any]], texts: list[str]) -> None:
    found = evidence_passages({"evidence": evidence}, {"d": DOCUMENT})
    assert [one.text for one in found] == texts
    for one in found:
        assert DOCUMENT["text"][one.start : one.end] == one.text
        assert (one.document, one.section, one.title) == ("d", ("H",), "Ferry")
    assert len({one.chunk for one in found}) == len(found)
