"""What a run opens and loads, it opens and loads once, and closes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline import run_resources
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from tests.fakes.indexing import build_index

MINILM = EmbedderRecipe(model="all-MiniLM-L6-v2")
E5 = EmbedderRecipe(model="all-MiniLM-L6-v2", query_prefix="query: ")


def artifact(work: BuildContext, identity: str, text: str) -> Artifact:
    build_index(work.store.folder("indexes", identity), [text])
    return Artifact("indexes", identity, identity, "v")


def test_each_thing_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, other = BuildContext(Home(tmp_path)), BuildContext(Home(tmp_path))
    first, second = artifact(work, "a" * 20, "a ferry"), artifact(work, "b" * 20, "a quay")
    shared = work.resource(RunResources)
    assert shared.index(first) is shared.index(first)
    assert shared.index(first).lexical.words == ["a", "ferry"]
    assert shared.index(second).lexical.words == ["a", "quay"]
    assert other.resource(RunResources).index(first) is not shared.index(first)
    assert shared.embedder(MINILM) is shared.embedder(MINILM) is not shared.embedder(E5)
    assert shared.text_embedder(MINILM) is shared.text_embedder(MINILM) is not shared.text_embedder(E5)
    asked: list[list[str]] = []
    monkeypatch.setattr(run_resources, "embed_queries", lambda texts, *_: asked.append(texts))
    for _ in range(2):
        shared.query_vectors(["who?"], MINILM)
        shared.query_vectors(["where?"], MINILM)
        shared.query_vectors(["who?"], E5)
    assert asked == [["who?"], ["where?"], ["who?"]]


def test_rankings_are_remembered_for_one_index_and_embedder(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    first, second = artifact(work, "a" * 20, "a ferry"), artifact(work, "b" * 20, "a quay")
    shared = work.resource(RunResources)

    def memory(index: Artifact, recipe: EmbedderRecipe) -> object:
        return shared.retrieval(index.identity, recipe, "all-MiniLM-L6-v2", Budget(None)).memory

    assert memory(first, MINILM) is memory(first, MINILM)
    assert len({id(one) for one in (memory(first, MINILM), memory(first, E5), memory(second, MINILM))}) == 3


def test_gateways_of_a_budget_are_closed_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []

    def close(gateway: Gateway) -> None:
        closed.append(gateway)

    monkeypatch.setattr(Gateway, "close", close)
    work, budget = BuildContext(Home(tmp_path)), Budget(1.0)
    shared = work.resource(RunResources)
    own, free = shared.gateway(budget), shared.gateway(Budget(None))
    assert shared.gateway(budget) is own is not free
    assert not closed
    work.close()
    work.close()
    assert closed == [own, free]
