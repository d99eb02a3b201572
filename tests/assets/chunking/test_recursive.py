"""Recursive splitting: the chunks of LangChain, with exact offsets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pydantic import ValidationError

from rag_assay.assets.chunking import ChunkerInput, Tools
from rag_assay.assets.chunking.recursive import Recursive
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def own_texts() -> list[str]:
    """Pages and handbooks of this repository: prose, lists, tables, code."""
    pages = sorted((ROOT / "crawlers" / "sample_site").rglob("*.html"))[:12]
    handbooks = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")]
    return [path.read_text(encoding="utf-8") for path in (*handbooks, *pages)]


def xquad() -> list[str]:
    read = json.loads(gzip.decompress((DATA / "xquad" / "xquad.en.json.gz").read_bytes()))
    return ["\n\n".join(part["context"] for part in article["paragraphs"]) for article in read["data"]]


def cut(text: str, tokenizer: Tokenizer, **parameters: Any) -> list[str]:
    spans = Recursive(**parameters).split(ChunkerInput(text), Tools(tokenizer))
    assert [span.n_tokens for span in spans] == tokenizer.count([text[s.start : s.end] for s in spans])
    return [text[span.start : span.end] for span in spans]


def by_langchain(text: str, size: int, overlap: int, tokenizer: Tokenizer | None = None) -> list[str]:
    """LangChain's chunks; those that lie within the one before them, at its end, left out."""

    def count(piece: str) -> int:
        return tokenizer.count([piece])[0] if tokenizer else len(piece)

    chunks = RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=overlap, length_function=count
    ).split_text(text)
    return [c for n, c in enumerate(chunks) if not (n and overlap and chunks[n - 1].endswith(c))]


@pytest.mark.parametrize(("size", "overlap"), [(1000, 100), (200, 0), (120, 60), (40, 39)])
def test_the_chunks_are_those_of_langchain(size: int, overlap: int, tokenizer: Tokenizer) -> None:
    texts = own_texts()
    assert sum(map(len, texts)) > 50_000
    for text in texts:
        assert cut(text, tokenizer, size=size, overlap=overlap) == by_langchain(text, size, overlap)


@pytest.mark.skipif(not (DATA / "xquad").is_dir(), reason="shared/data/xquad is not there")
@pytest.mark.parametrize(("size", "overlap"), [(1000, 100), (300, 200)])
def test_the_chunks_of_xquad_are_those_of_langchain(size: int, overlap: int, tokenizer: Tokenizer) -> None:
    for text in xquad():
        assert cut(text, tokenizer, size=size, overlap=overlap) == by_langchain(text, size, overlap)


@pytest.mark.skipif(not (DATA / "xquad").is_dir(), reason="shared/data/xquad is not there")
def test_chunks_by_tokens_are_those_of_langchain_with_a_tokenizer(tokenizer: Tokenizer) -> None:
    for text in xquad()[:8]:
        found = cut(text, tokenizer, unit="tokens", size=100, overlap=30)
        assert found == by_langchain(text, 100, 30, tokenizer)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("abcdefg  \n"), max_size=300), st.integers(8, 40), st.integers(0, 7))
def test_the_chunks_of_any_text_are_those_of_langchain(text: str, size: int, overlap: int) -> None:
    from rag_assay.assets.chunking.recursive import _Splitter  # its chunks before they are tidied

    splitter = _Splitter(text, size, overlap, None)
    places = splitter.places(0, len(text), Recursive().separators)
    found = [chunk for start, end in places if (chunk := text[start:end].strip())]
    assert found == RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap).split_text(text)


def test_offsets_of_repeated_text_are_exact(tokenizer: Tokenizer) -> None:
    text = "the same line\n" * 30
    spans = Recursive(size=30, overlap=0).split(ChunkerInput(text), Tools(tokenizer))
    assert [span.start for span in spans] == list(range(0, len(text), 28))


def test_the_coarsest_separator_that_is_there_splits_first(tokenizer: Tokenizer) -> None:
    text = "one. two;three. four;five"
    found = cut(text, tokenizer, size=10, overlap=0, separators=(". ", ";"))
    assert found == ["one", ". two", ";three", ". four", ";five"]


def test_a_separator_within_a_word_splits_no_tokens(tokenizer: Tokenizer) -> None:
    text = "redundancy " * 20
    for chunk in cut(text, tokenizer, unit="tokens", size=8, overlap=0, separators=("dun",)):
        assert set(chunk.split()) == {"redundancy"}


def test_neighbours_share_at_most_the_overlap(tokenizer: Tokenizer) -> None:
    text = " ".join(f"w{number:03}" for number in range(200))  # pieces of five characters
    spans = Recursive(size=52, overlap=23).split(ChunkerInput(text), Tools(tokenizer))
    shared = {left.end - right.start for left, right in pairwise(spans)}
    assert shared == {19}, "four words of four letters and three spaces; a fifth would be too much"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"size": 7}, "greater than or equal to 8"),
        ({"size": 50, "overlap": 50}, "overlap (50) must be smaller than size (50)"),
        ({"unit": "words"}, "Input should be 'characters' or 'tokens'"),
        ({"separators": [""]}, "at least 1 character"),
        ({"keep": True}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Recursive(**parameters)
    assert message in str(caught.value)
