from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.assets.chunking import Tools
from rag_assay.assets.chunking.document_chunks import chunk_documents
from rag_assay.assets.indexing import index_table
from rag_assay.assets.recipes.build_half import Chunking
from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import (
    Deduplicate,
    DocumentOrder,
    GroupByDocument,
    LostInTheMiddle,
    Neighbours,
    RecentFirst,
    TokenBudget,
    delivered_spans,
    merged,
    passages,
)
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import DOCUMENTS
from rag_assay.warehouse.spans import Span
from tests.fakes.indexing import HeldRows, applied, build_index, query

A = ("One two. ", "Three four. ", "Five six. ", "Seven eight. ", "Nine ten.")  # chunks of document a
B = ("Alpha beta gamma.", "Delta.")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    texts = [*A, *B]
    docs = ["a"] * 5 + ["b"] * 2
    starts = [sum(map(len, A[:n])) for n in range(5)] + [0, len(B[0]) + 1]
    ends = [start + len(text.rstrip()) for start, text in zip(starts, texts, strict=True)]
    columns = {
        **{"doc_id": docs, "ordinal": [*range(5), 0, 1], "gap": [" "] * 4 + ["", " ", ""]},
        **{"start": starts, "end": ends, "context_start": starts, "context_end": ends},
        **{"title": ["Report 2023"] * 5 + ["Report 2024"] * 2, "n_tokens": [3, 3, 3, 3, 2, 4, 2]},
        "published_at": ["2023-01-01"] * 5 + ["2024-01-01"] * 2,
    }
    return build_index(tmp_path_factory.mktemp("index"), [t.rstrip() for t in texts], columns=columns)


def ranking(*rows: int) -> Ranking:
    return Ranking(np.array(rows, np.int64), np.arange(len(rows), 0, -1).astype(np.float64))


def test_neighbours_are_delivered_once(index: OpenIndex) -> None:
    found = applied(Neighbours(n=1), ranking(1, 5), query("?"), index)
    assert found.rows.tolist() == [1, 5]
    assert passages(found, index) == ["One two. Three four. Five six.", "Alpha beta gamma. Delta."]
    # 3 and 1 share chunk 2, and 0 lies in what 1 brings: one passage, at the place of the best of them.
    found = applied(Neighbours(n=1), ranking(5, 3, 1, 0), query("?"), index)
    assert found.rows.tolist() == [5, 3]
    assert found.scores.tolist() == [4, 3]
    assert passages(found, index)[1] == "".join(A)


def test_two_neighbours_reach_to_the_ends(index: OpenIndex) -> None:
    found = applied(Neighbours(n=2), ranking(4, 6), query("?"), index)
    assert passages(found, index) == ["Five six. Seven eight. Nine ten.", "Alpha beta gamma. Delta."]


def test_a_span_that_holds_the_next_one_keeps_its_end(index: OpenIndex) -> None:
    spans = [Span("a", 10, 20), Span("a", 0, 40), Span("b", 15, 25), Span("b", 0, 17)]
    assert merged(spans, index) == {0: Span("a", 0, 40), 2: Span("b", 0, 25)}


def test_spans_that_touch_but_for_white_space_become_one(index: OpenIndex) -> None:
    found = applied(Neighbours(n=1), ranking(0, 3), query("?"), index)
    assert passages(found, index) == ["".join(A)]  # 0..1 and 2..4


