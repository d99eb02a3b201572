"""What is exported is ranked and counted by trec_eval as it is by us."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.reporting.exports import (
    NOTHING,
    counts_alike,
    falling,
    qrels_lines,
    run_lines,
    trec_id,
    trec_runs,
)
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.spans import Span
from rag_assay.warehouse.tables import rebuild
from tests.contracts import test_retrievers as contract
from tests.fakes.cross_encoder import build_cross_encoder
from tests.fakes.indexing import build_index
from tests.fakes.tiny import QUESTIONS, Bench

MakeBench = Callable[..., Bench]
THEIRS = {
    "ndcg@10": "ndcg_cut_10",
    "ndcg@3": "ndcg_cut_3",
    "recall@10": "recall_10",
    "mrr@9999": "recip_rank",
    "hit_rate@5": "success_5",
}
MEASURES = {"ndcg_cut.3,10", "recall.10", "recip_rank", "success.5"}
Scored = dict[str, dict[str, float]]


def read_run(text: str) -> Scored:
    run: Scored = {}
    for line in text.splitlines():
        question, _, doc, rank, score, _ = line.split(" ")
        docs = run.setdefault(question, {})
        assert int(rank) == len(docs) + 1
        assert doc not in docs
        docs[doc] = float(score)
    return run


def read_qrels(text: str) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        question, _, doc, grade = line.split(" ")
        qrels.setdefault(question, {})[doc] = int(grade)
    return qrels


def by_trec_eval(qrels: str, run: str) -> Scored:
    found: Scored = pytrec_eval.RelevanceEvaluator(read_qrels(qrels), MEASURES).evaluate(read_run(run))
    return found


def assert_alike(golds: dict[str, Gold], hits: dict[str, list[tuple[str, float | None]]]) -> None:
    """Compare every figure of every question with trec_eval's of the exported lines."""
    qrels = "".join(line for name, gold in golds.items() for line in qrels_lines(name, gold))
    run = "".join(line for name, found in hits.items() for line in run_lines(name, found, "tag"))
    theirs = by_trec_eval(qrels, run)
    assert set(theirs) == {trec_id(name) for name in hits}, "a question is not in trec_eval's mean"
    for name, found in hits.items():
        spans = [Span(doc, 0, 9) for doc, _ in found]
        for ours, their in THEIRS.items():
            metric = get_metric(ours)
            assert isinstance(metric, RetrievalMetric)
            value = metric.value(golds[name], spans)
            assert value == pytest.approx(theirs[trec_id(name)][their], abs=1e-9), (name, ours)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    texts = [*contract.TEXTS, *[contract.TEXTS[0]] * 30]  # two chunks a document, and many equal scores
    return build_index(tmp_path_factory.mktemp("index"), texts, columns=contract.facts(texts))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("cross-encoder"), contract.TEXTS)


@pytest.mark.parametrize("name", contract.RETRIEVERS)
def test_every_retriever_is_scored_by_trec_eval_as_by_us(
    name: str, index: OpenIndex, cross_encoder: Path
) -> None:
    retriever = contract.made(contract.RETRIEVERS[name], cross_encoder).at_depth(500)
    searcher = retriever.open(index, contract.CONTEXT)
    chance = random.Random(7)
    docs = sorted(set(index.chunks["doc_id"]))
    golds, hits = {}, {}
    for number, text in enumerate((*contract.QUERIES, "zyzzyva quokka", "")):
        ranking = searcher.search(contract.query(text))
        names = index.chunks["doc_id"][ranking.rows]
        question = f"q {number}"
        hits[question] = list(zip(names, map(float, ranking.scores), strict=True))
        golds[question] = Gold({doc: chance.choice([1, 1, 2, 3]) for doc in chance.sample(docs, 6)})
    assert_alike(golds, hits)


@pytest.mark.parametrize(
    "scores",
    [
        [0.5] * 40,
        [0.0] * 40,
        [-3.25] * 40,
        [1 - 1e-12 * i for i in range(40)],  # equal as 32-bit floats and in six digits
        [1e-300 * 0.5**i for i in range(40)],
        [1e300 - i for i in range(40)],
        [float(i) for i in range(40)],  # an order of its own: scores that rise
        [None] * 40,
        [float("nan"), float("inf"), float("-inf"), None] * 10,
        [(-1) ** i * 0.25 for i in range(40)],
        [-1e308] * 40,
    ],
    ids=["equal", "zero", "negative", "close", "tiny", "huge", "rising", "none", "odd", "swinging", "least"],
)
def test_whatever_the_scores_the_order_is_ours(scores: list[float | None]) -> None:
    docs = [f"d{number:02}" for number in range(40)]
    random.Random(1).shuffle(docs)  # trec_eval orders equal scores by name
    golds = {"q": Gold({doc: 1 + number % 3 for number, doc in enumerate(docs[::7])})}
    assert_alike(golds, {"q": list(zip(docs, scores, strict=True))})


