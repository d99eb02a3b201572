"""A pipeline answers as the grid does, whatever the cell; and says what is missing where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.export.loader import open_exported
from rag_assay.evals.export.writer import export
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Request
from rag_assay.evals.pipeline.cell_items import StudyQuestions
from rag_assay.evals.pipeline.pipeline import PipelineResult, open_pipeline, record_of
from rag_assay.evals.retrieval.query import Removal
from rag_assay.evals.study.cells import NO_GENERATOR
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.evals.conftest import MakeBench
from tests.fakes.tiny import TEXTS, Bench

pytestmark = pytest.mark.models
BM25 = "  bm25: {bm25: {k: 5}}\n"
CHAIN = f"""{BM25}  chain:
    - multi_query: {{}}
    - fuse: {{rrf: {{}}, of: [{{bm25: {{k: 20}}}}, {{dense: {{k: 20}}}}], k: 4}}
    - neighbours: {{n: 1}}
  tuned: {{fuse: {{rrf: {{}}, of: [{{bm25: {{k: 20}}}}, {{dense: {{k: 20}}}}], weights: tuned, k: 5}}}}
"""
SETS = "  - file: ferry.questions.yaml\n"
TRAIN = """\
question_set: train
language: en
questions:
  - id: train-1
    question: Whence comes heating for workplaces beside boats?
    evidence: [{url: "https://x.example/heat", quote: "heated by a pump that draws warmth"}]
