"""What models would cost, said before anything is built: bounds that what is paid later lies in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from evals.costing import Estimate, Span, estimates, parts, total
from evals.planning import plan
from evals.retrieving import StudyRetriever
from evals.understanding.asking import ByModel
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.tiny import Bench
from warehouse import call_failures
from warehouse.prices import price_of

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
MINI = "openai/gpt-4o-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(call_failures, "retry_wait", lambda _error, _attempt: None)
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as fake:
        yield fake


def asked(bench: Bench) -> dict[str, Estimate]:
    found = plan(bench.study, bench.stages, bench.home)
    return {row.what: row for row in estimates(bench.study, found, bench.stages, bench.home)}


def generators(bench_server: FakeOpenAI, model: str) -> dict[str, str]:
    line = f"  llm: {{llm: {{model: {model}, passages: 3, max_tokens: 50, api_base: '{bench_server.api_base}'}}}}\n"
    return {"generators:\n": f"generators:\n{line}", "questions:\n": "restrict: {llm: {retrievers: [bm25]}}\nquestions:\n"}


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
    paid = sum(call["usd"] for call in bench.artifact_rows("answers", "llm"))
    assert row.usd.least * 0.1 <= paid <= row.usd.most
    assert "answers by llm" not in asked(bench), "what is done is not asked again"


def test_an_unknown_price_is_said_and_left_out_of_the_sum(make_bench: MakeBench, server: FakeOpenAI) -> None:
    rows = list(asked(make_bench(generators(server, "openai/any"))).values())
    assert [row.usd for row in rows] == [None]
    assert total(rows) == (0, 0)


def test_questions_that_a_model_is_to_understand_are_counted(make_bench: MakeBench) -> None:
    step = f"{{hyde: {{by: llm, model: {MINI}}}}}"
    bench = make_bench({"  bm25: {bm25": f"  asked: [{step}, {{dense: {{k: 5}}}}]\n  bm25: {{bm25"})
    row = asked(bench)["hyde of asked"]
    assert (row.model, row.calls) == (MINI, (3, 3))
    assert row.usd is not None
    assert row.usd.most


def test_enrichment_and_an_embedding_api_before_and_after_the_documents(make_bench: MakeBench) -> None:
    bench = make_bench(
        {
            "  t16: {tokens: {size: 16, overlap: 4}": f"  t16: {{enrich: {{model: {MINI}, questions: 2}}, tokens: {{size: 16, overlap: 4}}",
        }
    )
    before = asked(bench)["enriching ferries.t16"]
    bench.build("chunks")
    after = asked(bench)["enriching ferries.t16"]
    assert after.calls.least == after.calls.most
    assert before.calls.most is not None
    assert before.calls.least <= after.calls.least <= before.calls.most
    assert not before.why


def test_parts_are_found_however_deep() -> None:
    inner = {"chain": {"steps": [{"hyde": {"by": "llm", "model": MINI}}, {"dense": {}}]}}
    recipe = StudyRetriever.model_validate({"fuse": {"of": [{"bm25": {}}, inner], "by": "rrf"}})
    assert [step.kind for step in parts(recipe, ByModel)] == ["hyde"]


def test_what_nothing_bounds_leaves_the_sum_open() -> None:
    span = Span(0, None)
    row = Estimate("texts", MINI, span, span, span, Span(0.5, None), "not there yet")
    assert total([row, Estimate("a", MINI, span, span, span, Span(0.5, 1.0))]) == (1.0, None)
