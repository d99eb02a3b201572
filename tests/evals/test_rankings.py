"""The rankings stage: hits, latencies that no cache shortens, and what every step had."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.evals.pipeline import run_resources
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.warehouse import tables
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.processes import CLASS
from rag_assay.warehouse.schemas import NOTES, TRACES
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.tiny import QUESTIONS, Bench

pytestmark = pytest.mark.models
BM25 = "  bm25: {bm25: {k: 5}}\n"
POWERSET = "  all: {powerset: [bm25, dense], fuse: rrf, k: 4}\n"
CHAIN = "  chain: [{keywords: {}}, {fuse: {of: [{bm25: {}}, {dense: {}}]}}, {neighbours: {n: 1}}]\n"


def stored(bench: Bench, retriever: str, name: str) -> pl.DataFrame:
    artifact = bench.store.current("rankings", f"tiny.t16.minilm.{retriever}")
    assert artifact is not None
    return read_parquet(bench.store.folder("rankings", artifact.identity) / f"{name}.parquet")


def test_a_powerset_and_a_chain_are_ranked_and_traced(make_bench: Any) -> None:
    bench = make_bench({BM25: BM25 + POWERSET + CHAIN})
    outcomes = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")["rankings"]
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert {o.key.rpartition(".")[2] for o in outcomes} == {
        *("bm25", "dense", "chain", "all-none", "all-bm25", "all-dense", "all-bm25+dense")
    }
    assert not len(stored(bench, "all-none", "hits"))
    both = stored(bench, "all-bm25+dense", "trace")
    assert dict(both.schema) == TRACES
    noon = both.filter(pl.col("question_id") == "noon")
    assert noon.select("step", "kind").rows() == [("bm25", "arm"), ("dense", "arm"), ("fuse", "fuse")]
    hits = stored(bench, "all-bm25+dense", "hits").filter(pl.col("question_id") == "noon")
    assert set(hits["chunk_id"]) <= set(noon["chunk_ids"].explode())
    steps = stored(bench, "chain", "trace").filter(pl.col("question_id") == "noon")
    assert steps["step"].to_list()[-1] == "neighbours"
    chained = stored(bench, "chain", "hits").filter(pl.col("question_id") == "noon")
    assert chained["rank"].to_list() == list(range(1, len(chained) + 1))
    # A combination takes its arms from memory, and its latency is theirs all the same, embedding included.
    (kept,) = bench.home.cache("queries").rglob("*.parquet")
    embedding = dict(read_parquet(kept).select("question", "seconds").iter_rows())
    questions = read_parquet(bench.folder("questions", "ferries.ferry") / "questions.parquet")
    texts = dict(questions.select("question_id", "question").iter_rows())
    for name in ("all-dense", "all-bm25+dense", "chain"):
        for question, seconds in stored(bench, name, "ranked").select("question_id", "seconds").iter_rows():
            assert seconds > embedding[texts[question]]


def test_a_trace_is_as_deep_as_the_study_says(make_bench: Any) -> None:
    bench = make_bench({"seed: 7": "seed: 7\ntrace: 2"})
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    assert stored(bench, "dense", "trace")["chunk_ids"].list.len().to_list() == [2, 2, 2]
    assert stored(bench, "dense", "hits")["rank"].max() == 5


FILTER = '{filter: {where: {field: title, op: "=", value: lamp}}}'
SIDE = "{chain: {steps: [" + FILTER + ", {dense: {}}]}}"


@pytest.mark.parametrize(
    ("retriever", "lost_at"),
    [
        (f"[{FILTER}, {{dense: {{k: 5}}}}]", "filter"),
        (f"[{FILTER}, {{fuse: {{of: [{{bm25: {{}}}}, {{dense: {{}}}}]}}}}]", "filter"),
        (f"{{fuse: {{of: [{SIDE}, {SIDE}]}}}}", "filter"),
        (f"{{fuse: {{of: [{SIDE}, {{nothing: {{}}}}]}}}}", "candidates"),  # the other arm had no filter
    ],
)
def test_evidence_that_a_filter_kept_out_was_lost_by_the_filter(
    make_bench: Any, retriever: str, lost_at: str
) -> None:
    bench = make_bench({BM25: BM25 + f"  lamps: {retriever}\n"})
    outcomes = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")["rankings"]
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    losses = stored(bench, "lamps", "losses").filter(pl.col("question_id") == "noon")
    assert losses["lost_at"].to_list() == [lost_at]
    assert stored(bench, "dense", "losses")["lost_at"].to_list()[:1] == [None]


LONG = """\
  - id: endless
    question: "When does the ferry leave? {words}"
    ground_truth: At noon.
