"""What models would cost, said before anything is built: bounds that what is paid later lies in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evals.study.costing import Estimate, Span, estimates, parts, total
from evals.study.planning import plan
from evals.study.registry import read_retriever_or_powerset
from evals.understanding.by_model.model_transform import ByModel
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny import Bench
from warehouse.inference.prices import price_of
from warehouse.parquet import read_parquet

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
MINI = "openai/gpt-4o-mini"


def asked(bench: Bench) -> dict[str, Estimate]:
    found = plan(bench.study, bench.stages, bench.home)
    return {row.what: row for row in estimates(bench.study, found, bench.stages, bench.home)}


def generators(bench_server: FakeOpenAI, model: str) -> dict[str, str]:
    base = f"api_base: '{bench_server.api_base}'"
    line = f"  llm: {{llm: {{model: {model}, passages: 3, max_tokens: 50, {base}}}}}\n"
    return {
        "generators:\n": f"generators:\n{line}",
        "questions:\n": "restrict: {llm: {retrievers: [bm25]}}\nquestions:\n",
    }


def test_prices_are_those_of_the_bundled_map() -> None:
    mini = price_of(MINI)
    assert mini is not None
    assert 0 < mini.read < mini.written < 1e-4
    assert price_of("gpt-4o-mini") == mini
    assert price_of("openai/a-model-of-my-own") is None
    assert price_of("nonsense/foo") is None
    small = price_of("openai/text-embedding-3-small", embeds=True)
    assert small is not None
    assert (small.read > 0, small.written) == (True, 0.0)


def test_answers_are_bounded_and_what_is_paid_lies_between(make_bench: MakeBench, server: FakeOpenAI) -> None:
    bench = make_bench(generators(server, MINI))
    row = asked(bench)["answers by llm"]
    price = price_of(MINI)
    assert price is not None
    assert row.calls == (3, 3)
    assert row.usd is not None
    assert row.read.most is not None
    assert row.usd.most == pytest.approx(row.read.most * price.read + 3 * 50 * price.written)
    assert 0 < row.usd.least < row.usd.most
    bench.build()
    (cell,) = [cell.key for cell in bench.study.cells() if cell.generator == "llm"]
    paid = read_parquet(bench.folder("answers", cell) / "answers.parquet")["usd"].sum()
    assert 0 < paid <= row.usd.most
    assert "answers by llm" not in asked(bench), "what is done is not asked again"


def test_an_unknown_price_is_said_and_left_out_of_the_sum(make_bench: MakeBench, server: FakeOpenAI) -> None:
    rows = list(asked(make_bench(generators(server, "openai/any"))).values())
    assert [row.usd for row in rows] == [None]
    assert total(rows) == (0, 0)


def test_a_price_of_the_study_s_own_is_counted(make_bench: MakeBench, server: FakeOpenAI) -> None:
    changes = generators(server, "openai/any, price: {read: 2, written: 8}")
    row = asked(make_bench(changes))["answers by llm"]
    assert row.usd is not None
    assert row.read.most is not None
    assert row.usd.most == pytest.approx((row.read.most * 2 + 3 * 50 * 8) / 1_000_000)


def test_questions_that_a_model_is_to_understand_are_counted(make_bench: MakeBench) -> None:
    step = f"{{hyde: {{by: llm, model: {MINI}}}}}"
    bench = make_bench({"  bm25: {bm25": f"  asked: [{step}, {{dense: {{k: 5}}}}]\n  bm25: {{bm25"})
    row = asked(bench)["hyde of asked"]
    assert (row.model, row.calls) == (MINI, (3, 3))
    assert row.usd is not None
    assert row.usd.most


def test_enrichment_is_bounded_by_the_documents_before_they_are_cut(make_bench: MakeBench) -> None:
    enrich = f"  t16: {{enrich: {{model: {MINI}, questions: 2}}, "
    bench = make_bench({"  t16: {": enrich})
    row = asked(bench)["enriching ferries.t16"]
    bench.build("chunks")
    n_chunks = bench.artifact("chunks", "ferries.t16").meta["chunks"]
    assert row.calls.most is not None
    assert row.calls.least <= n_chunks <= row.calls.most
    assert row.usd is not None
    assert row.usd.most
    assert not row.why


def test_texts_of_an_api_are_paid_by_the_token(make_bench: MakeBench) -> None:
    small = "  minilm: {model: openai/text-embedding-3-small, max_tokens: 64, api: {}}"
    bench = make_bench({"  minilm: {model: all-MiniLM-L6-v2}": small})
    row = asked(bench)["texts of ferries.t16.minilm"]
    assert row.usd is not None
    assert row.usd.most
    assert row.written == (0, 0)


def test_parts_are_found_however_deep() -> None:
    inner = [{"hyde": {"by": "llm", "model": MINI}}, {"dense": {}}]
    recipe = read_retriever_or_powerset({"fuse": {"of": [{"bm25": {}}, inner]}})
    assert [step.kind for step in parts(recipe, ByModel)] == ["hyde"]


def test_what_nothing_bounds_leaves_the_sum_open() -> None:
    span = Span(0, None)
    row = Estimate("texts", MINI, span, span, span, Span(0.5, None), "not there yet")
    assert total([row, Estimate("a", MINI, span, span, span, Span(0.5, 1.0))]) == (1.0, None)
