from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets import chunks as chunks_stage
from assets.chunking import Section, Tools
from assets.chunking.document import WholeDocument
from assets.chunking.run import chunk_documents, chunk_id, heading_path
from assets.chunking.tokens import TokenWindows
from assets.chunks import Chunks, corpus_documents, corpus_duplicates
from assets.embedding.tokenizer import Tokenizer, load_tokenizer
from assets.merging import Build
from assets.recipes import Chunking, Corpus
from assets.stage import Work, build_key
from warehouse.artifacts import Artifact
from warehouse.errors import AssayError
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.paths import Home
from warehouse.schemas import CHUNKS, DOCUMENTS

pytestmark = pytest.mark.models
TEXT = "Ferries leave hourly. They carry nineteen cars.\n\nTickets are sold on board, for cash or by card."


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def document(doc_id: str, text: str, version: str = "v1", **more: Any) -> dict[str, object]:
    return {"doc_id": doc_id, "version": version, "text": text, **more}


def test_chunks_are_stretches_of_their_documents(tokenizer: Tokenizer) -> None:
    documents = frame([document("b", TEXT), document("a", f"Ärger: {TEXT}"), document("c", " ")], DOCUMENTS)
    chunks = chunk_documents(documents, TokenWindows(size=8, overlap=2), Tools(tokenizer))
    assert chunks.columns == list(CHUNKS)
    texts = dict(documents.select("doc_id", "text").iter_rows())
    for row in chunks.iter_rows(named=True):
        assert texts[row["doc_id"]][row["start"] : row["end"]] == row["text"]
        assert tokenizer.count([row["text"]]) == [row["n_tokens"]]
    of_b = chunks.filter(chunks["doc_id"] == "b")
    assert of_b["ordinal"].to_list() == list(range(len(of_b)))
    assert chunks["doc_id"].unique(maintain_order=True).to_list() == ["a", "b"], "a blank one has no chunks"


def test_ids_are_stable_and_differ_for_equal_texts_of_different_documents(tokenizer: Tokenizer) -> None:
    def ids(*documents: dict[str, object]) -> list[str]:
        return chunk_documents(frame(list(documents), DOCUMENTS), WholeDocument(), Tools(tokenizer))[
            "chunk_id"
        ].to_list()

    one = ids(document("a", TEXT), document("b", TEXT))
    assert len(set(one)) == 2, "two documents with the same text are two documents"
    assert ids(document("b", TEXT), document("a", TEXT)) == one, "whatever their order"
    assert ids(document("a", TEXT)) == one[:1]
    assert ids(document("a", TEXT, version="v2")) == one[:1], (
        "another date or title leaves the chunk as it is"
    )
    assert ids(document("a", TEXT + " More.")) != one[:1]
    assert one[0] == chunk_id("a", 0, TEXT)


SECTIONS = (
    Section("Article 2", 2, 50, 100),
    Section("Title I", 1, 0, 100),
    Section("Article 1", 2, 10, 50),
)


@pytest.mark.parametrize(
    ("position", "path"),
    [
        (0, ["Title I"]),
        (10, ["Title I", "Article 1"]),
        (49, ["Title I", "Article 1"]),
        (50, ["Title I", "Article 2"]),
        (100, []),
    ],
)
def test_the_headings_above_a_position(position: int, path: list[str]) -> None:
    assert heading_path(SECTIONS, position) == path


def test_a_document_without_sections_has_no_headings() -> None:
    assert heading_path((), 3) == []


def stored(work: Work, identity: str, *documents: dict[str, object]) -> Artifact:
    folder = work.store.folder("documents", identity)
    write_parquet(frame(list(documents), DOCUMENTS), folder / "documents.parquet")
    return work.store.commit(Artifact("documents", identity, identity, "v"))


def test_a_corpus_refuses_a_document_that_comes_twice(tmp_path: Path) -> None:
    work = Work(Home(tmp_path))
    one = stored(work, "one", document("a", TEXT), document("b", TEXT))
    other = stored(work, "other", document("b", TEXT, url="https://b.example/"))
    assert corpus_documents([one], work)["doc_id"].to_list() == ["a", "b"]
    with pytest.raises(AssayError, match=r"the document id b .* comes twice"):
        corpus_documents([one, other], work)


def test_copies_are_found_once_for_the_same_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(Home(tmp_path))
    one = stored(work, "one", document("a", TEXT), document("b", TEXT, published_at="2024-05-01"))
    documents = corpus_documents([one], work)
    found = corpus_duplicates([one], documents, 0.9, work)
    assert found.select("doc_id", "duplicate_of").rows() == [("a", "b")]
    monkeypatch.setattr(chunks_stage, "find_duplicates", None)  # a second search would fail
    assert corpus_duplicates([one], documents, 0.9, work).equals(found)


@pytest.mark.parametrize(("near_duplicates", "cut"), [(None, 3), (0.9, 2)])
def test_copies_are_cut_unless_the_corpus_leaves_them_out(
    tmp_path: Path, weights: Callable[[str], Path], near_duplicates: float | None, cut: int
) -> None:
    weights("all-MiniLM-L6-v2")
    work = Work(Home(tmp_path))
    stored(work, "docs", document("a", TEXT), document("b", TEXT), document("c", f"Other words. {TEXT[:40]}"))
    corpus = Corpus(name="town", sources=("docs",), near_duplicates=near_duplicates)
    chunking = Chunking.model_validate({"document": {}})
    plan = Build(corpora={"town": corpus}, chunkings={"whole": chunking}, chunk_sets={"k": ("town", "whole")})
    outcome = build_key(Chunks(plan), "k", work)
    assert outcome.artifact, outcome.error
    folder = work.store.folder("chunks", outcome.artifact.identity)
    assert len(read_parquet(folder / "chunks.parquet")) == outcome.artifact.meta["documents"] == cut
    told = {"exact": 1, "near": 0, "left_out": 3 - cut}
    assert outcome.artifact.meta["duplicates"] == told
    assert read_parquet(folder / "duplicates.parquet").select("doc_id", "duplicate_of").rows() == [("b", "a")]


def test_the_recipe_of_a_corpus_counts_only_where_it_leaves_copies_out() -> None:
    def recipes(near_duplicates: float | None) -> dict[str, str]:
        return Corpus(name="town", sources=("docs",), near_duplicates=near_duplicates).recipes()

    assert recipes(None) == {}
    assert set(recipes(0.9)) == {"corpus.town"}
    assert recipes(0.9) != recipes(0.8)
    for wrong in (0.0, -0.5, 1.1):
        with pytest.raises(ValueError, match="near_duplicates"):
            recipes(wrong)
