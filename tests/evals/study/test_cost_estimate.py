"""What models would cost, said before anything is built: bounds that what is paid later lies in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assay.evals.generation.extractive import Extractive
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.abstention import Abstention
from rag_assay.evals.query_transforms.model_transform import ByModel
from rag_assay.evals.study.cost_estimate import estimates, of_cases
from rag_assay.evals.study.registry import read_retriever_or_powerset
from rag_assay.evals.study.run_plan import Cached, CallEstimate, CostRange, passed_caps, plan, total
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.prices import price_of
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.recipe import nested_recipes
from tests.fakes.judges import AskingJudge, CountingJudge
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny import Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
MINI = "openai/gpt-4o-mini"


def asked(bench: Bench) -> dict[str, CallEstimate]:
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
    assert (row.model, row.calls) == (MINI, (3, 6)), "each a second time, if no reply can be read"
    assert row.usd is not None
    assert row.usd.most


TRAIN = """\
question_set: learn
language: en
questions:
  - {id: t1, question: When does the crane stand?, ground_truth: x}
  - {id: t2, question: Is the lamp lit at sunset?, ground_truth: x}
"""


@pytest.mark.parametrize(("retriever", "most"), [("dense: {k: 5}", 6), ("TUNED", 10)])
def test_train_questions_count_where_something_is_tuned_on_them(
    retriever: str, most: int, make_bench: MakeBench, tmp_path: Path
) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "learn.questions.yaml").write_text(TRAIN)
    tuned = "fuse: {rrf: {}, of: [{bm25: {}}, {dense: {}}], weights: tuned}"
    step = f"{{hyde: {{by: llm, model: {MINI}}}}}"
    last = f"{{{retriever.replace('TUNED', tuned)}}}"
    bench = make_bench(
        {
            "  bm25: {bm25": f"  asked: [{step}, {last}]\n  bm25: {{bm25",
            "questions:\n": "questions:\n  - {file: learn.questions.yaml, use: train}\n",
        }
    )
    assert asked(bench)["hyde of asked"].calls == (3, most)


def test_several_wordings_are_each_read_by_the_steps_behind(make_bench: MakeBench) -> None:
    steps = f"{{multi_query: {{n: 3}}}}, {{hyde: {{by: llm, model: {MINI}}}}}"
    bench = make_bench({"  bm25: {bm25": f"  asked: [{steps}, {{bm25: {{k: 5}}}}]\n  bm25: {{bm25"})
    assert asked(bench)["hyde of asked"].calls == (3, 3 * 3 * 2)


def test_a_question_without_a_conversation_is_no_follow_up(make_bench: MakeBench) -> None:
    step = f"{{follow_up: {{by: llm, model: {MINI}}}}}"
    bench = make_bench({"  bm25: {bm25": f"  asked: [{step}, {{bm25: {{k: 5}}}}]\n  bm25: {{bm25"})
    assert "follow_up of asked" not in asked(bench)


def test_a_generator_may_take_several_calls_a_question(
    make_bench: MakeBench, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Llm, "calls_per_question", lambda _self: CallsEach(2, 7))
    row = asked(make_bench(generators(server, MINI)))["answers by llm"]
    assert row.calls == (6, 21)
    assert row.written.most == 21 * 50


def test_the_models_to_fall_back_on_bound_the_price(make_bench: MakeBench, server: FakeOpenAI) -> None:
    def usd(more: str) -> CostRange | None:
        changes = generators(server, f"{MINI}{more}")
        return next(row.usd for row in (asked(make_bench(changes))["answers by llm"],))

    plain = usd("")
    both = usd(", fallback: [{model: openai/mine, price: {read: 9, written: 9}}]")
    assert plain is not None
    assert both is not None
    assert both.least == plain.least
    assert (both.most or 0) > 5 * (plain.most or 0)
    assert usd(", fallback: [openai/nobody-knows-its-price]") is None


def test_a_gate_may_refuse_before_anything_is_asked(make_bench: MakeBench, server: FakeOpenAI) -> None:
    changes = generators(server, f"{MINI}, gate: {{threshold: 0.5}}")
    assert asked(make_bench(changes))["answers by llm"].calls == (0, 3)


def test_a_generator_that_searches_again_has_its_questions_understood_again(
    make_bench: MakeBench, server: FakeOpenAI
) -> None:
    step = f"{{hyde: {{by: llm, model: {MINI}}}}}"
    again = f"  llm: {{llm: {{model: {MINI}, api_base: '{server.api_base}', sufficiency: {{}}}}}}\n"
    bench = make_bench(
        {
            "  bm25: {bm25: {k: 5}}": f"  bm25: [{step}, {{bm25: {{k: 5}}}}]",
            "generators:\n": f"generators:\n{again}",
        }
    )
    assert asked(bench)["hyde of bm25"].calls == (3, 2 * 3 * 2)
    assert asked(bench)["answers by llm"].calls == (2 * 3 * 2, 2 * 3 * 5), "in two cells"


def test_a_part_without_a_model_makes_no_call() -> None:
    assert Extractive().calls_per_question() == (0, 0)
    assert Llm(model=MINI).calls_per_question() == (1, 1)
    assert CountingJudge().calls_per_case() == (0, 0)
    assert get_metric("abstention").calls_per_case() == (0, 0)


def test_what_a_judge_would_ask_is_bounded(tmp_path: Path) -> None:
    row = of_cases("judging by asking", AskingJudge(model=MINI, budget_usd=0.5), 40, Cached(Home(tmp_path)))
    assert (row.what, row.calls, row.limit_usd, row.of_study) == ("judging by asking", (40, 80), 0.5, True)
    assert row.usd is not None
    assert 0 < row.usd.least < (row.usd.most or 0)


class AskingMetric(Abstention):
    """A metric that asks a model."""

    @property
    def chat(self) -> ChatModel:
        return ChatModel(model=MINI)


def test_a_metric_that_asks_a_model_is_counted(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Study.metric
    monkeypatch.setattr(
        Study, "metric", lambda one, name: AskingMetric() if name == "abstention" else known(one, name)
    )
    bench = make_bench()
    row = asked(bench)["abstention"]
    assert (row.calls, row.of_study) == ((6, 12), True), "of two cells, three questions each"
    bench.build()
    assert "abstention" not in asked(bench)


def test_what_the_budget_cannot_pay_is_said(make_bench: MakeBench, server: FakeOpenAI) -> None:
    bench = make_bench(generators(server, f"{MINI}, budget_usd: 0.0000001"))
    rows = list(asked(bench).values())
    (sentence,) = passed_caps(None, rows)
    assert sentence.startswith("answers by llm: at least ")
    assert "no more than 1e-07 USD" in sentence
    assert passed_caps(StudyBudget(calls=3, tokens=10_000), rows) == [sentence], "a cap may be met"
    whole, _ = passed_caps(StudyBudget(usd=1, calls=2), rows)
    assert "at least 3 calls, and no more than 2 calls" in whole
    whole, _ = passed_caps(StudyBudget(usd=0, tokens=2, calls=2), rows)
    assert "no more than 0 USD, 2 tokens, 2 calls" in whole


def test_a_model_of_this_process_passes_no_cap(make_bench: MakeBench) -> None:
    line = "  llm: {llm: {model: local/smollm2-135m-instruct}}\n"
    rows = list(asked(make_bench({"generators:\n": f"generators:\n{line}"})).values())
    assert [row.what for row in rows] == ["answers by llm"]
    assert passed_caps(StudyBudget(calls=0, tokens=0), rows) == []


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
    small = "  minilm: {model: openai/text-embedding-3-small, max_tokens: 64, api: {budget_usd: 3}}"
    bench = make_bench({"  minilm: {model: all-MiniLM-L6-v2}": small})
    row = asked(bench)["texts of ferries.t16.minilm"]
    assert row.usd is not None
    assert row.usd.most
    assert row.written == (0, 0)
    assert row.limit_usd == 3
    assert (row.calls.least, row.calls.most) == (1, pytest.approx(row.calls.most))
    questions = asked(bench)["questions by minilm"]
    assert questions.calls == (0, 3)
    assert questions.usd is not None
    assert 0 < (questions.usd.most or 0) < row.usd.most


def test_parts_are_found_however_deep() -> None:
    inner = [{"hyde": {"by": "llm", "model": MINI}}, {"dense": {}}]
    recipe = read_retriever_or_powerset({"fuse": {"of": [{"bm25": {}}, inner]}})
    assert [step.kind for step in nested_recipes(recipe) if isinstance(step, ByModel)] == ["hyde"]


def test_what_nothing_bounds_leaves_the_sum_open() -> None:
    span = CostRange(0, None)
    row = CallEstimate("texts", MINI, span, span, span, CostRange(0.5, None), "not there yet")
    assert total([row, CallEstimate("a", MINI, span, span, span, CostRange(0.5, 1.0))]) == (1.0, None)
