from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets.chunking.document import WholeDocument
from assets.chunking.run import chunk_documents, chunk_id, heading_path
from assets.chunking.tokens import TokenWindows
from assets.chunks import corpus_documents
from assets.embedding.tokenizer import Tokenizer, load_tokenizer
from assets.stage import Work
from warehouse.artifacts import Artifact
from warehouse.errors import AssayError
from warehouse.parquet import frame, write_parquet
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
    chunks = chunk_documents(documents, TokenWindows(size=8, overlap=2), tokenizer)
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
        return chunk_documents(frame(list(documents), DOCUMENTS), WholeDocument(), tokenizer)[
            "chunk_id"
        ].to_list()

    one = ids(document("a", TEXT), document("b", TEXT))
    assert len(set(one)) == 2, "two documents with the same text are two documents"
    assert ids(document("b", TEXT), document("a", TEXT)) == one, "whatever their order"
    assert ids(document("a", TEXT)) == one[:1]
    assert ids(document("a", TEXT, version="v2")) != one[:1]
    assert one[0] == chunk_id("a", "v1", 0, len(TEXT))


SECTIONS: list[dict[str, object]] = [
    {"heading": "Article 2", "level": 2, "start": 50, "end": 100},
    {"heading": "Title I", "level": 1, "start": 0, "end": 100},
    {"heading": "Article 1", "level": 2, "start": 10, "end": 50},
]


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
    assert heading_path(None, 3) == heading_path([], 3) == []


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
