"""What a run would do, said before it and after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rag_assay.assets.engine.stage import PartitionRef
from rag_assay.evals.study.run_plan import MEAN_PASSAGE, PROMPT_TOKENS, RunPlan, _passage_tokens, plan
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.pages import write_manifest
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.schemas import PAGES
from tests.fakes.openai_server import FakeOpenAI, answer, rate_limited
from tests.fakes.tiny import TEXTS, Bench

pytestmark = pytest.mark.models
MakeBench = Callable[..., Bench]
INDEX = "ferries.t16.minilm"


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


def planned(bench: Bench) -> RunPlan:
    return plan(bench.study, bench.stages, bench.home)


def stages(found: RunPlan) -> dict[str, tuple[int, int, int, int]]:
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
        "report": (1, 0, 1, 1),
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


@pytest.mark.parametrize(("budget", "read"), [(64, 64), (2000, 100 * round(16 * MEAN_PASSAGE))])
def test_a_budget_of_context_bounds_what_is_read(bench: Bench, budget: int, read: int) -> None:
    path = bench.study.path
    path.write_text(path.read_text().replace("passages: 3,", f"context_tokens: {budget},"))
    found = plan(read_study(path), bench.stages, bench.home)
    assert found.calls[0].prompt_tokens == 3 * (PROMPT_TOKENS + read)


def test_after_a_run_nothing_is_to_do(bench: Bench) -> None:
    bench.build()
    assert stages(planned(bench))["report"] == (1, 0, 1, 0)
    bench.write_report()
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
    } == {
        name: 0
        for name in bench.stages
        if name not in {"pages", "documents", "enrichments", "judgements", "judge_cards"}
        and name not in {"annotations", "human_estimates"}
    }
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


def test_chunks_of_another_chunking_say_nothing_of_what_will_be_embedded(
    bench: Bench, make_bench: MakeBench
) -> None:
    bench.build()
    assert planned(bench).texts_to_embed == {INDEX: 0}
    smaller = make_bench({"size: 16, overlap: 4": "size: 10, overlap: 2"})
    assert planned(smaller).texts_to_embed == {INDEX: None}, "its chunks are not there yet"
    smaller.build("chunks")
    assert planned(smaller).texts_to_embed[INDEX]


@pytest.fixture
def prompted(weights: Callable[[str], Path], tmp_path: Path) -> Path:
    """MiniLM as a folder that keeps prompts."""
    folder = tmp_path / "prompted"
    shutil.copytree(weights("all-MiniLM-L6-v2"), folder, copy_function=shutil.copyfile)
    path = folder / "config_sentence_transformers.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "prompts": {"query": "query: ", "document": "passage: "}}))
    return folder


def test_texts_are_looked_for_with_the_prompt_that_they_are_embedded_with(
    make_bench: MakeBench, prompted: Path
) -> None:
    bench = make_bench({"{model: all-MiniLM-L6-v2}": f"{{model: '{prompted}', passage_prompt: document}}"})
    bench.build("chunks")
    n_chunks = bench.artifact("chunks", "ferries.t16").meta["chunks"]
    assert planned(bench).texts_to_embed == {INDEX: n_chunks}
    bench.build("embeddings")
    assert planned(bench).texts_to_embed == {INDEX: 0}


def test_titles_and_tags_are_counted_where_they_are_embedded(make_bench: MakeBench) -> None:
    bench = make_bench({"{model: all-MiniLM-L6-v2}": "{model: all-MiniLM-L6-v2, similarities: true}"})
    bench.build("chunks")
    n_chunks = bench.artifact("chunks", "ferries.t16").meta["chunks"]
    assert planned(bench).texts_to_embed == {INDEX: n_chunks + len(TEXTS)}, "each document has its title"
    bench.build("embeddings")
    assert planned(bench).texts_to_embed == {INDEX: 0}


def test_indexed_questions_are_counted_once_they_are_there(make_bench: MakeBench, server: FakeOpenAI) -> None:
    questions = json.dumps({"questions": ["Where is the quay?"]})
    server.respond = lambda _received: answer(questions)
    enrich = f"enrich: {{model: openai/any, questions: 1, index: true, api_base: '{server.api_base}'}}"
    bench = make_bench({"overlap: 4}}": f"overlap: 4}}, {enrich}}}"})
    bench.build("chunks")
    n_chunks = bench.artifact("chunks", "ferries.t16").meta["chunks"]
    assert planned(bench).texts_to_embed == {INDEX: None}
    bench.build("enrichments")
    assert planned(bench).texts_to_embed == {INDEX: n_chunks + 1}, "the same question for each"
    bench.build("embeddings")
    assert planned(bench).texts_to_embed == {INDEX: 0}


def test_a_passage_is_as_long_as_what_is_delivered(make_bench: MakeBench) -> None:
    parent = "{parent: {size: 8, overlap: 0, parent_size: 100}}"
    bench = make_bench({"{tokens: {size: 16, overlap: 4}}": parent})
    assert _passage_tokens(bench.study, "t16", set(), bench.home) == round(100 * MEAN_PASSAGE)
    bench.build("chunks")
    chunks = read_parquet(bench.folder("chunks", "ferries.t16") / "chunks.parquet")
    one = chunks.filter(pl.col("context_end") - pl.col("context_start") > pl.col("characters"))
    assert len(one), "some document has more than one child"
    done = {PartitionRef("chunks", "ferries.t16")}
    whole = [len(text.replace(".", " .").split()) for text in TEXTS.values()]  # tokens, about
    assert min(whole) <= _passage_tokens(bench.study, "t16", done, bench.home) <= max(whole) + 4
    letters = make_bench({"{tokens: {size: 16, overlap: 4}}": "{recursive: {size: 1000, overlap: 100}}"})
    assert _passage_tokens(letters.study, "t16", set(), letters.home) == round(250 * MEAN_PASSAGE)


def test_calls_for_missing_dates_are_counted(make_bench: MakeBench) -> None:
    bench = make_bench({"path: docs}": "path: docs, date_by: {model: openai/any}}"})
    (done,) = planned(bench).enriching
    assert (done.key, done.model, done.calls) == ("dates of docs", "openai/any", 0)
    other = make_bench({"path: docs}": "path: docs, date_by: {model: openai/other}}"})
    pages = [{"url": f"https://x.example/{n}", "status": 200} for n in range(7)]
    write_manifest(bench.home, "docs", frame(list(pages), PAGES))
    (bench.home.stage("pointers") / "documents" / "docs.json").unlink()
    (asked,) = planned(other).enriching
    assert asked.calls == 7, "at most one a page"