def words_counted(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def budgeted(step: TokenBudget, given: Ranking, index: OpenIndex) -> list[int]:
    context = RetrievalContext(count=words_counted)
    return applied(step, given, query("?"), index, context).rows.tolist()


def test_a_budget_counts_the_text_that_is_delivered(index: OpenIndex) -> None:
    """Chunks of 2 words each, but for row 5 of 3 and row 6 of 1; their `n_tokens` are others."""
    assert budgeted(TokenBudget(tokens=4), ranking(0, 1, 2), index) == [0, 1]
    assert budgeted(TokenBudget(tokens=5), ranking(0, 1, 2), index) == [0, 1]
    assert budgeted(TokenBudget(tokens=5), ranking(0, 5, 6, 4), index) == [0, 5]
    assert budgeted(TokenBudget(tokens=4), ranking(0, 5, 6), index) == [0]
    assert budgeted(TokenBudget(tokens=4, skip=True), ranking(0, 5, 6), index) == [0, 6]
    assert budgeted(TokenBudget(tokens=1), ranking(0), index) == []
    wide = applied(Neighbours(n=1), ranking(0), query("?"), index)  # "One two. Three four."
    assert budgeted(TokenBudget(tokens=4), wide, index) == [0]
    assert budgeted(TokenBudget(tokens=3), wide, index) == []


def test_a_budget_without_a_tokenizer_is_no_guess(index: OpenIndex) -> None:
    with pytest.raises(ValueError, match="needs the tokenizer of the chunking"):
        applied(TokenBudget(tokens=4), ranking(0), query("?"), index)


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """Chunks of which 0 and 1 deliver one parent of 4 words, and 2 and 3 another."""
    columns = {
        **{"doc_id": ["a"] * 4, "ordinal": range(4), "start": [0, 8, 20, 30], "end": [7, 19, 29, 41]},
        **{"context_start": [0, 0, 20, 20], "context_end": [19, 19, 41, 41], "gap": [" "] * 3 + [""]},
    }
    texts = ("One two", "three four.", "Five six.", "seven eight")
    return build_index(tmp_path_factory.mktemp("parents"), texts, columns=columns)


def test_a_parent_that_several_chunks_share_is_paid_once(parents: OpenIndex) -> None:
    assert budgeted(TokenBudget(tokens=8), ranking(0, 1, 3), parents) == [0, 1, 3]
    assert budgeted(TokenBudget(tokens=7), ranking(0, 1, 3), parents) == [0, 1]


def test_a_parent_that_several_chunks_share_has_one_place_at_the_ends(parents: OpenIndex) -> None:
    """The second passage goes to the far end, though a worse chunk of it would have stood at the near one."""
    found = applied(LostInTheMiddle(), ranking(0, 2, 3, 1), query("?"), parents)
    assert found.rows.tolist() == [0, 2]
    assert passages(found, parents) == ["One two three four.", "Five six. seven eight"]
    assert [parents.passage(*span) for span in delivered_spans(found, parents)] == passages(found, parents)


PROSE = st.lists(
    st.sampled_from(
        ["Ferry", "quay.", "lamp,", "\n\n", "noon!", "漢字", "🛳️", "Straße", "  \t", "1987.", "naïve"]
    ),
    min_size=1,
    max_size=60,
).map(lambda words: unicodedata.normalize("NFC", " ".join(words)).strip())
CHUNKINGS: dict[str, dict[str, Any]] = {
    "windows": {"tokens": {"size": 8, "overlap": 0}},
    "overlapping windows": {"tokens": {"size": 8, "overlap": 5}},
    "parents": {"parent": {"size": 8, "overlap": 3, "parent_size": 20}},
    "sentence windows": {"sentence_window": {"neighbours": 1, "limit": 16}},
    "sections": {"structure": {"limit": 16, "prefix_heading": True, "overlap": 4}},
    "whole": {"document": {}},
}


@pytest.mark.models
@pytest.mark.parametrize("name", CHUNKINGS)
def test_neighbours_are_the_text_of_the_document_once(
    name: str, weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the chunking: what is delivered stands so in the document, and no character of it twice."""
    tokenizer = load_tokenizer(weights("all-MiniLM-L6-v2"))
    chunker = Chunking.model_validate(CHUNKINGS[name]).chunker

    @settings(max_examples=6, deadline=None, derandomize=True)  # each builds an index
    @given(texts=st.lists(PROSE.filter(bool), min_size=3, max_size=12), n=st.integers(1, 3), data=st.data())
    def holds(texts: list[str], n: int, data: st.DataObject) -> None:
        documents = {f"d{number}": text for number, text in enumerate(texts)}
        rows: list[dict[str, object]] = [
            {
                **{"doc_id": doc, "version": "1", "text": text, "metadata": "{}", "title": doc, "url": doc},
                "sections": [
                    {"heading": "Of ferries", "level": 1, "start": len(text) // 3, "end": len(text)}
                ],
            }
            for doc, text in documents.items()
        ]
        chunks = chunk_documents(frame(rows, DOCUMENTS), chunker, Tools(tokenizer))
        folder = tmp_path_factory.mktemp("index")
        index_table.build(folder, HeldRows(chunks, np.ones((len(chunks), 2), np.float32)))
        index = OpenIndex(folder)
        found = np.array(data.draw(st.lists(st.sampled_from(range(len(index))), min_size=1, unique=True)))
        given_ = Ranking(found, np.arange(len(found), 0, -1).astype(np.float64))
        wide = applied(Neighbours(n=n), given_, query("?"), index)
        held: set[tuple[str, int]] = set()
        for span, text in zip(delivered_spans(wide, index), passages(wide, index), strict=True):
            assert text == documents[span.doc_id][span.start : span.end]
            own = {(span.doc_id, at) for at in range(span.start, span.end)}
            assert not own & held, "a character comes twice"
            held |= own
        ordinals = {(row["doc_id"], row["ordinal"]): row for row in index.chunks.iter_rows(named=True)}
        for row in (index.chunks.row(int(at), named=True) for at in found):
            for beside in range(row["ordinal"] - n, row["ordinal"] + n + 1):
                if (neighbour := ordinals.get((row["doc_id"], beside))) is not None:
                    own = range(neighbour["context_start"], neighbour["context_end"])
                    assert {(row["doc_id"], at) for at in own} <= held, "a neighbour is missing"

    holds()


def test_equal_and_nearly_equal_texts(tmp_path: Path) -> None:
    index = build_index(
        tmp_path, ["The ferry leaves.", "the FERRY leaves", "The ferry leaves late.", "!", "?"]
    )
    everything = ranking(0, 1, 2, 3, 4)
    assert applied(Deduplicate(), everything, query("?"), index).rows.tolist() == [0, 2, 3, 4]
    assert applied(Deduplicate(jaccard=0.75), everything, query("?"), index).rows.tolist() == [
        0,
        3,
        4,
    ]  # 3 of 4
    assert applied(Deduplicate(jaccard=0.76), everything, query("?"), index).rows.tolist() == [0, 2, 3, 4]


def test_documents_by_the_sum_of_their_scores(index: OpenIndex) -> None:
    found = applied(GroupByDocument(by="sum"), ranking(5, 0, 3, 6), query("?"), index)  # b: 4 + 1, a: 3 + 2
    assert found.rows.tolist() == [5, 6, 0, 3]
    assert applied(GroupByDocument(by="sum"), ranking(5, 0, 3), query("?"), index).rows.tolist() == [
        5,
        0,
        3,
    ]  # 3 and 3
    assert applied(GroupByDocument(by="sum"), ranking(5, 0, 3, 1), query("?"), index).rows.tolist() == [
        0,
        3,
        1,
        5,
    ]


def test_documents_by_their_best_passage(index: OpenIndex) -> None:
    assert applied(GroupByDocument(), ranking(5, 0, 3, 6), query("?"), index).rows.tolist() == [5, 6, 0, 3]
    found = applied(GroupByDocument(), ranking(5, 0, 3, 1), query("?"), index)
    assert found.rows.tolist() == [5, 0, 3, 1], "though the sum of the other document is larger"
    assert applied(GroupByDocument(), ranking(0, 5, 1), query("?"), index).rows.tolist() == [0, 1, 5]


def test_a_share_of_words_is_reached_exactly(tmp_path: Path) -> None:
    """7 of 25 words are 0.28 of them, though 0.28 * 25 is a little more than 7 as floats."""
    one, other = "a b c d e f g " + "h i j k l m n o p", "a b c d e f g " + "q r s t u v w x y"
    index = build_index(tmp_path, [one, other])
    assert applied(Deduplicate(jaccard=0.28), ranking(0, 1), query("?"), index).rows.tolist() == [0]
    assert applied(Deduplicate(jaccard=0.2801), ranking(0, 1), query("?"), index).rows.tolist() == [0, 1]


def test_equal_sums_are_equal_whatever_their_floats(index: OpenIndex) -> None:
    given_ = Ranking(np.array([5, 0, 1]), np.array([0.3, 0.2, 0.1]))  # b: 0.3, a: 0.2 + 0.1
    assert applied(GroupByDocument(by="sum"), given_, query("?"), index).rows.tolist() == [5, 0, 1]


def test_documents_in_their_own_order(index: OpenIndex) -> None:
    assert applied(DocumentOrder(), ranking(3, 6, 0, 5), query("?"), index).rows.tolist() == [0, 3, 5, 6]


def test_the_best_at_both_ends(index: OpenIndex) -> None:
    found = applied(LostInTheMiddle(), ranking(0, 1, 2, 3, 4, 5), query("?"), index)
    assert found.rows.tolist() == [0, 2, 4, 5, 3, 1]
    assert found.scores.tolist() == [6, 4, 2, 1, 3, 5]
    assert applied(LostInTheMiddle(), ranking(0, 1, 2), query("?"), index).rows.tolist() == [0, 2, 1]


def test_the_newer_of_like_titles_comes_first(index: OpenIndex) -> None:
    assert applied(RecentFirst(), ranking(0, 5, 1), query("?"), index).rows.tolist() == [5, 0, 1]
    assert applied(RecentFirst(ratio=95), ranking(0, 5, 1), query("?"), index).rows.tolist() == [0, 5, 1]
