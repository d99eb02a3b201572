"""Judges of imported studies: they read answers and passages as the sheet has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.paths import Home
from tests.fakes.imported import QUESTIONS, TRUE, grid, imported_bench, put_sheet, row
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.tiny import Bench

DENSE, BM25 = "ferry.c128.-.dense.llama", "ferry.c128.-.bm25.llama"


def respond(received: Received) -> Scripted:
    """Say yes where the answer is the true one."""
    user = str(received.body["messages"][-1]["content"])
    (said,) = re.findall(r"<answer>\n(.*?)\n</answer>", user, re.DOTALL)
    return answer(
        "Yes", "length", tops={"Yes": 0.9, "No": 0.1} if said in TRUE.values() else {"No": 0.9, "Yes": 0.1}
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    return Home(tmp_path / "home")


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=respond) as running:
        yield running


def judges(server: FakeOpenAI) -> dict[str, str]:
    model = f"model: openai/judge, api_base: '{server.api_base}', metrics: [supported]"
    return {
        "metrics: [": f"judges:\n  sure: {{yes_no: {{{model}}}}}\njudge_cards: {{sure: {{mutations: 0}}}}\n"
        "metrics: [sure.supported, "
    }


def means(bench: Bench, metric: str) -> dict[str, float]:
    board = pl.read_parquet(bench.folder("leaderboard", "ferry") / "leaderboard.parquet")
    return dict(board.filter(metric=metric).select("cell", "value").iter_rows())


def test_a_judge_reads_what_the_sheet_has_and_each_case_once(
    home: Home, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "no-weights"))
    rows = grid()
    bench = imported_bench(home, {"llama": rows}, judges(server))
    outcomes = bench.build()
    assert all(one.ok for found in outcomes.values() for one in found), outcomes
    found = means(bench, "sure.supported")
    assert {cell: value > 0.8 for cell, value in found.items()} == {cell: "dense" in cell for cell in found}
    sent = [str(one.body["messages"][-1]["content"]) for one in server.requests]
    assert all("Another passage." in text for text in sent)
    assert any("The passage about noon." in text and "At noon." in text for text in sent)
    n_calls = len(sent)
    changed = {**rows[0], "contexts": ["What nobody has seen before."]}
    put_sheet(bench.study.path.parent, "llama", [changed, *rows[1:]])
    later = Bench(bench.study.path, home)
    later.build()
    assert len(server.requests) == n_calls + 1, "one case alone is another one"
    assert "What nobody has seen before." in str(server.requests[-1].body)
    assert not any(one.computed for found in later.build().values() for one in found)


def test_what_was_not_answered_is_not_judged(home: Home, server: FakeOpenAI) -> None:
    rows = [row("noon", "At noon."), row("tickets", ""), row("noon", "Now.", replicate=2)]
    bench = imported_bench(home, {"llama": [*rows, row("lamp", None)]}, judges(server))
    outcomes = bench.build()
    assert all(one.ok for found in outcomes.values() for one in found), outcomes
    assert len(server.requests) == 2
    statuses = {}
    for key in (DENSE, f"{DENSE}.2"):
        scores = pl.read_parquet(bench.folder("scores", key) / "scores.parquet")
        found = scores.filter(metric="sure.supported").select("question_id", "status")
        statuses[key] = dict(found.iter_rows())
    assert statuses == {
        DENSE: {"noon": "ok", "tickets": "parse_failed", "lamp": "not_run"},
        f"{DENSE}.2": {"noon": "ok"},
    }
    assert not any(one.computed for found in bench.build().values() for one in found)
    assert bench.write_report().ok


def test_without_contexts_what_needs_them_has_no_value(home: Home, server: FakeOpenAI) -> None:
    rows = [row(name, truth, contexts=None) for name, truth in TRUE.items()]
    bench = imported_bench(home, {"llama": rows}, judges(server))
    assert all(one.ok for found in bench.build().values() for one in found)
    scores = pl.read_parquet(bench.folder("scores", DENSE) / "scores.parquet").filter(metric="sure.supported")
    assert (len(scores), scores["value"].null_count()) == (len(QUESTIONS), len(QUESTIONS))
    assert set(scores["status"]) == {"no_context"}
    assert server.requests == []


@pytest.mark.models
def test_similarity_is_that_of_the_passages_of_the_sheet(home: Home, weights: Callable[[str], Path]) -> None:
    weights("all-MiniLM-L6-v2")
    near = {**row("noon", "The ferry sails at noon."), "contexts": ["The ferry sails at noon."]}
    far = {**near, "retriever": "bm25", "contexts": ["Cheese is made of milk."]}
    changes = {"metrics: [": "judges:\n  near: {similarity: {}}\nmetrics: [near.passage, "}
    bench = imported_bench(home, {"llama": [near, far]}, changes)
    assert all(one.ok for found in bench.build().values() for one in found)
    found = means(bench, "near.passage")
    assert found[DENSE] == pytest.approx(1.0, abs=1e-5)
    assert found[BM25] < 0.3
