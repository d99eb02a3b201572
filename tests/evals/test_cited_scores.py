"""What answers cite, from the stage that writes them to the scores: by markers of a model, and by quoting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.metrics import get_metric
from rag_assay.evals.pipeline.cell_cases import CellCases, read_cases
from rag_assay.evals.scores import Scores
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.parquet import read_parquet, write_parquet
from tests.fakes.openai_server import FakeOpenAI, Received, answer
from tests.fakes.tiny import Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]

EXTRACTIVE = "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
METRICS = {
    "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]": (
        "metrics: [ndcg@10, citation_precision, citation_recall, rouge_l]"
    )
}
QUOTING, ASKING = "tiny.t16.minilm.bm25.extractive", "tiny.t16.minilm.bm25.llm"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def respond(received: Received) -> Any:
        if "tickets" in received.body["messages"][-1]["content"].rpartition("Question: ")[2]:
            return answer("On the quay. Or so [1].\n\nSources: [1], [7]")
        return answer("At noon [1].")

    with FakeOpenAI(respond=respond) as fake:
        yield fake


def scores(bench: Bench, key: str) -> dict[tuple[str, str], tuple[str, float | None]]:
    rows = read_parquet(bench.folder("scores", key) / "scores.parquet")
    return {(r["metric"], r["question_id"]): (r["status"], r["value"]) for r in rows.iter_rows(named=True)}


def test_what_is_quoted_is_cited(make_bench: MakeBench) -> None:
    bench = make_bench(METRICS)
    bench.build()
    found = scores(bench, QUOTING)
    assert found["citation_recall", "noon"] == ("ok", 1.0), "every quoted sentence is cited"
    assert found["citation_precision", "noon"][0] == "ok"
    assert {question for metric, question in found if metric.startswith("citation")} == {"noon", "tickets"}


def test_a_models_markers_are_measured_and_cost_no_words(make_bench: MakeBench, server: FakeOpenAI) -> None:
    generator = f"  llm: {{llm: {{model: openai/any, passages: 2, api_base: '{server.api_base}'}}}}\n"
    bench = make_bench({EXTRACTIVE: generator, **METRICS})
    bench.build()
    found = scores(bench, ASKING)
    assert found["citation_precision", "noon"] == ("ok", 1.0)
    assert found["citation_recall", "noon"] == ("ok", 1.0)
    assert found["citation_precision", "tickets"] == ("ok", 0.5), "one of two points nowhere"
    assert found["citation_recall", "tickets"] == ("ok", 0.5), "the list of sources is no sentence"
    assert found["rouge_l", "noon"] == ("ok", 1.0), "the ground truth, but for its marker"
    stored = read_parquet(bench.folder("answers", ASKING) / "answers.parquet").filter(question_id="noon")
    assert stored["answer"].item() == "At noon [1]."


def test_answers_of_earlier_versions_are_known_to_have_kept_none(make_bench: MakeBench) -> None:
    bench = make_bench(METRICS)
    bench.build()
    grid = Grid([bench.study])
    work = BuildContext(bench.home)
    inputs = Scores(grid).inputs(QUOTING, work.store)

    def read() -> CellCases:
        return read_cases(bench.study, grid.cells[QUOTING], inputs, {}, work)

    now = read()
    path = bench.folder("answers", QUOTING) / "answers.parquet"
    rows = read_parquet(path)
    for old in (rows.drop("citations"), rows.with_columns(citations=pl.lit(None, rows.schema["citations"]))):
        write_parquet(old, path)
        before = read()
        assert [one.answer.citations for one in before.cases if one.answer] == [None] * 3
        for name in ("rouge_l", "ndcg@10"):
            metric = get_metric(name)
            assert before.identity_of(metric) == now.identity_of(metric), "is not computed again"
        recall = get_metric("citation_recall")
        assert before.identity_of(recall) != now.identity_of(recall)
