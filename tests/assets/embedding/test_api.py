"""An API as an embedder of a study: its recipe, its identity, its batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.assets.embedding.api import PROBE
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe, model_prompts
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, embeddings, failure

MINILM = "all-MiniLM-L6-v2"


def recipe(**fields: Any) -> EmbedderRecipe:
    return EmbedderRecipe.model_validate({"model": "openai/any", **fields})


def test_batches_are_sent_and_each_text_once(tmp_path: Path) -> None:
    with FakeOpenAI(respond=embeddings) as server:
        asked = recipe(api={"base": server.api_base}, batch_size=4, passage_prefix="p: ")
        texts = [f"text {n}" for n in range(10)]
        first = CachedEmbedder(asked, Home(tmp_path)).passages([*texts, texts[0]])
        probe, *batches = [request.body["input"] for request in server.requests]
        assert probe == [PROBE]
        assert sorted(text for batch in batches for text in batch) == sorted(f"p: {text}" for text in texts)
        assert sorted(map(len, batches)) == [2, 4, 4]
        assert CachedEmbedder(asked, Home(tmp_path)).passages(texts).computed == 0
    assert first.computed == 10
    assert np.array_equal(first.vectors[0], first.vectors[10])


def test_a_large_batch_is_sent_as_one(tmp_path: Path) -> None:
    with FakeOpenAI(respond=embeddings) as server:
        asked = recipe(api={"base": server.api_base}, batch_size=300)
        CachedEmbedder(asked, Home(tmp_path)).passages([f"text {n}" for n in range(700)])
        assert sorted(len(request.body["input"]) for request in server.requests[1:]) == [100, 300, 300]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda received: embeddings(received, 16), "8 numbers then, 16 now"),
        (lambda received: embeddings(_upper(received)), "8 numbers then, 8 now, cosine"),
    ],
    ids=["other dimensions", "other weights"],
)
def test_another_model_behind_the_same_name_is_noticed(
    other: Callable[[Received], Scripted], reason: str, tmp_path: Path
) -> None:
    with FakeOpenAI(respond=embeddings) as server:
        asked = recipe(api={"base": server.api_base})
        before = CachedEmbedder(asked, Home(tmp_path)).passages(["one", "two"])
        server.respond = other
        again = CachedEmbedder(asked, Home(tmp_path))
        assert np.array_equal(again.passages(["one", "two"]).vectors, before.vectors), "asks for nothing"
        with pytest.raises(AssayError, match=f"{reason}.*is another one. Give it another name"):
            again.passages(["one", "three"])
        with pytest.raises(AssayError, match=reason):
            _ = CachedEmbedder(asked, Home(tmp_path)).embedder
        renamed = recipe(model="openai/other", api={"base": server.api_base})
        assert CachedEmbedder(renamed, Home(tmp_path)).passages(["one", "three"]).computed == 2


def _upper(received: Received) -> Received:
    """What stands for other weights: another vector for each text, of as many numbers."""
    texts = [text.upper() for text in received.body["input"]]
    return replace(received, body={**received.body, "input": texts})


def test_a_vector_that_is_no_number_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAI(respond=embeddings) as server:
        embedder = CachedEmbedder(recipe(api={"base": server.api_base}), Home(tmp_path))
        embedder.passages(["one"])
        bad = np.array([[1, np.nan]], np.float32)
        monkeypatch.setattr(type(embedder.embedder), "embed", lambda *_: bad)
        with pytest.raises(AssayError, match="openai/any: it gave a vector with a number that is not finite"):
            embedder.passages(["two"])
        assert embedder.passages(["one"]).computed == 0


def stage_over(home: Path, asked: EmbedderRecipe, *texts: str) -> tuple[Embeddings, BuildContext]:
    work = BuildContext(Home(home))
    rows: list[dict[str, object]] = [
        {"chunk_id": f"c{n}", "text": text, "prefix": ""} for n, text in enumerate(texts)
    ]
    write_parquet(frame(rows, CHUNKS), work.store.folder("chunks", "i") / "chunks.parquet")
    work.store.commit(Artifact("chunks", "c.t", "i", "v"))
    return Embeddings(Build(embedders={"e": asked}, indexes={"c.t.e": ("c", "t", "e")})), work


@pytest.mark.parametrize("flush", [2, 256])
def test_a_failure_keeps_what_was_finished_and_says_why(
    flush: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assay.assets.embedding.cached_embedder.FLUSH", flush)
    monkeypatch.setattr("rag_assay.assets.embedding.cached_embedder.STEP", 2)
    monkeypatch.setattr("rag_assay.assets.embedding.cached_embedder.AT_ONCE", 1)
    asked_for = -1  # the first is the probe

    def respond(received: Received) -> Scripted:
        nonlocal asked_for
        asked_for += 1
        return embeddings(received) if asked_for <= 2 else failure(401, "no such key")

    texts = [f"text {n}" for n in range(6)]
    with FakeOpenAI(respond=respond) as server:
        asked = recipe(api={"base": server.api_base}, batch_size=2)
        stage, work = stage_over(tmp_path, asked, *texts)
        outcome = build_key(stage, "c.t.e", work)
        assert outcome.artifact is None
        assert outcome.error is not None
        assert outcome.error.startswith("error: ")
        assert "no such key" in outcome.error
        asked_for = -10
        outcome = build_key(stage, "c.t.e", work)
    assert outcome.ok, outcome.error
    assert outcome.artifact is not None
    assert outcome.artifact.meta["embedded_now"] == 2, "four were kept"
    fit = outcome.checks[0]
    assert fit.passed
    assert "not counted" in fit.description, "said, not passed over"


def test_what_its_neighbours_have_finished_is_kept_though_a_request_fails(tmp_path: Path) -> None:
    def respond(received: Received) -> Scripted:
        if "text 2" in received.body["input"]:
            return Scripted(failure(400, "no such text").body, 400, delay=0.5)
        return embeddings(received)

    texts = [f"text {n}" for n in range(12)]
    with FakeOpenAI(respond=respond) as server:
        embedder = CachedEmbedder(recipe(api={"base": server.api_base}, batch_size=2), Home(tmp_path))
        with pytest.raises(AssayError, match="no such text"):
            embedder.passages(texts)
        server.respond = embeddings
        server.requests.clear()
        again = CachedEmbedder(recipe(api={"base": server.api_base}, batch_size=2), Home(tmp_path))
        assert again.passages(texts).computed == 2
    asked = [text for request in server.requests for text in request.body["input"]]
    assert len(asked) == 3
    assert {PROBE, "text 2"} <= set(asked)


@pytest.mark.models
def test_tokens_are_counted_by_the_tokenizer_that_is_named(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    weights(MINILM)
    with FakeOpenAI(respond=embeddings) as server:
        api = {"base": server.api_base, "tokenizer": MINILM}
        stage, work = stage_over(tmp_path, recipe(api=api, max_tokens=16), "word " * 20)
        outcome = build_key(stage, "c.t.e", work)
        assert outcome.error is not None
        assert "1 of 1 chunks" in outcome.error
        assert "(openai/any) reads" in outcome.error
        assert not server.requests
        cut = CachedEmbedder(recipe(api=api, max_tokens=16, overflow="truncate"), Home(tmp_path))
        cut.passages(["word " * 20])
        assert server.requests[-1].body["input"] == [" ".join(["word"] * 14)]


def test_what_changes_an_apis_vectors_changes_its_revision() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"dimensions": 256},
        {"base": "http://127.0.0.1:1/v1"},
    ]
    assert len({recipe(api=change).revision() for change in changes}) == 3
    same: list[dict[str, Any]] = [{"timeout": 5}, {"retries": 0}, {"budget_usd": 2}]
    assert {recipe(api=change).revision() for change in same} == {recipe(api={}).revision()}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"api": {}, "dtype": "bf16"}, "dtype: the server of an `api` decides that"),
        ({"api": {}, "revision": "a" * 40, "query_prompt": "q"}, "revision, query_prompt: the server"),
        ({"api": {}, "overflow": "truncate"}, "needs `api: {tokenizer: …}`"),
        ({"api": {"tokenizer": "nothing"}}, "unknown embedding model 'nothing'"),
        ({"api": {"url": "x"}}, "Extra inputs"),
        ({}, "is a model of the Hugging Face hub: give `revision`"),
        ({"model": MINILM, "query_prefix": "q", "query_prompt": "query"}, "query_prefix or query_prompt"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        recipe(**fields)


def test_a_prompt_is_read_from_the_models_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "query: ", "document": "passage: "}}'
    )
    asked = recipe(model=str(folder), query_prompt="query", passage_prompt="document")
    cached = CachedEmbedder(asked, Home(tmp_path))
    assert (cached.query_prefix, cached.passage_prefix) == ("query: ", "passage: ")
    assert model_prompts(tmp_path) == {}
    wrong = CachedEmbedder(asked.model_copy(update={"query_prompt": "ask"}), Home(tmp_path))
    with pytest.raises(InputError, match="query_prompt 'ask' is unknown; the model has document, query"):
        _ = wrong.query_prefix


def test_a_recipe_is_written_as_it_was_read() -> None:
    given = {"model": "intfloat/e5-small-v2", "revision": "b" * 40, "query_prefix": "query: "}
    made = recipe(**given)
    assert recipe(**made.model_dump()) == made
    assert recipe(**made.model_dump(mode="json")).weights_identity() == made.weights_identity()
    assert EmbedderRecipe(model="all-mpnet-base-v2", max_tokens=384).revision()