""".format(words="noon " * 400)


def test_a_question_that_is_too_long_for_the_embedder_fails_alone(make_bench: Any) -> None:
    bench = make_bench(questions=QUESTIONS + LONG)
    outcomes = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")["rankings"]
    errors = {outcome.key.rpartition(".")[2]: outcome.error for outcome in outcomes}
    assert errors["bm25"] is None, "it needs no vector"
    assert "1 of 4 questions failed" in (errors["dense"] or "")
    ranked = {row["question_id"]: row for row in stored(bench, "dense", "ranked").iter_rows(named=True)}
    assert {name: row["status"] for name, row in ranked.items()} == {
        **dict.fromkeys(("noon", "tickets", "captain"), "ok"),
        "endless": "error",
    }
    assert "longer than the 256 tokens" in ranked["endless"]["reason"]


def test_a_token_budget_counts_as_the_chunking_does(make_bench: Any) -> None:
    """Whole passages, one after the other, as long as their tokens together are 40 at most."""
    wide = "[{bm25: {k: 5, function_words: keep}}, {neighbours: {n: 1}}"
    bench = make_bench(
        {BM25: BM25 + f"  wide: {wide}]\n  short: {wide}, {{token_budget: {{tokens: 40}}}}]\n"}
    )
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    tokenizer = load_tokenizer(models.fetch("all-MiniLM-L6-v2", bench.home))
    texts = {row["doc_id"]: row["text"] for row in documents(bench).iter_rows(named=True)}
    cut = 0
    for name in ("noon", "tickets", "captain"):
        found = {
            retriever: [
                texts[doc][start:end]
                for doc, start, end in stored(bench, retriever, "hits")
                .filter(pl.col("question_id") == name)
                .sort("rank")
                .select("doc_id", "start", "end")
                .iter_rows()
            ]
            for retriever in ("wide", "short")
        }
        fits = [
            n for n in range(len(found["wide"]) + 1) if sum(tokenizer.count(found["wide"][:n] or [""])) <= 40
        ]
        assert found["short"] == found["wide"][: max(fits)]
        cut += len(found["wide"]) - len(found["short"])
    assert cut, "the budget is too large to show anything"


def documents(bench: Bench) -> pl.DataFrame:
    (key,) = bench.stages["documents"].keys()
    return read_parquet(bench.folder("documents", key) / "documents.parquet")


@pytest.mark.parametrize(("waited", "busy"), [(0.0, 0), (0.9, 3)])
def test_latencies_of_a_busy_machine_are_told(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, waited: float, busy: int
) -> None:
    """A clock that moves a second at each look, of which the thread waited a part for a processor."""
    ticks = itertools.count()

    def clock() -> Clock:
        return Clock(wall=lambda: float(next(ticks)), waited=lambda: waited * next(ticks))

    monkeypatch.setattr(run_resources, "Clock", clock)
    bench = make_bench()
    outcomes = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")["rankings"]
    for outcome in outcomes:
        assert outcome.artifact is not None
        assert outcome.artifact.complete
        assert outcome.artifact.meta["latency_busy"] == busy
        *others, check = outcome.checks
        assert {one.name: one.passed for one in others} == {"ranked": True, "not_empty": True}
        assert (check.name, check.passed, check.severe) == ("quiet_machine", not busy, False)
        assert check.description.startswith(f"{busy} of 3 latencies were measured while other work")


def test_a_study_says_once_that_its_latencies_are_too_high(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(
        run_resources,
        "Clock",
        lambda: Clock(wall=lambda: float(next(ticks)), waited=lambda: float(next(ticks))),
    )
    bench = make_bench()
    bench.build()
    tables.rebuild(bench.home)
    notes = [note for note in report_data(bench.study, bench.home).notes if "latenc" in note]
    assert notes == [
        "the latencies of 2 of 2 rankings are too high: other work held the processors meanwhile"
    ]


def test_a_study_says_which_classes_of_machines_measured_its_latencies(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ranking is measured anew on another machine; nothing else is, and no identity names a machine."""
    monkeypatch.setenv(CLASS, "  small\n machine ")
    bench = make_bench()
    before = bench.build()
    assert not [note for note in report_data(bench.study, bench.home).notes if "classes of machines" in note]
    monkeypatch.setenv(CLASS, "large machine")
    assert not any(outcome.computed for outcomes in bench.build().values() for outcome in outcomes)
    first = before["rankings"][0].artifact
    assert first is not None
    again = build_key(bench.stages["rankings"], first.key, BuildContext(bench.home), again=True).artifact
    assert again is not None
    assert (first.meta["machines"], again.meta["machines"]) == (["small machine"], ["large machine"])
    assert (first.identity, first.data_version) == (again.identity, again.data_version)
    bench.build()
    tables.rebuild(bench.home)
    notes = [note for note in report_data(bench.study, bench.home).notes if "classes of machines" in note]
    assert notes == [
        "latencies of rankings cannot be compared across classes of machines: "
        "1 were measured on large machine, 1 on small machine"
    ]


