"""The rankings stage: hits, latencies that no cache shortens, and what every step had."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.fakes.tiny import Bench
from warehouse.parquet import read_parquet
from warehouse.schemas import TRACES

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
    # A combination takes its arms from memory, and its latency is theirs all the same.
    seconds = {
        name: stored(bench, name, "ranked").sort("question_id")["seconds"].to_list()
        for name in ("all-dense", "all-bm25+dense")
    }
    embedding = 0.5 * min(seconds["all-dense"])  # most of a dense question's time is its embedding
    assert min(seconds["all-bm25+dense"]) > embedding


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
