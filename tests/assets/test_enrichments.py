"""Summaries and questions by a model, asked through the real gateway of a scripted server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.engine.stage import KeyOutcome
from rag_assay.assets.enrichment.llm_enrichment import Enrichment
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.run_plan import plan
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ENRICHMENTS
from tests.fakes.indexing import searched
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure
from tests.fakes.tiny import TEXTS, Bench, write_study

KEY = "ferries.t16"


def replies(request: Received) -> Scripted:
    """A summary for a document; two questions for a passage, none for the lamp."""
    text = request.body["messages"][1]["content"]
    if text.startswith("<document>"):
        return answer(f"About: {text.split()[1]}")
    if "lamp" in text:
        return answer("There is nothing to ask.")
    return answer(json.dumps({"questions": [f"What of {text.split()[1]}?", "And why?"]}))


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=replies) as fake:
        yield fake


def bench_of(tmp_path: Path, server: FakeOpenAI, asked: str) -> Bench:
    recipe = f"{{model: openai/any, api_base: '{server.api_base}', {asked}}}"
    changes = {"{tokens: {size: 16, overlap: 4}}": f"{{tokens: {{size: 16, overlap: 4}}, enrich: {recipe}}}"}
    bench = Bench(write_study(tmp_path / "study", changes), Home(tmp_path / "home"))
    bench.give(TEXTS)
    return bench


def rows_of(bench: Bench) -> pl.DataFrame:
    return read_parquet(bench.folder("enrichments", KEY) / "enrichments.parquet")


def enriched(bench: Bench) -> KeyOutcome:
    (outcome,) = bench.build("chunks", "enrichments")["enrichments"]
    return outcome


@pytest.mark.models
def test_each_document_gets_a_summary_and_each_chunk_its_questions(
    tmp_path: Path, server: FakeOpenAI, weights: object
) -> None:
    bench = bench_of(tmp_path, server, "summary: true, questions: 2")
    outcome = enriched(bench)
    rows = rows_of(bench)
    assert rows.columns == list(ENRICHMENTS)
    summaries = rows.filter(pl.col("kind") == "summary")
    assert summaries["chunk_id"].null_count() == len(summaries) == len(TEXTS)
    chunks = read_parquet(bench.folder("chunks", KEY) / "chunks.parquet")
    questions = rows.filter(pl.col("kind") == "question")
    assert set(questions["chunk_id"]) == set(chunks["chunk_id"]), "none is passed over"
    lamps = set(chunks.filter(pl.col("text").str.contains("lamp"))["chunk_id"])
    unusable = questions.filter(pl.col("text").is_null())
    assert set(unusable["chunk_id"]) == lamps
    assert set(unusable["status"]) == {"parse_failed"}
    assert len(questions) == 2 * (len(chunks) - len(lamps)) + len(lamps)
    check, paid = outcome.checks
    assert paid.passed
    assert not check.passed
    assert not check.severe
    assert f"{len(lamps)} of {len(rows)} gave no text" in check.description
    assert outcome.ok, "what no other try can mend is no reason to stop"


@pytest.mark.models
def test_an_unchanged_text_is_paid_once(tmp_path: Path, server: FakeOpenAI, weights: object) -> None:
    bench = bench_of(tmp_path, server, "questions: 2")
    enriched(bench)
    asked = len(server.requests)
    bench.give({**TEXTS, "ferry": "The ferry leaves at one."})
    enriched(bench)
    assert len(server.requests) == asked + 1, "one document of one chunk changed"


@pytest.mark.models
def test_a_failing_server_leaves_typed_rows_and_the_next_run_asks_for_those_alone(
    tmp_path: Path, weights: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    broken = {"yes"}

    def sometimes(request: Received) -> Scripted:
        text = request.body["messages"][1]["content"]
        return failure(500, "overloaded") if broken and "quay" in text else replies(request)

    with FakeOpenAI(respond=sometimes) as server:
        bench = bench_of(tmp_path, server, "questions: 1")
        outcome = enriched(bench)
        assert not outcome.ok
        assert "model calls failed, first: error" in str(outcome.error)
        failed = rows_of(bench).filter(pl.col("status") == "error")
        assert len(failed)
        assert failed["text"].null_count() == len(failed)
        broken.clear()
        asked = len(server.requests)
        assert enriched(bench).ok
        assert len(server.requests) == asked + len(failed)


@pytest.mark.models
def test_the_plan_says_how_many_calls_there_will_be(
    tmp_path: Path, server: FakeOpenAI, weights: object
) -> None:
    bench = bench_of(tmp_path, server, "summary: true, questions: 1")
    (before,) = plan(bench.study, bench.stages, bench.home).enriching
    assert before.calls is None
    bench.build("chunks")
    chunks = read_parquet(bench.folder("chunks", KEY) / "chunks.parquet")
    (known,) = plan(bench.study, bench.stages, bench.home).enriching
    assert known.calls == len(TEXTS) + len(chunks)
    enriched(bench)
    (done,) = plan(bench.study, bench.stages, bench.home).enriching
    assert done.calls == 0


@pytest.mark.models
def test_indexed_questions_are_vectors_that_point_at_their_chunks(
    tmp_path: Path, server: FakeOpenAI, weights: object
) -> None:
    bench = bench_of(tmp_path, server, "questions: 2, index: true")
    bench.build("chunks", "enrichments", "embeddings", "indexes", "questions")
    asked = rows_of(bench).filter(pl.col("text").is_not_null())
    index = OpenIndex(bench.folder("indexes", f"{KEY}.minilm"))
    owners, vectors = index.questions
    assert len(owners) == len(vectors) == len(asked)
    assert [index.chunks["chunk_id"][int(row)] for row in owners] == asked["chunk_id"].to_list()
    (question,) = (
        CachedEmbedder(bench.study.embedders["minilm"], bench.home).queries(["What of Tickets?"]).vectors
    )
    assert asked["text"].to_list().count("What of Tickets?") == 1
    ranking = searched(Dense(k=3), Query("What of Tickets?", question), index)
    assert ranking.scores[0] == pytest.approx(1.0, abs=1e-5), "the question itself is in the index"
    assert index.chunks["text"][int(ranking.rows[0])].startswith("Tickets are sold")
    plain = np.einsum("ij,j->i", index.vectors, question)
    assert (index.cosines(question) >= plain - 1e-6).all(), "a chunk's own vector still counts"
    assert plain.max() < 0.99


@pytest.mark.models
def test_questions_that_are_not_indexed_change_no_vector(
    tmp_path: Path, server: FakeOpenAI, weights: object
) -> None:
    bench = bench_of(tmp_path, server, "questions: 2")
    bench.build("chunks", "embeddings", "indexes")
    assert not server.requests, "the index does not wait for them"
    assert not len(OpenIndex(bench.folder("indexes", f"{KEY}.minilm")).questions[0])


def test_a_recipe_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="say what to ask the model for"):
        Enrichment(model="openai/any")
    with pytest.raises(ValueError, match="`questions` is 0"):
        Enrichment(model="openai/any", summary=True, index=True)


def test_a_budget_or_an_index_changes_no_answer() -> None:
    one = Enrichment(model="openai/any", questions=2)
    assert one.identity() == Enrichment(model="openai/any", questions=2, index=True, budget_usd=1).identity()
    assert one.identity() != Enrichment(model="openai/any", questions=3).identity()


@pytest.mark.models
def test_odd_answers_are_rows_and_end_no_run(tmp_path: Path, server: FakeOpenAI, weights: object) -> None:
    odd = [
        '{"questions": ["\\ud800 Who?"]}',
        "[" * 20_000,
        '{"questions": [["Why?"], null]}',
        '{"questions": 3}',
    ]
    server.respond = lambda request: answer(odd[len(request.body["messages"][1]["content"]) % len(odd)])
    bench = bench_of(tmp_path, server, "questions: 1")
    assert enriched(bench).ok
    rows = rows_of(bench)
    assert set(rows["status"]) == {"ok", "parse_failed"}
    assert set(rows.filter(pl.col("status") == "ok")["text"]) == {"? Who?"}
    assert rows.filter(pl.col("status") != "ok")["reason"].null_count() == 0


@pytest.mark.models
def test_a_budget_that_is_spent_is_a_typed_row_and_asked_again(
    tmp_path: Path, server: FakeOpenAI, weights: object
) -> None:
    bench = bench_of(tmp_path, server, "questions: 1, budget_usd: 0")
    outcome = enriched(bench)
    assert not outcome.ok
    assert set(rows_of(bench)["status"]) == {"over_budget"}
    assert not server.requests
    richer = bench_of(tmp_path, server, "questions: 1, budget_usd: 5")
    assert enriched(richer).ok, "the same key, built again since it was not whole"
    assert set(rows_of(richer)["status"]) == {"ok", "parse_failed"}
