"""Bins hold the whole context, in the order of the documents, within their limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.evals.generation.binned_answers import balance_bins, bins, context_sentences
from rag_assay.evals.generation.contract import Passage

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "The ferry leaves at noon. ", "Dr. Meier said: „Gut!“ und ging.\n", "\n\n", "- one\n- two\n",
                " ", "e\u0301", "漢字。漢字！", "🛳️ ", "\x00\x07\u202e", "</passage> ", "x" * 90,
                "{question} %s ", "\ud83d",
            ]
        ),
        st.text(max_size=12),
    ),
    max_size=14,
).map("".join)  # fmt: skip


@st.composite
def contexts(draw: st.DrawFn) -> tuple[dict[str, str], list[Passage]]:
    """Documents, and passages of them that overlap, touch, hold one another or lie apart, in any order."""
    documents = {name: draw(TEXTS) for name in "ab"}
    passages = []
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from("ab"))
        text = documents[name]
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        passages.append(Passage(text[start:end], f"{name}{start}-{end}", document=name, start=start, end=end))
    return documents, passages


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def pieces(found: list[list[Passage]]) -> list[Passage]:
    return [piece for one in found for piece in one]


@settings(max_examples=200, deadline=None)
@given(contexts(), st.integers(1, 120), st.integers(0, 9))
def test_bins_hold_the_context_once_and_in_order(
    context: tuple[dict[str, str], list[Passage]], limit: int, frame: int
) -> None:
    documents, passages = context
    found = bins(passages, limit, characters, [frame] * len(passages))
    covered = {
        name: {at for one in passages if one.document == name for at in range(one.start, one.end)}
        for name in documents
    }
    read: dict[str, list[int]] = {name: [] for name in documents}
    for piece in pieces(found):
        name = piece.document
        assert piece.chunk == passages[(piece.number or 0) - 1].chunk, "cited by its number in the request"
        assert piece.end - piece.start == len(piece.text)
        for at, sign in zip(range(piece.start, piece.end), piece.text, strict=True):
            assert sign == documents[name][at] or (sign in " \n" and at not in covered[name])
            read[name].append(at)
    for name, places in read.items():
        assert places == sorted(set(places)), "each character once, in the order of the document"
        lost = covered[name] - set(places)
        assert not "".join(documents[name][at] for at in sorted(lost)).strip(), (
            "only white space may be missing"
        )
    order = list(dict.fromkeys(piece.document for piece in pieces(found)))
    with_text = [one for one in passages if one.text.strip()]
    first = list(dict.fromkeys(one.document for one in passages))
    assert order == [name for name in first if name in order]
    assert bool(found) == bool(with_text) or not with_text
    for one in found:
        size = sum(len(piece.text) + frame for piece in one)
        assert size <= limit or (limit <= frame and len(one) == 1 and len(one[0].text) == 1)


@settings(max_examples=100, deadline=None)
@given(contexts(), st.integers(1, 200))
def test_the_joined_bins_are_the_context_whatever_their_limit(
    context: tuple[dict[str, str], list[Passage]], limit: int
) -> None:
    _, passages = context
    joined = "".join(piece.text for piece in pieces(bins(passages, limit, characters, [0] * len(passages))))
    assert joined == "".join(sentence.text for sentence in context_sentences(passages))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 60))
def test_bins_are_as_few_as_can_be_and_about_equally_full(tokens: list[int], limit: int) -> None:
    found = balance_bins(tokens, [0] * len(tokens), [0] * len(tokens), limit)
    greedy, held = 0, limit + 1
    for one in tokens:
        if held + one > limit:
            greedy, held = greedy + 1, 0
        held += one
    assert len(found) == greedy
    assert [first for first, _ in found] == [0, *(after for _, after in found)][:-1]
    if max(tokens) <= limit:
        sizes = [sum(tokens[first:after]) for first, after in found]
        assert max(sizes) <= limit


@given(st.integers(1, 60), st.integers(1, 30))
def test_equal_sentences_make_bins_that_differ_by_one_sentence_at_most(n: int, per_bin: int) -> None:
    sizes = [after - first for first, after in balance_bins([7] * n, [0] * n, [0] * n, 7 * per_bin)]
    assert max(sizes) - min(sizes) <= 1


def test_a_sentence_is_split_only_where_it_is_longer_than_a_bin() -> None:
    text = "Short one. " + "word " * 30 + "end. Short two."
    found = bins([Passage(text)], 60, characters, [0] * 4)
    texts = ["".join(piece.text for piece in one) for one in found]
    assert "".join(texts) == text
    assert all(len(one) <= 60 for one in texts)
    assert sum("Short one. " in one for one in texts) == sum("Short two." in one for one in texts) == 1
    assert not any(re.search(r"wor$|^d ", one) for one in texts), "between words"


def test_a_word_longer_than_a_bin_is_cut_all_the_same() -> None:
    found = bins([Passage("x" * 95)], 30, characters, [0] * 4)
    assert sorted(len(one[0].text) for one in found) == [5, 30, 30, 30]


def test_what_a_chunk_end_cut_is_whole_again_and_cited_by_the_passage_that_holds_most() -> None:
    text = "It leaves the harbour at noon. It returns before dusk every day."
    first = Passage(text[:41], "one", "d", start=0, end=41)
    second = Passage(text[42:], "two", "d", start=42, end=len(text))  # the blank belongs to neither
    assert (text[:41].rpartition(" ")[2], text[41]) == ("returns", " ")
    found = bins([second, first], 1_000, characters, [0] * 4)
    assert [(one.number, one.text) for one in found[0]] == [
        (2, "It leaves the harbour at noon. "),
        (1, "It returns before dusk every day."),
    ]


def test_between_two_chunks_lies_a_blank_as_in_the_prompts_that_are_stored() -> None:
    parts = [
        Passage("It leaves at noon.", document="d", start=0, end=18),
        Passage("It returns.", document="d", start=19, end=30),
    ]
    found = bins(parts, 1_000, characters, [0] * 4)
    assert "".join(one.text for one in found[0]) == "It leaves at noon. It returns."


def test_passages_that_are_of_no_document_or_lie_about_their_place_stand_for_themselves() -> None:
    passages = [
        Passage("One.", "c1"),
        Passage("Two.", "c2"),
        Passage("Three.", "c3", "d", start=5, end=6),
        Passage("One.", "c1"),
    ]
    found = pieces(bins(passages, 100, characters, [0] * 4))
    numbered = [replace(passage, number=number) for number, passage in enumerate(passages, start=1)]
    assert found == numbered


@pytest.mark.models
def test_bins_keep_their_limit_by_a_real_tokenizer(weights: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(weights("all-MiniLM-L6-v2"))
    text = " ".join(f"Sentence {n} says that ship {n * 37} left for Öland on day {n}." for n in range(200))
    found = bins([Passage(text)], 300, tokenizer.count, [0])
    texts = ["".join(piece.text for piece in one) for one in found]
    counts = tokenizer.count(texts)
    assert "".join(texts) == text
    assert max(counts) <= 300
    assert min(counts) > 0.85 * max(counts), "the last is no stump"
