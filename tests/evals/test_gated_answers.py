"""Gates whose thresholds are fitted on train questions, through the real stages of a tiny corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.pipeline import open_pipeline
from rag_assay.evals.reporting.study_facts import study_facts
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from tests.evals.conftest import MakeBench
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.tiny import QUESTIONS, Bench, write_study

pytestmark = pytest.mark.models
EXTRACTIVE, SETS = (
    "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n",
    "  - file: ferry.questions.yaml\n",
)
GATED = """\
  gated: {extractive: {passages: 2, max_tokens: 40, gate: {threshold: tuned}}}
  likely:
    extractive:
      {passages: 2, max_tokens: 40, gate: {feature: quote, threshold: tuned, wrong_refusals: 0.4}}
"""
WITH_TRAIN = {EXTRACTIVE: EXTRACTIVE + GATED, SETS: f"{SETS}  - {{file: train.questions.yaml, use: train}}\n"}
KEY, LIKELY = (f"tiny.t16.minilm.bm25.{name}" for name in ("gated", "likely"))
TRAIN = """\
question_set: train
language: en
questions:
  - id: train-1
    question: What heats the harbour office?
    evidence: [{url: "https://x.example/heat", quote: "heated by a pump that draws warmth"}]
  - id: train-2
    question: When is the lamp of the lighthouse lit?
    evidence: [{url: "https://x.example/lamp", quote: "The lamp is lit at sunset"}]
  - id: train-3
    question: Who painted the Mona Lisa in the harbour?
    answerable: false
"""


def bench_of(make_bench: MakeBench, tmp_path: Path, train: str = TRAIN, **changes: str) -> Bench:
    (tmp_path / "study").mkdir(exist_ok=True)
    (tmp_path / "study" / "train.questions.yaml").write_text(train)
    return make_bench({**WITH_TRAIN, **changes})


def rows(bench: Bench, key: str) -> dict[str, dict[str, Any]]:
    found = read_parquet(bench.folder("answers", key) / "answers.parquet")
    return {row["question_id"]: row for row in found.iter_rows(named=True)}


def test_the_threshold_is_fitted_on_train_questions_alone(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = bench_of(make_bench, tmp_path)
    built = bench.build()
    assert all(outcome.ok for outcomes in built.values() for outcome in outcomes), built
    plain = rows(bench, "tiny.t16.minilm.bm25.extractive")
    for key, feature, reason in ((LIKELY, "quote", "probability of the"), (KEY, "top", "retrieval score ")):
        gate = bench.artifact("answers", key).meta["gate"]
        assert (gate["feature"], gate["answerable"]) == (feature, 2)
        assert 1 <= gate["unanswerable"] <= 3, "two without their documents, one without an answer"
        assert gate["value"] >= 0.75
        gated = rows(bench, key)
        assert set(gated) == {"noon", "tickets", "captain"}
        for name, row in gated.items():
            if row["confidence"] < gate["threshold"]:
                assert row["status"] == "refused"
                assert row["reason"].startswith(reason)
            else:
                assert (row["status"], row["answer"]) == ("ok", plain[name]["answer"])
    assert gated["captain"]["status"] == "refused"
    assert gated["noon"]["status"] == "ok"
    recipe = study_facts(bench.study, bench.store).recipes["gated"]
    assert "# t16, minilm, bm25: gate at top" in recipe
    with open_pipeline(bench.study, Grid([bench.study]).cells[KEY], BuildContext(bench.home)) as pipeline:
        asked = pipeline.ask("Who was captain of the ferry in 1901?")
    assert asked.answer is not None
    assert asked.answer.reason == gated["captain"]["reason"]


def test_another_train_set_fits_anew_and_other_test_questions_do_not_change_it(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    first = bench_of(make_bench, tmp_path)
    first.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
    before = first.artifact("answers", KEY)
    changed = QUESTIONS.replace("When does the ferry leave the harbour?", "When does it leave?")
    other = make_bench(WITH_TRAIN, changed)
    other.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
    assert other.artifact("answers", KEY).meta["gate"] == before.meta["gate"], "no test question is fitted on"
    assert other.artifact("answers", KEY).identity != before.identity
    fewer = bench_of(
        make_bench, tmp_path, TRAIN.replace("What heats the harbour office?", "What draws warmth?")
    )
    fewer.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
    assert fewer.artifact("answers", KEY).identity != before.identity
    assert fewer.artifact("answers", KEY).meta["gate"] != before.meta["gate"]


def test_a_test_question_among_the_train_questions_is_left_out(make_bench: MakeBench, tmp_path: Path) -> None:
    leaking = (
        f"{TRAIN}  - id: leak\n    question: when does the ferry leave the harbour\n    answerable: false\n"
    )
    bench = bench_of(make_bench, tmp_path, leaking)
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
    gate = bench.artifact("answers", KEY).meta["gate"]
    assert gate["train_questions_left_out"] == 1
    assert gate["answerable"] == 2


def test_a_model_behind_a_closed_gate_is_not_paid(
    make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FakeOpenAI(respond=lambda _received: answer("At noon [1].")) as server:
        llm = f"{{model: openai/any, api_base: '{server.api_base}', gate: {{threshold: 1000}}}}"
        bench = make_bench({EXTRACTIVE: f"  llm: {{llm: {llm}}}\n"})
        bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
        assert server.requests == []
    found = rows(bench, "tiny.t16.minilm.bm25.llm").values()
    assert {row["status"] for row in found} == {"refused"}
    assert all("below the gate's 1000" in row["reason"] for row in found)


def test_without_train_questions_nothing_can_be_fitted(tmp_path: Path) -> None:
    path = write_study(tmp_path, {EXTRACTIVE: GATED}, QUESTIONS)
    with pytest.raises(InputError, match="`threshold: tuned` needs train questions") as error:
        read_study(path)
    assert "tiny.yaml:15" in str(error.value)
