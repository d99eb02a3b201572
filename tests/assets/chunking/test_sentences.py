"""Chunks of sentences: packed, single with neighbours, and small ones within parents."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.assets.chunking import Chunker, ChunkerInput, ChunkSpan, Tools
from rag_assay.assets.chunking.parent import Parent
from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.assets.chunking.sentence_window import SentenceWindow
from rag_assay.assets.chunking.sentences import SentenceChunker
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.models
TEXT = "One two three. Four five six. Seven eight. Nine ten eleven twelve. Thirteen."  # 4, 4, 3, 5, 2 tokens
SEVENS = "A ferry left at ten today. The ferry came at six today."


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def spans_of(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[ChunkSpan]:
    return chunker.split(ChunkerInput(text), Tools(tokenizer))


def cut(chunker: Chunker, text: str, tokenizer: Tokenizer) -> list[str]:
    return [text[span.start : span.end] for span in spans_of(chunker, text, tokenizer)]


def test_sentences_are_packed_up_to_the_size(tokenizer: Tokenizer) -> None:
    assert cut(SentenceChunker(size=11, overlap=0), TEXT, tokenizer) == [
        "One two three. Four five six. Seven eight.",
        "Nine ten eleven twelve. Thirteen.",
    ]


def test_neighbours_share_a_sentence_where_the_next_one_fits_beside_it(tokenizer: Tokenizer) -> None:
    assert cut(SentenceChunker(size=8, overlap=1), TEXT, tokenizer) == [
        "One two three. Four five six.",
        "Four five six. Seven eight.",
        "Seven eight. Nine ten eleven twelve.",
        "Nine ten eleven twelve. Thirteen.",
    ]
    assert cut(SentenceChunker(size=8, overlap=0), SEVENS, tokenizer) == cut(
        SentenceChunker(size=8, overlap=1), SEVENS, tokenizer
    ), "7 and 7 tokens never stand together"


sentence = st.lists(
    st.sampled_from(["harbour", "ferry", "Übertragungsnetz", "a"]), min_size=1, max_size=6
).map(lambda words: " ".join(words).capitalize() + ".")


@settings(max_examples=100, deadline=None)
@given(st.lists(sentence, max_size=30).map(" ".join), st.integers(0, 4))
def test_any_run_of_sentences_that_is_shared_stands_in_one_chunk(
    tokenizer: Tokenizer, text: str, overlap: int
) -> None:
    """Each `overlap + 1` sentences in a row that fit into a chunk lie in one."""
    size = 40
    places = [
        (span.start, span.end)
        for span in spans_of(SentenceChunker(size=size, overlap=overlap), text, tokenizer)
    ]
    sentences = sentence_places(text)
    for first in range(len(sentences) - overlap):
        start, end = sentences[first][0], sentences[first + overlap][1]
        if tokenizer.count([text[start:end]])[0] <= size:
            assert any(begin <= start and end <= stop for begin, stop in places), text[start:end]
    for left, right in pairwise(places):
        shared = sum(right[0] <= start and end <= left[1] for start, end in sentences)
        assert shared <= overlap


def test_a_long_sentence_is_cut_and_its_parts_are_shared(tokenizer: Tokenizer) -> None:
    text = " ".join(f"word{number}" for number in range(60)) + "."
    whole = cut(SentenceChunker(size=32, overlap=0), text, tokenizer)
    assert "".join(whole).replace(" ", "") == text.replace(" ", "")
    spans = spans_of(SentenceChunker(size=32, overlap=1), text, tokenizer)
    assert all(right.start < left.end for left, right in pairwise(spans))


def test_a_sentence_is_delivered_with_its_neighbours(tokenizer: Tokenizer) -> None:
    spans = spans_of(SentenceWindow(neighbours=1), TEXT, tokenizer)
    contexts = [TEXT[slice(*span.context)] for span in spans if span.context]
    assert contexts == [
        "One two three. Four five six.",
        "One two three. Four five six. Seven eight.",
        "Four five six. Seven eight. Nine ten eleven twelve.",
        "Seven eight. Nine ten eleven twelve. Thirteen.",
        "Nine ten eleven twelve. Thirteen.",
    ]
    assert TEXT[spans[0].start : spans[0].end] == "One two three."


def test_a_sentence_that_the_embedder_cannot_read_is_cut(tokenizer: Tokenizer) -> None:
    text = "word " * 300 + "end."
    spans = spans_of(SentenceWindow(limit=64), text, tokenizer)
    assert max(span.n_tokens for span in spans) == 62, "and two special tokens"
    assert len(spans) == 5


PARAGRAPHS = "\n\n".join(" ".join(f"p{p}w{w}" for w in range(20)) for p in range(6))  # of some 100 tokens


def test_children_lie_in_parents_that_share_nothing(tokenizer: Tokenizer) -> None:
    chunker = Parent(size=32, overlap=8, parent_size=256)
    spans = spans_of(chunker, PARAGRAPHS, tokenizer)
    parents = sorted({span.context for span in spans if span.context})
    assert len(parents) > 1
    assert all(left[1] <= right[0] for left, right in pairwise(parents))
    for start, end in parents:
        assert PARAGRAPHS[start:end].startswith("p"), "cut between paragraphs"
        assert tokenizer.count([PARAGRAPHS[start:end]])[0] <= 256
        children = [span for span in spans if span.context == (start, end)]
        assert (children[0].start, children[-1].end) == (start, end)
        for left, right in pairwise(children):
            assert tokenizer.count([PARAGRAPHS[right.start : left.end]])[0] >= 8
    assert sum(span.context is None for span in spans) == 0


@pytest.mark.parametrize(
    ("chunker", "parameters", "message"),
    [
        (SentenceChunker, {"size": 4}, "greater than or equal to 8"),
        (SentenceChunker, {"overlap": -1}, "greater than or equal to 0"),
        (SentenceWindow, {"neighbours": -1}, "greater than or equal to 0"),
        (SentenceWindow, {"limit": 8}, "greater than or equal to 16"),
        (Parent, {"size": 64, "overlap": 64}, "overlap (64) must be smaller than size (64)"),
        (Parent, {"size": 64, "parent_size": 64}, "parent_size (64) must be larger than size (64)"),
    ],
)
def test_what_is_wrong_is_said(chunker: type[Chunker], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        chunker(**parameters)
    assert message in str(caught.value)
