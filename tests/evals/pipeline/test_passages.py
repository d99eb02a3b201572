"""Passages are what was delivered, with the facts of their documents."""

from __future__ import annotations

from pathlib import Path

from rag_assay.evals.pipeline.passages import passage_of
from rag_assay.evals.retrieval.index import OpenIndex
from tests.fakes.indexing import build_index


def test_a_passage_says_where_it_is_from(tmp_path: Path) -> None:
    index: OpenIndex = build_index(tmp_path, ["The ferry leaves at noon.", "Tickets are sold on the quay."])
    row = index.chunks.row(1, named=True)
    found = passage_of(index, row["chunk_id"], row["start"], row["end"], 0.5)
    assert (found.text, found.chunk, found.document) == (row["text"], row["chunk_id"], row["doc_id"])
    assert (found.title, found.url, found.date) == (row["title"] or None, row["url"], row["published_at"])
    assert (found.start, found.end, found.score) == (row["start"], row["end"], 0.5)
    part = passage_of(index, row["chunk_id"], row["start"] + 4, row["end"], 0.5)
    assert part.text == row["text"][4:]