HYDE = "[{{hyde: {{by: llm, model: openai/gpt-4o-mini, api_base: {base}}}}}, {{dense: {{k: 5}}}}]"


def asking(base: str) -> str:
    """Write two retrievers that share an arm, which asks a model."""
    arm = HYDE.format(base=base)
    first = f"  asked: {{fuse: {{of: [{arm}, {{bm25: {{}}}}]}}}}\n"
    return BM25 + first + f"  again: {{fuse: {{of: [{arm}, {{nothing: {{}}}}]}}}}\n"


def test_rules_that_stood_in_for_a_model_are_told_and_the_model_is_asked_again(make_bench: Any) -> None:
    with FakeOpenAI() as server:
        changes = {BM25: asking(server.api_base)}
        bench = make_bench({**changes, "seed: 7": "seed: 7\nbudget: {usd: 0}"})
        bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
        assert not server.requests
        for name in ("asked", "again"):  # the second one takes the arm from memory
            key = f"tiny.t16.minilm.{name}"
            artifact = bench.artifact("rankings", key)
            assert not artifact.complete
            assert "3 calls of a model failed and rules stood in" in artifact.meta["incomplete"]
            assert artifact.meta["understanding"] == {"hyde: over_budget": 3}
            notes = stored(bench, name, "notes")
            assert dict(notes.schema) == NOTES
            assert sorted(notes["question_id"]) == ["captain", "noon", "tickets"]
        assert bench.artifact("rankings", "tiny.t16.minilm.bm25").complete

        server.respond = lambda _: answer('{"passage": "The ferry leaves at noon."}')
        able = make_bench(changes)
        outcomes = able.build("rankings")["rankings"]
        assert {o.key.rpartition(".")[2] for o in outcomes if o.computed} == {"asked", "again"}
        assert len(server.requests) == 3, "each question once, for both of them"
        assert able.artifact("rankings", "tiny.t16.minilm.asked").complete
        assert not len(stored(able, "asked", "notes"))


def test_what_a_model_said_that_was_of_no_use_is_kept(make_bench: Any) -> None:
    with FakeOpenAI(respond=lambda _: answer("I cannot help with that.")) as server:
        bench = make_bench({BM25: asking(server.api_base)})
        bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
        tables.rebuild(bench.home)
        with connect(bench.home.database) as connection:
            kept = connection.execute(
                "SELECT question_id, kind, status, raw FROM current_notes "
                "WHERE ranking LIKE '%.asked' ORDER BY ALL"
            ).fetchall()
    assert [row[:3] for row in kept] == [(q, "hyde", "parse_failed") for q in ("captain", "noon", "tickets")]
    assert all("I cannot help with that." in row[3] for row in kept)
    assert bench.artifact("rankings", "tiny.t16.minilm.asked").complete, "asking again would change nothing"
