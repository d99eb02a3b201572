"""The judges by entailment through a whole small study: rows, scores, what is asked again and what is not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.judging.entailment.hypotheses import Splitting
from rag_assay.evals.judging.entailment.judge import NAMES
from rag_assay.evals.judging.entailment_classifier import LABELS
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status
from tests.fakes.cross_encoder import build_cross_encoder
from tests.fakes.judges import REPLIES
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure
from tests.fakes.tiny import TEXTS
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
CELL = "tiny.t16.minilm.bm25.quote"
TRUTHS = {"noon", "tickets", "lamp"}


def shape_of(received: Received) -> str:
    return str(received.body["response_format"]["json_schema"]["name"])


def reply(received: Received) -> Scripted:
    """Facts that speak of noon are entailed, all others contradicted."""
    user = received.body["messages"][-1]["content"]
    return answer(json.dumps(REPLIES[shape_of(received)](user, received.body)))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    with FakeOpenAI(respond=reply) as running:
        yield running


def study(judge: dict[str, Any], mutations: int = 0) -> Variant:
    return {**PLAIN, "judges": {"nli": judge}, "judge_cards": {"nli": {"mutations": mutations}}}


def asking(server: FakeOpenAI, **parameters: Any) -> dict[str, Any]:
    return {"entailment": {"model": "openai/judge", "api_base": server.api_base, **parameters}}


def rows_of(town: Town) -> pl.DataFrame:
    return read_parquet(town.bench.folder("judgements", f"{CELL}.by.nli") / "judgements.parquet")


def answers_of(town: Town) -> dict[str, str]:
    found = read_parquet(town.bench.folder("answers", CELL) / "answers.parquet")
    return dict(found.select("question_id", "answer").iter_rows())


def share(text: str) -> float:
    """Share of its sentences that speak of noon."""
    sentences = Splitting().hypotheses(text)
    return sum("noon" in one for one in sentences) / len(sentences)


def test_a_study_is_judged_by_entailment(town: Town, server: FakeOpenAI) -> None:
    data = town.run(study(asking(server)), "home")
    assert {one.name for one in data.metrics} >= {f"nli.{name}" for name in NAMES}
    rows = rows_of(town)
    answers = {name: text for name, text in answers_of(town).items() if text}
    assert {"noon"} < set(answers)
    for name in ("faithfulness", "precision"):
        found = rows.filter(metric=name, status="ok")
        values = dict(found.select("question_id", "value").iter_rows())
        assert values == {
            q: share(text) for q, text in answers.items() if name == "faithfulness" or q in values
        }
        assert len(set(values.values())) > 1, "some speak of noon, some do not"
    truth = dict(rows.filter(metric="recall", status="ok").select("question_id", "value").iter_rows())
    assert truth["noon"] == 1
    assert {value for question, value in truth.items() if question != "noon"} == {0}
    refused = dict(rows.filter(metric="truth_refusal").select("question_id", "value").iter_rows())
    assert refused == {"noon": 0, "tickets": 0, "lamp": 0, "captain": 1}
    [statements] = rows.filter(metric="recall", question_id="noon")["statements"].to_list()
    kinds = [(one["of"], one["verdict"]) for one in statements]
    assert kinds[-1] == ("ground truth, sentence 1", "entailed")
    assert [of for of, _ in kinds[:-1]] == ["stage"] * 3
    bodies = {json.dumps(one.body, sort_keys=True) for one in server.requests}
    assert len(bodies) == len(server.requests) <= rows["calls"].sum(), "what is equal is asked once"


def test_a_second_run_asks_nothing_and_a_changed_document_no_more_than_it_must(
    town: Town, server: FakeOpenAI
) -> None:
    town.build(study(asking(server)), "home")
    before = rows_of(town)
    server.requests.clear()
    town.build(study(asking(server)), "home")
    assert not server.requests
    assert not town.built
    changed = {**TEXTS, "ferry": TEXTS["ferry"].replace("at noon", "at noon, as always,")}
    assert changed != TEXTS
    town.build(study(asking(server)), "home", docs=changed)
    assert server.requests, "its answers have changed"
    asked = Counter(map(shape_of, server.requests))
    assert asked["pronouns"] < len(before.filter(metric="faithfulness")) + len(TRUTHS), (
        "no ground truth again"
    )
    assert len(rows_of(town)) == len(before)


def test_what_fails_is_tried_again_and_nothing_else_is(town: Town, server: FakeOpenAI) -> None:
    def respond(received: Received) -> Scripted:
        broken = shape_of(received) == "facts" and "<passage " in received.body["messages"][-1]["content"]
        return failure(500, "overloaded") if broken else reply(received)

    server.respond = respond
    town.build(study(asking(server)), "home", whole=False)
    rows = rows_of(town)
    assert set(rows.filter(metric="faithfulness")["status"]) & {Status.ERROR}
    assert set(rows.filter(metric="faithfulness")["value"]) <= {None}
    assert rows.filter(metric="precision")["value"].drop_nulls().len() > 0
    server.respond = reply
    server.requests.clear()
    town.build(study(asking(server)), "home")
    assert set(map(shape_of, server.requests)) == {"facts"}
    assert all("<passage " in one.body["messages"][-1]["content"] for one in server.requests)
    assert rows_of(town).filter(metric="faithfulness", status="ok").height > 0


def test_a_study_is_judged_by_a_classifier_and_anew_by_other_weights(town: Town, tmp_path: Path) -> None:
    folder, other = (
        build_cross_encoder(tmp_path / name, TEXTS.values(), seed=seed, labels=LABELS)
        for name, seed in (("nli", 7), ("other", 8))
    )
    judge = study({"entailment_classifier": {"model": str(folder)}}, mutations=4)
    town.build(judge, "home")
    assert "judge_cards" in town.built, "it is tried by answers made worse, too"
    first = rows_of(town)
    values = first.filter(status="ok")
    assert set(values["metric"]) == {"faithfulness", "precision", "recall"}
    assert values["value"].is_between(0, 1).all()
    assert set(values["usd"]) == {0.0}
    town.build(judge, "home")
    assert not town.built
    (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    town.build(judge, "home")
    assert "judgements" in town.built
    assert (
        not rows_of(town)
        .select("question_id", "metric", "value")
        .equals(first.select("question_id", "metric", "value"))
    )
