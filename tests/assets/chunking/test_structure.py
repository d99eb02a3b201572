"""Chunks along a document's own sections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.chunks import acts, carried_articles
from rag_assay.assets.chunking import ChunkerInput, ChunkSpan, Section, Tools
from rag_assay.assets.chunking.document_chunks import chunk_documents
from rag_assay.assets.chunking.recursive import recursive_spans
from rag_assay.assets.chunking.sections import SectionTree
from rag_assay.assets.chunking.structure import Structure, heading_prefix
from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
pytestmark = pytest.mark.models

PARTS = [
    "An Act on ferries.\n\n",
    "CHAPTER I General\n",
    "Article 1\nFerries carry cars.\n",
    "Article 2\nPilots have papers.\n\n",
    "CHAPTER II Fees\n",
    "Article 3\n" + "Each car pays a fee. " * 20 + "\n",
    "Done at the harbour.",
]
TEXT = "".join(PARTS)
AT = [sum(map(len, PARTS[:number])) for number in range(len(PARTS) + 1)]
SECTIONS = (
    Section("Chapter I – General", 1, AT[1], AT[4]),
    Section("Article 1", 2, AT[2], AT[3]),
    Section("Article 2", 2, AT[3], AT[4]),
    Section("Chapter II – Fees", 1, AT[4], AT[6]),
    Section("Article 3", 2, AT[5], AT[6]),
)


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


@pytest.fixture(scope="module")
def directives() -> pl.DataFrame:
    return acts(DATA, every=4)


def cut(tokenizer: Tokenizer, sections: tuple[Section, ...] = SECTIONS, **parameters: Any) -> list[ChunkSpan]:
    return Structure(**parameters).split(ChunkerInput(TEXT, sections), Tools(tokenizer))


def texts(spans: list[ChunkSpan]) -> list[str]:
    return [TEXT[span.start : span.end] for span in spans]


def test_each_section_is_a_chunk(tokenizer: Tokenizer) -> None:
    assert texts(cut(tokenizer)) == [part.strip() for part in PARTS]


def test_a_long_section_is_cut_within(tokenizer: Tokenizer) -> None:
    spans = cut(tokenizer, limit=32)
    within = [span for span in spans if AT[5] <= span.start < AT[6]]
    assert len(within) == 5
    assert all(span.end <= AT[6] for span in within)
    assert max(span.n_tokens for span in spans) <= 30, "and two special tokens"
    overlapping = cut(tokenizer, limit=32, overlap=12)
    within = [span for span in overlapping if AT[5] <= span.start < AT[6]]
    assert all(right.start < left.end for left, right in pairwise(within) if left.start > AT[5])


def test_the_headings_are_embedded_with_the_text_and_counted(tokenizer: Tokenizer) -> None:
    spans = cut(tokenizer, limit=48, prefix_heading=True)
    prefixes = {text[:9]: span.prefix for span, text in zip(spans, texts(spans), strict=True)}
    assert prefixes["An Act on"] == prefixes["Done at t"] == ""
    assert prefixes["Article 1"] == "Chapter I – General > Article 1\n"
    assert {span.prefix for span in spans if AT[5] <= span.start < AT[6]} == {
        "Chapter II – Fees > Article 3\n"
    }
    for span, text in zip(spans, texts(spans), strict=True):
        assert tokenizer.count([span.prefix + text]) == [span.n_tokens]
        assert span.n_tokens <= 46


def test_the_outermost_headings_give_way(tokenizer: Tokenizer) -> None:
    path = ["Title one", "Chapter  two", "Article 3"]
    assert heading_prefix(path, tokenizer, 8) == ("Title one > Chapter two > Article 3\n", 8)
    assert heading_prefix(path, tokenizer, 7) == ("Chapter two > Article 3\n", 5)
    assert heading_prefix(["Article 3 on and on"], tokenizer, 3) == ("Article 3 on\n", 3)
    assert heading_prefix(["", " \n"], tokenizer, 3) == ("", 0)


def test_tiny_neighbours_are_joined_only_when_asked(tokenizer: Tokenizer) -> None:
    joined = cut(tokenizer, merge_below=10, prefix_heading=True)
    assert (
        texts(joined)
        == [
            PARTS[0].strip(),
            "".join(PARTS[1:4]).strip(),  # 3 + 6 tokens are still fewer than ten, so 6 more come
            *(
                part.strip() for part in PARTS[4:]
            ),  # 122 tokens are too many to be joined with the 3 before them
        ]
    )
    assert joined[1].prefix == "Chapter I – General\n", "the headings that they share"
    assert texts(cut(tokenizer, merge_below=4))[1:3] == [part.strip() for part in PARTS[1:3]]


def test_sections_of_two_parents_are_never_joined(tokenizer: Tokenizer) -> None:
    for span in cut(tokenizer, limit=256, merge_below=256):
        inside = [s for s in SECTIONS if s.level == 1 and s.start < span.end and span.start < s.end]
        assert len(inside) <= 1


def test_a_document_without_sections_is_cut_recursively(tokenizer: Tokenizer) -> None:
    assert cut(tokenizer, (), limit=34, overlap=9, prefix_heading=True) == recursive_spans(
        TEXT, tokenizer, 32, 9
    )


section = st.builds(
    Section,
    st.sampled_from(["", "A", "Title " * 30, "Über\n uns"]),
    st.integers(1, 4),
    st.integers(-3, 90),
    st.integers(-3, 90),
)


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.sampled_from("abc1.- \nÜ中😀"), max_size=90),
    st.lists(section, max_size=8).map(tuple),
    st.integers(0, 16),
)
def test_sections_may_lie_anyhow(
    tokenizer: Tokenizer, text: str, sections: tuple[Section, ...], merge_below: int
) -> None:
    """Sections that cross, reach beyond the text or part words break no promise."""
    chunker = Structure(limit=16, prefix_heading=True, merge_below=merge_below)
    spans = chunker.split(ChunkerInput(text, sections), Tools(tokenizer))
    ends = [(0, 0), *((span.start, span.end) for span in spans), (len(text), len(text))]
    assert not any(text[end:begin].strip() for (_, end), (begin, _) in pairwise(ends))
    alone = tokenizer.count([span.prefix + text[span.start : span.end] for span in spans])
    assert alone == [span.n_tokens for span in spans]
    assert max(alone, default=0) <= 14


@given(st.lists(section, max_size=8), st.integers(0, 90), st.integers(1, 80))
def test_headings_are_those_of_the_sections_around_a_position(
    sections: list[Section], position: int, length: int
) -> None:
    around = [s for s in sections if 0 <= s.start <= position < min(s.end, length)]
    expected = [s.heading for s in sorted(around, key=lambda s: s.level)]
    assert SectionTree(sections, length).headings(position) == (expected if position < length else [])


@pytest.mark.skipif(not (DATA / "eurlex-energy").is_dir(), reason="shared/data/eurlex-energy is not there")
@pytest.mark.parametrize("parameters", [{"limit": 256}, {"limit": 256, "prefix_heading": True}])
def test_every_chunk_of_an_article_carries_it(
    parameters: dict[str, Any], directives: pl.DataFrame, tokenizer: Tokenizer
) -> None:
    chunks = chunk_documents(directives, Structure(**parameters), Tools(tokenizer))
    inside, carrying = carried_articles(directives, chunks)
    assert inside > 700
    assert carrying == inside
    shifted = chunks.with_columns(heading_path=chunks["heading_path"].shift(1))
    shifted = shifted.filter(pl.col("heading_path").is_not_null())
    assert carried_articles(directives, shifted)[1] < inside - 100, "headings of another chunk are noticed"
    if parameters.get("prefix_heading"):
        paths = chunks.filter(pl.col("heading_path").list.len() > 0).select("heading_path", "prefix").rows()
        assert all(path[-1].split()[0] in prefix for path, prefix in paths)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": 8}, "greater than or equal to 16"),
        ({"limit": 64, "overlap": 32}, "overlap (32) must be smaller than half of limit (64)"),
        ({"limit": 64, "merge_below": 65}, "merge_below (65) must not be larger than limit (64)"),
    ],
)
def test_what_is_wrong_is_said(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Structure(**parameters)
    assert message in str(caught.value)
