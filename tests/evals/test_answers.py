"""Answers of the real stages on a tiny corpus; models answer from a scripted server on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import KeyOutcome
from rag_assay.evals.answers import Answers
from rag_assay.evals.question_sets.no_answer_sentence import UNANSWERED
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.processes import CLASS
from rag_assay.warehouse.schemas import ANSWERS, RETRYABLE, Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure, rate_limited
from tests.fakes.tiny import TEXTS, Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]

EXTRACTIVE = "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
DENSE = "  dense: {dense: {k: 5}}\n"
KEY = "tiny.t16.minilm.bm25.llm"


def rows(bench: Bench, key: str) -> dict[str, dict[str, Any]]:
    found = read_parquet(bench.folder("answers", key) / "answers.parquet")
    assert found.schema == pl.Schema(ANSWERS)
    return {row["question_id"]: row for row in found.iter_rows(named=True)}


def outcome(bench: Bench, key: str) -> KeyOutcome:
    return next(found for found in bench.build("answers")["answers"] if found.key == key)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(
        call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False)
    )  # one attempt a question
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as fake:
        yield fake


@pytest.fixture
def llm_bench(make_bench: MakeBench, server: FakeOpenAI) -> Bench:
    generator = f"  llm: {{llm: {{model: openai/any, passages: 2, api_base: '{server.api_base}'}}}}\n"
    return make_bench({EXTRACTIVE: generator, DENSE: ""})


def before_answers(bench: Bench) -> None:
    built = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    assert all(found.ok for outcomes in built.values() for found in outcomes), built


# --- extractive ---------------------------------------------------------------------------------------


def test_extractive_answers_quote_the_passages(make_bench: MakeBench) -> None:
    bench = make_bench()
    before_answers(bench)
    bench.build("answers")
    found = rows(bench, "tiny.t16.minilm.bm25.extractive")
    assert list(found) == ["noon", "tickets", "captain"]
    noon = found["noon"]
    assert (noon["status"], noon["reason"]) == ("ok", None)
    assert "ferry leaves the harbour at noon" in noon["answer"]
    assert noon["usd"] == 0
    assert noon["prompt_tokens"] >= noon["completion_tokens"] > 0
    assert 1 <= len(noon["chunk_ids"]) <= 2
    said = {word for row in found.values() for word in (row["raw"] or "").split()}
    assert said <= set(" ".join(TEXTS.values()).split())


def test_extractive_refuses_below_its_score(make_bench: MakeBench) -> None:
    bench = make_bench({"max_tokens: 40": "min_score: 1.9"})
    before_answers(bench)
    bench.build("answers")
    row = rows(bench, "tiny.t16.minilm.dense.extractive")["noon"]
    assert row["status"] == "refused"
    assert row["answer"] == UNANSWERED["en"]
    assert "min_score" in row["reason"]


def test_a_question_whose_retriever_finds_nothing_is_not_asked(make_bench: MakeBench) -> None:
    strange = (
        "question_set: ferry\nquestions:\n"
        "  - {id: strange, question: zyzzyva quokka, ground_truth: x}\n"
        "  - {id: noon, question: When does the ferry leave, ground_truth: x}\n"
    )
    bench = make_bench(questions=strange)
    before_answers(bench)
    assert all(found.ok for found in bench.build("answers")["answers"])
    found = rows(bench, "tiny.t16.minilm.bm25.extractive")
    assert (found["strange"]["status"], found["strange"]["answer"]) == ("no_context", None)
    assert found["strange"]["reason"] == "the retriever found no passage"
    assert found["strange"]["seconds"] is None
    assert found["noon"]["status"] == "ok"


def test_a_question_whose_ranking_failed_is_not_run_and_tried_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    before_answers(bench)
    key = "tiny.t16.minilm.bm25"
    failed = pl.when(pl.col("question_id") == "noon").then(pl.lit("error")).otherwise(pl.col("status"))
    bench.edit("rankings", key, "hits.parquet", lambda frame: frame.filter(pl.col("question_id") != "noon"))
    bench.edit("rankings", key, "ranked.parquet", lambda frame: frame.with_columns(failed.alias("status")))
    found = outcome(bench, f"{key}.extractive")
    assert not found.ok
    assert found.error is not None
    assert "1 of 3 answers failed, first: not_run: its ranking failed" in found.error
    assert rows(bench, f"{key}.extractive")["noon"]["status"] == "not_run"


def test_a_sample_is_asked_of_the_sampled_questions_only(make_bench: MakeBench) -> None:
    bench = make_bench({"questions:\n": "restrict: {extractive: {sample: 2}}\nquestions:\n"})
    before_answers(bench)
    bench.build("answers")
    asked = set(rows(bench, "tiny.t16.minilm.bm25.extractive"))
    assert asked == set(bench.study.sampled(["noon", "tickets", "captain"], 2))
    assert asked == set(rows(bench, "tiny.t16.minilm.dense.extractive"))


# --- a language model ---------------------------------------------------------------------------------


def test_a_model_is_asked_each_question_once_with_its_passages(llm_bench: Bench, server: FakeOpenAI) -> None:
    before_answers(llm_bench)
    assert outcome(llm_bench, KEY).ok
    found = rows(llm_bench, KEY)
    assert {row["status"] for row in found.values()} == {"ok"}
    assert found["noon"]["answer"] == "At noon."
    assert (found["noon"]["prompt_tokens"], found["noon"]["completion_tokens"]) == (11, 7)
    assert {row["model"] for row in found.values()} == {"openai/any"}
    assert len(server.requests) == 3
    sent = json.dumps(server.requests[0].body)
    assert "When does the ferry leave the harbour?" in sent
    assert "The ferry leaves the harbour at noon." in sent
    assert outcome(llm_bench, KEY).computed is False
    assert len(server.requests) == 3


def test_the_model_that_answered_is_kept_with_each_answer(
    make_bench: MakeBench, server: FakeOpenAI, tmp_path: Path
) -> None:
    def troubled(received: Received) -> Scripted:
        second = received.body["model"] == "second"
        return answer("At one.") if second or "captain" in json.dumps(received.body) else failure(500, "no")

    server.respond = troubled
    own = f"api_base: '{server.api_base}'"
    listed = f"fallback: [{{model: openai/second, {own}}}]"
    generator = f"  llm: {{llm: {{model: openai/any, passages: 2, {own}, {listed}}}}}\n"
    bench = make_bench({EXTRACTIVE: generator, DENSE: ""})
    before_answers(bench)
    assert outcome(bench, KEY).ok
    found = {name: row["model"] for name, row in rows(bench, KEY).items()}
    assert found == {"noon": "openai/second", "tickets": "openai/second", "captain": "openai/any"}


def test_no_model_is_named_where_none_answered(llm_bench: Bench, server: FakeOpenAI) -> None:
    server.respond = lambda _received: failure(400, "no")
    before_answers(llm_bench)
    assert not outcome(llm_bench, KEY).ok
    assert {row["model"] for row in rows(llm_bench, KEY).values()} == {None}


def test_cells_are_asked_side_by_side_and_each_is_kept_with_its_own_answers(
    make_bench: MakeBench, server: FakeOpenAI
) -> None:
    models = ("one", "two", "three")
    lines = "".join(
        f"  {name}: {{llm: {{model: openai/{name}, api_base: '{server.api_base}'}}}}\n" for name in models
    )
    bench = make_bench({EXTRACTIVE: EXTRACTIVE + lines})
    before_answers(bench)
    lock, in_flight, most = threading.Lock(), [0], [0]

    def respond(received: Received) -> Scripted:
        with lock:
            in_flight[0] += 1
            most[0] = max(most[0], in_flight[0])
        time.sleep(0.4)
        with lock:
            in_flight[0] -= 1
        return answer(f"At noon, says {received.body['model']}.")

    server.respond = respond
    outcomes = bench.build("answers")["answers"]
    assert all(one.ok for one in outcomes), outcomes
    assert sorted(one.key for one in outcomes) == bench.stages["answers"].keys()
    assert most[0] > 3, "more than one cell has questions"
    for retriever in ("bm25", "dense"):
        for name in models:
            found = rows(bench, f"tiny.t16.minilm.{retriever}.{name}")
            assert list(found) == ["noon", "tickets", "captain"]
            assert {row["answer"] for row in found.values()} == {f"At noon, says {name}."}


def test_a_model_that_says_it_does_not_know_refuses(llm_bench: Bench, server: FakeOpenAI) -> None:
    server.respond = lambda _received: answer("The documents do not say.")
    before_answers(llm_bench)
    assert outcome(llm_bench, KEY).ok
    assert {row["status"] for row in rows(llm_bench, KEY).values()} == {"refused"}
    assert "machines" not in llm_bench.artifact("answers", KEY).meta, "a server measured nothing of this one"


def test_failures_are_rows_and_only_they_are_asked_again(
    llm_bench: Bench, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows that two machines have measured, both are named."""
    monkeypatch.setattr(Answers, "waits_for_servers", lambda _self, _key: False)
    monkeypatch.setenv(CLASS, "small")
    before_answers(llm_bench)

    def troubled(received: Received) -> Scripted:
        text = json.dumps(received.body)
        if "When does the ferry leave" in text:
            return rate_limited(0)
        return failure(500, "overloaded") if "Where are tickets" in text else answer("Nobody knows.")

    server.respond = troubled
    first = outcome(llm_bench, KEY)
    assert not first.ok
    assert first.computed
    assert first.error is not None
    assert "2 of 3 answers failed, first: rate_limited:" in first.error
    found = rows(llm_bench, KEY)
    assert {name: row["status"] for name, row in found.items()} == {
        "noon": "rate_limited",
        "tickets": "error",
        "captain": "ok",
    }
    for name in ("noon", "tickets"):
        assert (found[name]["answer"], found[name]["seconds"]) == (None, None)
        assert found[name]["reason"]
    assert not llm_bench.artifact("answers", KEY).complete
    assert llm_bench.stages["answers"].fresh(KEY, llm_bench.store) is None

    server.requests.clear()
    server.respond = lambda _received: answer("At noon, at the quay.")
    monkeypatch.setenv(CLASS, "large")
    second = outcome(llm_bench, KEY)
    assert second.ok
    assert llm_bench.artifact("answers", KEY).meta["machines"] == ["large", "small"]
    asked = [json.dumps(received.body) for received in server.requests]
    assert len(asked) == 2
    assert not any("Who was captain" in text for text in asked)
    mended = rows(llm_bench, KEY)
    assert list(mended) == ["noon", "tickets", "captain"]
    assert {row["status"] for row in mended.values()} == {"ok"}
    assert mended["captain"] == found["captain"]


