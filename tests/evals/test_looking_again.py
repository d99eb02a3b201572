"""Generators that search again, bin and know the conversation, in the real stages and in a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.answers import Answers
from rag_assay.evals.pipeline.cell_items import StudyQuestions
from rag_assay.evals.pipeline.pipeline import open_pipeline
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import ANSWERS, Status
from tests.evals.conftest import MakeBench
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.tiny import Bench

pytestmark = pytest.mark.models
EXTRACTIVE = "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
RETRIEVERS = "  dense: {dense: {k: 5}}\n"
TUNED = (
    "  follow: [{follow_up: {}}, {bm25: {k: 5}}]\n"
    "  tuned: {fuse: {rrf: {}, of: [{bm25: {k: 20}}, {dense: {k: 20}}], weights: tuned, k: 5}}\n"
)
SETS = "  - file: ferry.questions.yaml\n"
TRAIN = """\
question_set: train
language: en
questions:
  - id: train-1
    question: Whence comes heating for workplaces beside boats?
    evidence: [{url: "https://x.example/heat", quote: "heated by a pump that draws warmth"}]
"""
TURNS = """\
question_set: ferry
language: en
questions:
  - id: tickets
    question: Where are tickets for the crossing sold?
    ground_truth: On the quay.
    evidence: [{url: "https://x.example/tickets", quote: "Tickets are sold on the quay"}]
  - id: price
    question: And for whom are they free?
    ground_truth: Children under six.
    conversation: [Where are tickets for the crossing sold?, On the quay.]
    evidence: [{url: "https://x.example/tickets", quote: "Children under six travel without one"}]
  - id: long
    question: And when?
    ground_truth: In the morning.
    conversation:
      - Who was captain in 1901?
      - Nobody knows.
      - Where are tickets for the crossing sold?
      - On the quay.
"""


def respond(received: Received) -> Scripted:
    prompt = str(received.body["messages"][-1]["content"])
    if "response_format" in received.body:
        suffices = "lit at sunset" in prompt
        return answer(json.dumps({"sufficient": suffices, "missing": "" if suffices else "lamp lit sunset"}))
    n_passages = prompt.count("<passage ")
    return answer(f"On the quay [{n_passages}].")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    with FakeOpenAI(respond=respond) as fake:
        yield fake


@pytest.fixture
def bench(make_bench: MakeBench, server: FakeOpenAI, tmp_path: Path) -> Bench:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "train.questions.yaml").write_text(TRAIN)
    asks = f"model: openai/any, passages: 1, api_base: '{server.api_base}'"
    generators = (
        f"  plain: {{llm: {{{asks}}}}}\n"
        f"  checked: {{llm: {{{asks}, sufficiency: {{passages: 3}}}}}}\n"
        f"  short: {{llm: {{{asks}, history_tokens: 16}}}}\n"
        f"  binned: {{llm_binned: {{{asks}, bin_tokens: 40, sufficiency: {{passages: 4}}}}}}\n"
    )
    changes = {
        EXTRACTIVE: generators,
        RETRIEVERS: TUNED,
        SETS: f"{SETS}  - {{file: train.questions.yaml, use: train}}\n",
    }
    return make_bench(changes, TURNS)


def run(bench: Bench) -> None:
    built = bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
    assert all(found.ok for outcomes in built.values() for found in outcomes), built


def rows(bench: Bench, name: str) -> dict[str, dict[str, Any]]:
    found = read_parquet(bench.folder("answers", f"tiny.t16.minilm.{name}") / "answers.parquet")
    assert found.schema == pl.Schema(ANSWERS)
    return {row["question_id"]: row for row in found.iter_rows(named=True)}


def test_what_was_found_in_the_end_is_the_context_of_the_row(bench: Bench, server: FakeOpenAI) -> None:
    run(bench)
    for retriever in ("bm25", "follow", "tuned"):
        tickets = rows(bench, f"{retriever}.checked")["tickets"]
        first, second = tickets["attempts"]
        assert (first["sufficient"], first["reason"]) == (False, "missing: lamp lit sunset")
        assert second["query"] == "Where are tickets for the crossing sold? lamp lit sunset"
        assert second["sufficient"] is True
        assert second["chunk_ids"][:1] == first["chunk_ids"]
        assert tickets["chunk_ids"] == second["chunk_ids"]
        assert 1 < len(tickets["chunk_ids"]) <= 3
        assert tickets["citations"][0]["chunk_id"] == tickets["chunk_ids"][-1]
        plain = rows(bench, f"{retriever}.plain")["tickets"]
        assert (plain["attempts"], len(plain["chunk_ids"])) == ([], 1)
    binned = rows(bench, "bm25.binned")["tickets"]
    assert len(binned["bins"]) > 1
    assert {one["status"] for one in binned["bins"]} == {"ok"}
    assert {chunk for one in binned["bins"] for chunk in one["chunk_ids"]} <= set(binned["chunk_ids"])
    check_the_conversation(bench, server)


def check_the_conversation(bench: Bench, server: FakeOpenAI) -> None:
    found = rows(bench, "follow.plain")
    assert [row["turns_left_out"] for row in found.values()] == [0, 0, 0]
    assert [row["turns_left_out"] for row in rows(bench, "follow.short").values()] == [0, 0, 2]
    before = (
        "User: Where are tickets for the crossing sold?\nAssistant: On the quay.\n\nQuestion: And for whom"
    )
    prompts = [str(one.body["messages"][-1]["content"]) for one in server.requests]
    assert any(before in one for one in prompts)
    assert found["price"]["status"] == Status.OK
    assert found["long"]["chunk_ids"] == found["tickets"]["chunk_ids"], "the search reads it, too"


def test_a_pipeline_looks_again_as_the_grid_does(bench: Bench, server: FakeOpenAI) -> None:
    run(bench)
    n_asked = len(server.requests)
    work = BuildContext(bench.home)
    for name in ("bm25.binned", "follow.checked", "tuned.checked"):
        with open_pipeline(bench.study, bench.grid.cells[f"tiny.t16.minilm.{name}"], work) as pipeline:
            for question_id, row in rows(bench, name).items():
                known = StudyQuestions(bench.study, work).named(question_id)
                assert known is not None
                found = pipeline.ask_row(known).answer
                assert found is not None
                assert (found.status, found.text) == (row["status"], row["answer"])
                assert [one.chunk for one in found.passages or ()] == row["chunk_ids"]
                assert [list(one.chunks) for one in found.attempts] == [
                    one["chunk_ids"] for one in row["attempts"]
                ]
                assert [one.text for one in found.bins] == [one["text"] for one in row["bins"]]
    work.close()
    assert len(server.requests) == n_asked, "all of it is paid already"


def test_only_what_searches_again_hangs_on_all_of_the_retriever(bench: Bench) -> None:
    stage = Answers(bench.grid)
    plain, checked = (set(stage.recipes(f"tiny.t16.minilm.tuned.{name}")) for name in ("plain", "checked"))
    assert {key.partition(".")[0] for key in checked} - {key.partition(".")[0] for key in plain} == {
        "tokenizer",
        "queries",
        "tuning",
    }
    needs = {
        name: [one.key for one in stage.needs(f"tiny.t16.minilm.{name}")]
        for name in ("tuned.plain", "tuned.checked", "bm25.checked")
    }
    assert len(needs["tuned.checked"]) == len(needs["tuned.plain"]) + 1 == len(needs["bm25.checked"]) + 1