@given(st.lists(st.floats() | st.none(), max_size=60))
def test_written_scores_fall_as_32_bit_floats(scores: list[float | None]) -> None:
    written = np.array([float(f"{score:.9g}") for score in falling(scores)]).astype(np.float32)
    assert np.isfinite(written).all()
    assert (np.diff(written) < 0).all()


def test_scores_that_fall_are_kept() -> None:
    scores = [12.5, 3.25, 0.75, -0.5]
    assert falling(scores) == scores


def test_odd_names_stay_apart_and_one_word() -> None:
    names = ["a b", "a%20b", "a\tb", "a\u00a0b", "a\nb", "ä", "a", "%", "\u2028", "日本 語", "q\x00"]
    written = [trec_id(name) for name in names]
    assert len(set(written)) == len(names)
    assert all(len(name.split()) == 1 for name in written)
    golds = {
        name: Gold({names[i - 1]: 2, "missing evidence 0: https://x.example/a b": 1})
        for i, name in enumerate(names)
    }
    assert_alike(golds, {name: [("x", 1.0), (names[i - 1], 1.0)] for i, name in enumerate(names)})


def test_chunks_of_one_document_take_its_best_place() -> None:
    found: list[tuple[str, float | None]] = [("b", 2.0), ("a", 5.0), ("b", 9.0), ("c", 1.0)]
    lines = run_lines("q", found, "t")
    assert [line.split()[2:5] for line in lines] == [
        ["b", "1", "2"],
        ["a", "2", "1.99999988"],
        ["c", "3", "1"],
    ]


def test_a_question_without_hits_counts_as_0_in_trec_evals_mean() -> None:
    golds = {"found": Gold({"a": 1}), "not": Gold({"a": 1})}
    assert_alike(golds, {"found": [("a", 1.0)], "not": []})
    assert NOTHING in run_lines("not", [], "t")[0]


def test_any_of_several_is_what_trec_eval_cannot_say() -> None:
    assert counts_alike(Gold({"a": 1}, needs_all=False))
    assert not counts_alike(Gold({"a": 1, "b": 1}, needs_all=False))


@pytest.mark.models
def test_the_run_files_of_a_study_are_scored_as_on_its_leaderboard(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    bench = make_bench(
        {
            "  dense: {dense: {k: 5}}": "  dense: {dense: {k: 9}}\n  none: {nothing: {}}\n"
            "  old: [{fuse: {of: [bm25: {k: 9}, dense: {k: 9}], k: 9}}, document_order: {}]",
            "ndcg@10, evidence": "ndcg@10, recall@10, evidence",
        },
        QUESTIONS.replace("    needs: any\n", ""),
    )
    bench.build()
    rebuild(bench.home)
    runs = trec_runs(bench.study, bench.home, tmp_path / "runs")
    assert runs.qrels == tmp_path / "runs" / "tiny.qrels"
    assert runs.differing == []
    qrels = runs.qrels.read_text()
    assert set(read_qrels(qrels)) == {"noon", "tickets"}
    assert len(read_qrels(qrels)["tickets"]) == 2, "evidence that is nowhere counts"
    with connect(bench.home.database) as connection:
        board = connection.execute("SELECT retriever, metric, value FROM current_leaderboard").fetchall()
    figures = {(retriever, metric): value for retriever, metric, value in board}
    assert len(runs.written) == 4
    for path in runs.written:
        theirs = by_trec_eval(qrels, path.read_text())
        retriever = path.name.split(".")[3]
        for ours in ("ndcg@10", "recall@10"):
            mean = np.mean([theirs[name][THEIRS[ours]] for name in theirs])
            assert len(theirs) == 2
            assert figures[retriever, ours] == pytest.approx(mean, abs=1e-9), (retriever, ours)


@pytest.mark.models
def test_a_failed_ranking_has_no_line(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    bench.build()

    def fail(rows: pl.DataFrame) -> pl.DataFrame:
        failed = pl.col("question_id") == "noon"
        return rows.with_columns(status=pl.when(failed).then(pl.lit("error")).otherwise("status"))

    bench.edit("rankings", "tiny.t16.minilm.bm25", "ranked.parquet", fail)
    rebuild(bench.home)
    runs = trec_runs(bench.study, bench.home, tmp_path / "runs")
    lines = next(path for path in runs.written if "bm25" in path.name).read_text()
    assert set(read_run(lines)) == {"tickets", "captain"}
    assert runs.differing == ["tickets"]