@pytest.mark.parametrize("status", list(Status))
def test_just_the_retryable_statuses_make_a_cell_incomplete(
    status: Status, llm_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_assay.evals import answers as module

    made = module._built(
        [dict.fromkeys(ANSWERS) | {"question_id": "q", "status": str(status), "reason": "why"}]
    )
    assert made.complete == (status not in RETRYABLE)
    assert ("incomplete" in made.meta) == (status in RETRYABLE)


def test_rows_of_a_torn_file_are_asked_again(llm_bench: Bench, server: FakeOpenAI) -> None:
    before_answers(llm_bench)
    server.respond = lambda _received: rate_limited(0)
    assert not outcome(llm_bench, KEY).ok
    path = llm_bench.folder("answers", KEY) / "answers.parquet"
    path.write_bytes(path.read_bytes()[:50])
    server.respond = lambda _received: answer("At noon.")
    assert outcome(llm_bench, KEY).ok
    assert {row["status"] for row in rows(llm_bench, KEY).values()} == {"ok"}


def test_another_seed_is_another_answer_of_a_model(llm_bench: Bench) -> None:
    answers = llm_bench.stages["answers"]
    assert isinstance(answers, Answers)
    (study,) = answers.grid.studies.values()
    other = Answers(Grid([study.model_copy(update={"seed": study.seed + 1})]))
    assert answers.recipes(KEY)["generator.tiny.llm"] != other.recipes(KEY)["generator.tiny.llm"]


def test_another_prompt_model_or_text_is_another_answer(llm_bench: Bench, make_bench: MakeBench) -> None:
    before_answers(llm_bench)
    outcome(llm_bench, KEY)
    first: Artifact = llm_bench.artifact("answers", KEY)
    llm_bench.give({**TEXTS, "ferry": "The ferry leaves the harbour at one. It calls at the island."})
    before_answers(llm_bench)
    outcome(llm_bench, KEY)
    assert llm_bench.artifact("answers", KEY).identity != first.identity


def test_an_odd_letter_in_one_failure_loses_no_other_answer(llm_bench: Bench, server: FakeOpenAI) -> None:
    before_answers(llm_bench)
    server.add(failure(400, "no \ud800 here"))
    found = outcome(llm_bench, "tiny.t16.minilm.bm25.llm")
    assert found.error is not None
    assert "1 of 3 answers failed" in found.error
    statuses = Counter(row["status"] for row in rows(llm_bench, "tiny.t16.minilm.bm25.llm").values())
    assert statuses == {"ok": 2, "error": 1}


def test_a_refused_key_is_told_once_and_no_further_question_is_sent(
    llm_bench: Bench, server: FakeOpenAI
) -> None:
    before_answers(llm_bench)
    server.respond = lambda _received: failure(401, "Incorrect API key provided")
    found = outcome(llm_bench, "tiny.t16.minilm.bm25.llm")
    assert len(server.requests) == 1
    assert found.error is not None
    assert found.error.startswith("3 of 3 answers failed, first: error: the server answered 401")
    statuses = Counter(row["status"] for row in rows(llm_bench, "tiny.t16.minilm.bm25.llm").values())
    assert statuses == {"error": 1, "not_run": 2}
    server.respond = lambda _received: answer("At noon.")
    assert outcome(llm_bench, "tiny.t16.minilm.bm25.llm").ok  # the next run asks what was not asked


def test_another_server_behind_the_same_name_answers_anew(
    make_bench: MakeBench, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench({EXTRACTIVE: "  llm: {llm: {model: openai/any, passages: 2}}\n", DENSE: ""})
    before_answers(bench)
    key = "tiny.t16.minilm.bm25.llm"
    monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
    assert outcome(bench, key).ok
    with FakeOpenAI(respond=lambda _received: answer("At one.")) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.api_base)
        assert outcome(bench, key).computed
        assert {row["answer"] for row in rows(bench, key).values()} == {"At one."}
    monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
    again = outcome(bench, key)
    assert (again.ok, again.computed) == (True, False)  # the first server's answers are still there


def test_a_generator_may_have_a_budget_of_its_own_within_the_study_s(
    make_bench: MakeBench, server: FakeOpenAI
) -> None:
    priced = f"api_base: '{server.api_base}', price: {{read: 1000000, written: 0}}, budget_usd: 20"
    generator = f"  llm: {{llm: {{model: openai/any, passages: 2, {priced}}}}}\n"
    bench = make_bench({EXTRACTIVE: generator, DENSE: "", "questions:\n": "budget: {usd: 100}\nquestions:\n"})
    before_answers(bench)
    found = outcome(bench, KEY)  # 11 tokens a call, a dollar each: the second passes the limit
    assert found.error is not None
    assert "over_budget: The budget of 20 USD is spent." in found.error
    rows_of = rows(bench, KEY)
    assert Counter(row["status"] for row in rows_of.values()) == {"ok": 2, "over_budget": 1}
    assert sum(row["usd"] or 0 for row in rows_of.values()) == 22


@pytest.mark.parametrize(
    ("caps", "words"), [("tokens: 20", "20 tokens"), ("calls: 2", "2 calls"), ("usd: 9, calls: 2", "2 calls")]
)
def test_a_cap_in_tokens_or_calls_holds_where_no_price_is_known(
    caps: str, words: str, make_bench: MakeBench, server: FakeOpenAI
) -> None:
    generator = f"  llm: {{llm: {{model: openai/any, passages: 2, api_base: '{server.api_base}'}}}}\n"
    budget = {"questions:\n": f"budget: {{{caps}}}\nquestions:\n"}
    bench = make_bench({EXTRACTIVE: generator, DENSE: "", **budget})
    before_answers(bench)
    found = outcome(bench, KEY)  # 18 tokens a call
    assert f"over_budget: The budget of {words} is spent." in (found.error or "")
    assert Counter(row["status"] for row in rows(bench, KEY).values()) == {"ok": 2, "over_budget": 1}
    assert len(server.requests) == 2
    assert outcome(bench, KEY).ok, "what the cache holds counts nothing in the next run"
    assert len(server.requests) == 3
