"""What a run would do, said before it and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from evals.planning import MEAN_PASSAGE, PROMPT_TOKENS, Plan, plan
from tests.fakes.openai_server import FakeOpenAI, answer, rate_limited
from tests.fakes.tiny import TEXTS, Bench
from warehouse import gateway

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
INDEX = "ferries.t16.minilm"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(gateway, "_wait", lambda _error, _attempt: None)
    with FakeOpenAI(respond=lambda _received: answer("At noon.")) as fake:
        yield fake


@pytest.fixture
def bench(make_bench: MakeBench, server: FakeOpenAI) -> Bench:
    llm = (
        f"  llm: {{llm: {{model: openai/any, passages: 3, max_tokens: 50, api_base: '{server.api_base}'}}}}\n"
    )
    return make_bench(
        {
            "generators:\n": f"generators:\n{llm}",
            "questions:\n": "restrict: {llm: {retrievers: [bm25]}}\nquestions:\n",
        }
    )


def planned(bench: Bench) -> Plan:
    return plan(bench.study, bench.stages, bench.home)


def stages(found: Plan) -> dict[str, tuple[int, int, int, int]]:
    return {s.stage: (s.keys, s.done, s.to_do, s.unknown) for s in found.stages}


def test_before_a_run(bench: Bench) -> None:
    found = planned(bench)
    assert len(found.cells) == 3
    assert stages(found) == {
        "pages": (1, 1, 0, 0),
        "documents": (1, 1, 0, 0),
        "chunks": (1, 0, 1, 0),
        "embeddings": (1, 0, 1, 1),
        "indexes": (1, 0, 1, 1),
        "questions": (1, 0, 1, 0),
        "rankings": (2, 0, 2, 2),
        "answers": (3, 0, 3, 3),
        "scores": (3, 0, 3, 3),
        "leaderboard": (1, 0, 1, 1),
    }
    assert found.texts_to_embed == {INDEX: None}
    (calls,) = found.calls
    assert (calls.generator, calls.model, calls.cells, calls.calls) == ("llm", "openai/any", 1, 3)
    assert calls.prompt_tokens == 3 * (PROMPT_TOKENS + 3 * round(16 * MEAN_PASSAGE))
    assert calls.completion_tokens == 3 * 50


def test_after_cutting_the_texts_are_counted(bench: Bench) -> None:
    bench.build("chunks")
    found = planned(bench)
    chunks = bench.artifact("chunks", "ferries.t16")
    assert found.texts_to_embed == {INDEX: chunks.meta["chunks"]}
    assert found.calls[0].prompt_tokens == 3 * (PROMPT_TOKENS + 3 * round(chunks.meta["tokens_mean"]))


def test_after_a_run_nothing_is_to_do(bench: Bench) -> None:
    bench.build()
    found = planned(bench)
    assert all((s.done, s.to_do, s.unknown) == (s.keys, 0, 0) for s in found.stages)
    assert found.texts_to_embed == {INDEX: 0}
    assert (found.calls[0].calls, found.calls[0].prompt_tokens, found.calls[0].completion_tokens) == (0, 0, 0)


def test_after_failures_only_they_are_planned(bench: Bench, server: FakeOpenAI) -> None:
    server.add(rate_limited(0), rate_limited(0))
    bench.build()
    found = planned(bench)
    assert stages(found)["answers"] == (3, 2, 1, 0)
    assert stages(found)["scores"] == (3, 2, 1, 1)
    assert stages(found)["leaderboard"] == (1, 0, 1, 1)
    assert found.calls[0].calls == 2


def test_a_changed_document_makes_all_that_follows_to_do(bench: Bench) -> None:
    bench.build()
    bench.give({**TEXTS, "lamp": "The lighthouse was switched off. The keeper has moved to the town."})
    found = planned(bench)
    assert stages(found)["documents"] == (1, 1, 0, 0)
    assert {
        name: numbers[1] for name, numbers in stages(found).items() if name not in {"pages", "documents"}
    } == {name: 0 for name in bench.stages if name not in {"pages", "documents", "enrichments"}}
    bench.build("chunks", "questions")
    assert (
        0
        < (planned(bench).texts_to_embed[INDEX] or 0)
        < bench.artifact("chunks", "ferries.t16").meta["chunks"]
    )


def test_a_changed_chunking_is_not_hidden_by_what_hung_on_the_old_one(
    bench: Bench, make_bench: MakeBench, server: FakeOpenAI
) -> None:
    bench.build()
    smaller = make_bench({"size: 16, overlap: 4": "size: 10, overlap: 2"})
    found = stages(planned(smaller))
    assert found["questions"] == (1, 1, 0, 0)
    assert {name: found[name][1] for name in ("chunks", "embeddings", "indexes", "rankings", "answers")} == {
        "chunks": 0,
        "embeddings": 0,
        "indexes": 0,
        "rankings": 0,
        "answers": 0,
    }


def test_a_plan_changes_nothing(bench: Bench) -> None:
    before = sorted(str(path) for path in bench.home.root.rglob("*"))
    planned(bench)
    assert sorted(str(path) for path in bench.home.root.rglob("*")) == before
