"""A whole small study with the judge `ragas`: its rows and scores, a second run, a further metric."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext
from rag_assay.evals.judging.ragas.judge import Ragas
from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import CallEstimate, plan
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.ragas_judge import input_of, replying, shape_of, statement, user_of
from tests.fakes.town import PLAIN, QUESTIONS, Town, Variant

CELL = "tiny.t16.minilm.bm25.quote"
TRUTHS = {"noon", "tickets", "lamp", "captain"}
METRICS = ["faithfulness", "context_recall", "answer_relevancy"]


def respond(received: Received) -> Scripted:
    """Two statements of each answer, the first of which is supported; of the lamp nothing can be read."""
    if "glows over the sea" in user_of(received) and shape_of(received) == "ContextRecallOutput":
        return answer("I would rather not say.")
    return replying(
        {
            "StatementGeneratorOutput": lambda given: {"statements": [given["answer"], "It is new."]},
            "NLIStatementOutput": lambda given: {
                "statements": [statement(one, int(not n)) for n, one in enumerate(given["statements"])]
            },
            "ContextRecallOutput": lambda given: {
                "classifications": [{"statement": given["answer"], "reason": "There.", "attributed": 1}]
            },
            "ContextPrecisionOutput": lambda _: {"reason": "Of use.", "verdict": 1},
            "AnswerRelevanceOutput": lambda given: {"question": given["response"], "noncommittal": 0},
        }
    )(received)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=respond) as running:
        yield running


def study(server: FakeOpenAI, metrics: list[str] = METRICS) -> Variant:
    judge = {"ragas": {"model": "openai/judge", "api_base": server.api_base, "metrics": metrics}}
    cards = {"ragas": {"mutations": 0}}
    ranked = ["ragas.faithfulness", "ndcg@10"]
    return {**PLAIN, "judges": {"ragas": judge}, "judge_cards": cards, "metrics": ranked}


def planned_rows(town: Town, variant: Variant) -> list[CallEstimate]:
    bench = town.bench_of(variant, "home")
    found = plan(bench.study, bench.stages, bench.home)
    rows = estimates(bench.study, found, bench.stages, bench.home)
    return [row for row in rows if row.what == "judging by ragas"]


def planned(town: Town, variant: Variant) -> CallEstimate:
    (row,) = planned_rows(town, variant)
    return row


@pytest.mark.models
def test_a_study_is_judged(town: Town, server: FakeOpenAI, tmp_path: Path) -> None:
    (tmp_path / "ferry.questions.yaml").write_text(QUESTIONS)
    row = planned(town, study(server))
    data = town.run(study(server), "home")
    rows = read_parquet(town.bench.folder("judgements", f"{CELL}.by.ragas") / "judgements.parquet")
    assert Counter(rows["metric"]) == dict.fromkeys(METRICS, len(TRUTHS))
    board = {row["metric"]: row for row in data.leaderboard.iter_rows(named=True)}
    assert set(board) == {*(f"ragas.{name}" for name in METRICS), "ndcg@10"}
    assert (board["ragas.faithfulness"]["value"], board["ragas.faithfulness"]["rank"]) == (0.5, 1)
    recall = board["ragas.context_recall"]
    assert (recall["value"], recall["n"], recall["coverage"]) == (1.0, 4, 0.75)
    (unread,) = rows.filter(pl.col("status") != Status.OK).iter_rows(named=True)
    assert (unread["question_id"], unread["metric"]) == ("lamp", "context_recall")
    assert (unread["status"], unread["value"], unread["calls"]) == (Status.PARSE_FAILED, None, 2)
    assert unread["raw"] == "I would rather not say.\n\nI would rather not say."
    (one,) = rows.filter(question_id="noon", metric="faithfulness").iter_rows(named=True)
    assert [part["verdict"] for part in one["statements"]] == ["supported", "not supported"]
    assert (one["calls"], one["model"], one["prompt_tokens"]) == (2, "openai/judge", 22)
    asked = len(server.requests)
    assert asked == len({json.dumps(received.body) for received in server.requests}), "nothing is asked twice"
    assert rows["calls"].sum() == 4 * (2 + 1 + 3) + 1, "of which equal answers share some"
    # At least the one of context_recall, which needs no answer; at most two of each, and three of verdicts.
    assert (row.calls.least, row.calls.most) == (4 * 1, 4 * 2 * (1 + 3 + 1 + 3))
    assert row.calls.least <= asked <= row.calls.most
    assert not planned_rows(town, study(server))
    town.run(study(server), "home")
    assert len(server.requests) == asked, "a second run asks nothing"
    server.requests.clear()
    town.run(study(server, [*METRICS, "context_precision"]), "home")
    assert {shape_of(received) for received in server.requests} == {"ContextPrecisionOutput"}
    paid = {(row["purpose"], row["study"], row["cell"]) for row in CallCache(town.bench.home).rows()}
    assert paid == {("judging", "tiny", CELL)}
    assert {row["question"] for row in CallCache(town.bench.home).rows()} == TRUTHS


def test_cases_are_judged_side_by_side(tmp_path: Path) -> None:
    """The server answers none of 32 cases before it has been asked all of them."""
    met = threading.Barrier(32)
    first = threading.Event()

    def held(received: Received) -> Scripted:
        if first.is_set():
            met.wait(60)
        first.set()
        classification = {"statement": "So.", "reason": "", "attributed": 1}
        assert input_of(user_of(received))["answer"].startswith("Truth")
        return answer(json.dumps({"classifications": [classification]}))

    cases = [
        JudgeCase(f"Question {n}?", ground_truth=f"Truth {n}.", passages=(Passage("Text."),))
        for n in range(33)
    ]
    with FakeOpenAI(respond=held) as server, Gateway(Home(tmp_path), retries=0) as gateway:
        judge = Ragas(
            model="openai/judge",
            api_base=server.api_base,
            metrics=("context_recall",),
            limits={"at_once": 32},
        )
        done: list[tuple[int, int]] = []
        context = JudgeContext(
            gateway, _no_embedding, progress=lambda _label, number, of: done.append((number, of))
        )
        found = judge.judge(cases, context)
    assert [one["context_recall"].value for one in found] == [1.0] * 33
    assert done == [(number, 33) for number in range(1, 34)]


def _no_embedding(_texts: Any) -> Any:
    return np.zeros((0, 0))