"""


@pytest.fixture
def bench(make_bench: MakeBench, tmp_path: Path) -> Bench:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "train.questions.yaml").write_text(TRAIN)
    return make_bench({BM25: CHAIN, SETS: f"{SETS}  - {{file: train.questions.yaml, use: train}}\n"})


@pytest.fixture
def work(bench: Bench) -> Iterator[BuildContext]:
    held = BuildContext(bench.home)
    yield held
    held.close()


def stored(bench: Bench, stage: str, key: str, file: str, question: str) -> pl.DataFrame:
    return read_parquet(bench.folder(stage, key) / file).filter(pl.col("question_id") == question)


def hits_of(result: PipelineResult) -> list[tuple[Any, ...]]:
    found = [(hit.rank, hit.chunk_id, hit.doc_id, hit.start, hit.end) for hit in result.found.hits]
    assert [passage.chunk for passage in result.passages] == [hit.chunk_id for hit in result.found.hits]
    return found


def test_every_cell_finds_and_answers_what_the_grid_stored(bench: Bench, work: BuildContext) -> None:
    bench.build()
    cells = bench.study.cells()
    assert {cell.retriever for cell in cells} == {"bm25", "chain", "tuned", "dense"}
    for cell in cells:
        with open_pipeline(bench.study, cell, work) as pipeline:
            for question in ("noon", "tickets", "captain"):
                known = StudyQuestions(bench.study, work).named(question)
                assert known is not None
                result = pipeline.ask_row(known)
                hits = stored(bench, "rankings", cell.ranking, "hits.parquet", question).sort("rank")
                columns = hits.select("rank", "chunk_id", "doc_id", "start", "end")
                assert hits_of(result) == columns.rows()
                assert [hit.score for hit in result.found.hits] == pytest.approx(hits["score"].to_list())
                steps = stored(bench, "rankings", cell.ranking, "trace.parquet", question)
                taken = [(step.step, step.kind) for step in result.found.trace.steps]
                assert taken == steps.select("step", "kind").rows()
                losses = stored(bench, "rankings", cell.ranking, "losses.parquet", question)
                assert [loss["lost_at"] for loss in result.losses] == losses["lost_at"].to_list()
                (answer,) = stored(bench, "answers", cell.key, "answers.parquet", question).to_dicts()
                assert result.answer is not None
                assert (result.answer.status, result.answer.text) == (answer["status"], answer["answer"])


def test_a_budget_of_context_holds_in_the_grid_and_in_an_open_pipeline(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    """64 tokens are 256 characters: not all of the first two documents, each of them one passage."""
    changes = {
        "passages: 2, max": "context_tokens: 64, max",
        "tokens: {size: 16, overlap: 4}": "document: {}",
    }
    bench = make_bench(changes, texts={name: f"{text} " * 2 for name, text in TEXTS.items()})
    built = bench.build()
    warnings = [check.name for one in built["answers"] for check in one.checks if not check.passed]
    assert warnings == [], "what the budget cuts is not what a model had no room for"
    cut = 0
    held = BuildContext(bench.home)
    for cell in bench.study.cells():
        export(bench.study, cell, tmp_path / cell.key, held)
        with (
            open_pipeline(bench.study, cell, held) as pipeline,
            open_exported(tmp_path / cell.key, held) as exported,
        ):
            for question in ("noon", "tickets", "captain"):
                known = StudyQuestions(bench.study, held).named(question)
                assert known is not None
                (row,) = stored(bench, "answers", cell.key, "answers.parquet", question).to_dicts()
                result = pipeline.ask_row(known)
                answer = result.answer
                assert answer is not None
                read = result.passages[: result.read] if answer.passages is None else answer.passages
                assert [one.chunk for one in read] == row["chunk_ids"]
                assert len(read) == result.read
                assert sum(len(one.text) for one in read) <= 256
                assert (answer.text, answer.prompt_tokens) == (row["answer"], row["prompt_tokens"])
                assert [vars(one)["end"] for one in answer.citations] == [
                    one["end"] for one in row["citations"]
                ]
                ends = {one.chunk: one.end for one in read}
                assert all(ends[one.chunk or ""] == one.end for one in answer.citations)
                assert [{"chunk_id": one.chunk, "kept": one.kept} for one in answer.cuts] == row["cuts"]
                cut += len(answer.cuts)
                again = exported.ask_row(known).answer
                assert again is not None
                assert replace(again, seconds=None) == replace(answer, seconds=None)
    assert cut
    held.close()


def test_a_question_that_no_study_asks(bench: Bench, work: BuildContext) -> None:
    bench.build("chunks", "enrichments", "embeddings", "indexes", "questions")
    cell = next(cell for cell in bench.study.cells() if cell.retriever == "dense")
    assert StudyQuestions(bench.study, work).named("What is lit at sunset?") is None
    with open_pipeline(bench.study, cell, work) as pipeline:
        result = pipeline.ask("What is lit at sunset?")
        assert result.passages[0].document == result.found.hits[0].doc_id
        assert result.passages[0].text in "The lamp is lit at sunset every day."
        assert result.passages[0].url == "https://x.example/lamp"
        assert result.read == 2
        assert result.losses == ()
        assert result.answer is not None
        assert "sunset" in (result.answer.text or "")
        record = record_of(result)
        assert record["passages"][0]["title"] == "lamp"
        assert record["answer"]["status"] == "ok"
        nothing = pipeline.ask("   ")
        assert nothing.passages == ()
        assert nothing.answer is not None
        assert nothing.answer.status is Status.NO_CONTEXT
        assert (result.declined, nothing.declined) == (None, "no_passages")


TURNS = {
    "And the lamp?": ("When does the ferry leave the harbour?", "The ferry leaves the harbour at noon."),
    "Und der Preis?": ("Wo kauft man Karten für die Fähre?", "Am Hafen."),
}


class Calls(Generator):
    """Of another package, without a model that we know of."""

    kind: ClassVar[str] = "acme_calls"
    asked: ClassVar[list[Request]] = []

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        self.asked.extend(requests)
        return [Answer(Status.OK, text="noon", usd=0.01) for _ in requests]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        return []


def test_a_cell_that_reads_no_follow_ups_can_be_had_with_them(bench: Bench, work: BuildContext) -> None:
    bench.build("chunks", "enrichments", "embeddings", "indexes", "questions")
    cell = next(cell for cell in bench.study.cells() if cell.retriever == "dense")
    with open_pipeline(bench.study, cell, work) as plain:
        pipeline = plain.for_chat()
        assert pipeline.follows_up
        assert pipeline.for_chat() is pipeline
        assert pipeline.declines == plain.declines
        for text, said in TURNS.items():
            alone, followed = plain.ask(text), pipeline.ask(text, conversation=said)
            assert hits_of(pipeline.ask(text)) == hits_of(alone)
            assert plain.ask(text, conversation=said).understood == alone.understood == ()
            (known,) = followed.understood
            assert (known.step, known.text, known.value) == ("follow_up", text, followed.standalone)
            assert text != followed.standalone
            rewritten = plain.ask(followed.standalone)
            assert hits_of(followed) == hits_of(rewritten)
            assert followed.answer is not None
            assert rewritten.answer is not None
            if "lamp" in text:
                assert said[1] in (rewritten.answer.text or "")
                assert said[1] not in (followed.answer.text or ""), "its own words weigh more"
                assert "lamp" in (followed.answer.text or "")
            bare = pipeline.ask(text, conversation=said, without=[Removal("follow_up")])
            assert hits_of(bare) == hits_of(alone)
            assert [one.status for one in bare.understood] == ["removed"]
            assert record_of(followed)["understood"][0]["removable"]

        said = ("Whence comes heating for workplaces beside boats, barges and rafts?", "From a pump.")
        followed = pipeline.ask("And when does the ferry leave the harbour?", conversation=said)
        rewritten = plain.ask(followed.standalone)
        assert "(" in followed.standalone
        assert rewritten.answer is not None
        assert followed.answer is not None
        assert rewritten.answer.confidence is not None
        assert followed.answer.confidence is not None
        assert followed.answer.text == "The ferry leaves the harbour at noon."
        called = replace(pipeline, generator=Calls())
        Calls.asked.clear()
        called.ask("And when does the ferry leave the harbour?", conversation=said)
        assert [one.question for one in Calls.asked] == [followed.standalone], "what may cost is called once"


def test_every_other_passage_of_a_follow_up_is_of_the_document_that_was_quoted(
    make_bench: MakeBench,
) -> None:
    # Twelve tokens, so that the sentence stands in two chunks.
    changes = {
        "passages: 2, max": "passages: 8, max",
        "size: 16, overlap: 4": "size: 12, overlap: 2",
        "  dense: {dense: {k: 5}}": "  dense: {dense: {k: 20}}",
    }
    bench = make_bench(changes)
    bench.build("chunks", "enrichments", "embeddings", "indexes", "questions")
    held = BuildContext(bench.home)
    cell = next(cell for cell in bench.study.cells() if cell.retriever == "dense")
    with open_pipeline(bench.study, cell, held) as plain:
        pipeline = replace(plain.for_chat(), generator=Calls())
        Calls.asked.clear()
        text, sunset = "And when does the ferry return?", "The lamp is lit at sunset every day."
        result = pipeline.ask(text, conversation=("What is lit at sunset?", sunset))
        pipeline.ask(text, conversation=("What is lit?", "Nothing that any passage holds in so many words."))
        plain_order = pipeline.ask(text)
    held.close()
    read, unquoted, first = (request.passages for request in Calls.asked)
    lamp = {one.document for one in result.passages if one.title == "lamp"}
    quoted = [one for one in result.passages if one.document in lamp]
    assert quoted
    assert all(sunset not in one.text for one in quoted), "a sentence that a chunk's edge cuts is quoted, too"
    assert result.passages[0].document not in lamp, "the search itself ranks another document first"
    assert [one.document in lamp for one in read[: 2 * len(quoted)]] == [True, False] * len(quoted)
    assert [one for one in read if one.document in lamp] == quoted, "each part keeps its order"
    others = [one for one in result.passages if one.document not in lamp]
    assert [one for one in read if one.document not in lamp] == others[: len(read) - len(quoted)]
    assert result.answer is not None
    assert result.answer.passages == read, "a citation [1] names what the generator read first"
    assert unquoted[0].document not in lamp
    assert first == plain_order.passages[: len(first)]


def test_words_of_a_question_find_it_however_they_are_typed(bench: Bench, work: BuildContext) -> None:
    assert StudyQuestions(bench.study, work).named("noon") is None, "nothing was run"
    bench.build("chunks", "enrichments", "embeddings", "indexes", "questions")
    for typed in (
        "noon",
        "when does the  ferry leave the harbour?",
        "When does the ferry leave the harbour?",
    ):
        found = StudyQuestions(bench.study, work).named(typed)
        assert found is not None
        assert found["question_id"] == "noon"
        assert found["evidence"][0]["doc_id"]


def test_a_cell_without_a_generator_has_no_answer(make_bench: MakeBench) -> None:
    lines = "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
    bench = make_bench({lines: "", ", abstention": ""})
    bench.build("chunks", "enrichments", "embeddings", "indexes")
    work = BuildContext(bench.home)
    cell = bench.study.cells()[0]
    assert cell.generator == NO_GENERATOR
    with open_pipeline(bench.study, cell, work) as pipeline:
        result = pipeline.ask("When does the ferry leave?")
    work.close()
    assert result.answer is None
    assert result.read == 0
    assert result.passages


def test_what_is_missing_or_changed_is_a_sentence(bench: Bench, work: BuildContext) -> None:
    cell = bench.study.cells()[0]
    with pytest.raises(InputError, match=r"not built yet; run `assay run .*tiny.yaml` first"):
        open_pipeline(bench.study, cell, work)
    bench.build("chunks", "enrichments", "embeddings", "indexes")
    with open_pipeline(bench.study, cell, work) as pipeline:
        assert pipeline.ask("When does the ferry leave?").passages
    path = bench.study.path
    path.write_text(path.read_text().replace("{size: 16, overlap: 4}", "{size: 24, overlap: 4}"))
    with pytest.raises(InputError, match=r"chunks of ferries\.t16 were built by another recipe"):
        open_pipeline(read_study(path), cell, work)


def test_a_damaged_index_is_named(bench: Bench) -> None:
    bench.build("chunks", "enrichments", "embeddings", "indexes")
    folder = bench.folder("indexes", "ferries.t16.minilm")
    file = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    work = BuildContext(Home(bench.home.root))
    with pytest.raises(InputError, match=r"the index ferries.t16.minilm is damaged .* builds it again"):
        open_pipeline(bench.study, bench.study.cells()[0], work)
    work.close()
