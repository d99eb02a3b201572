"""Generators read equally long contexts: up to a budget, the last passage cut at a sentence or word."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.evals.generation.context_budget import WORTH, Cut
from rag_assay.evals.generation.contract import Passage, Request, Retrieved
from rag_assay.evals.study.registry import read_generator
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.schemas import Status
from tests.fakes.generating import context_of
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer

SENTENCE = (
    "The ferry number {:02} leaves the harbour at noon and calls at the island. "  # 71 characters, a space
)


def document(start: int, sentences: int, chunk: str = "c") -> Passage:
    text = "".join(SENTENCE.format(n) for n in range(sentences)).strip()
    return Passage(text, chunk, f"d{chunk}", start=start, end=start + len(text))


def asked(*passages: Passage) -> Request:
    return Request("When does the ferry leave?", "en", passages=passages)


def test_passages_are_read_in_order_until_the_budget_is_full() -> None:
    first, second, third = document(0, 4, "a"), document(500, 6, "b"), document(0, 2, "c")
    found = asked(first, second, third).within(128)  # 512 characters: 287 of the first, 225 of the second
    assert found.passages[0] == first
    cut = found.passages[1]
    assert (cut.text, cut.start, cut.end) == (second.text[:215], 500, 715), "the third sentence ends there"
    assert found.cut == Cut("b", 215)
    assert len(found.passages) == 2, "what comes after the budget is not read, though it is short"


def test_what_fits_is_as_it_was() -> None:
    request = asked(document(0, 2, "a"), document(0, 2, "b"))
    assert request.within(None) is request
    assert request.within(len("".join(one.text for one in request.passages)) // 4 + 1) is request
    assert asked().within(64) == asked()


def test_a_remainder_that_is_worth_nothing_is_left_out() -> None:
    first, second = document(0, 3, "a"), document(0, 6, "b")  # 215 of 256 characters
    found = asked(first, second).within(64)
    assert (found.passages, found.cut) == ((first,), None)


def test_a_passage_without_sentences_is_cut_at_a_word_and_one_without_words_at_the_budget() -> None:
    words = Passage("word " * 200, "w", "d", end=1000)
    assert asked(words).within(64).passages[0].text == ("word " * 51).strip()
    script = Passage("漢字" * 500, "s", "d", start=7, end=1007)
    [cut] = asked(script).within(64).passages
    assert (len(cut.text), cut.start, cut.end) == (256, 7, 263)
    late = Passage(f"{SENTENCE.format(1)}{'word ' * 200}", "l", "d")
    assert len(asked(late).within(100).passages[0].text) > 390, "a first sentence alone would lose most of it"


@given(st.lists(st.integers(0, 900), max_size=12), st.integers(64, 900), st.integers(1, 12))
def test_how_many_are_read_is_known_by_their_lengths(lengths: list[int], tokens: int, most: int) -> None:
    text = "".join(SENTENCE.format(n % 100) for n in range(20))
    passages = tuple(Passage(text[:n], f"c{at}", f"d{at}", end=n) for at, n in enumerate(lengths))
    generator = read_generator({"extractive": {"context_tokens": tokens, "passages": most}})
    read = asked(*passages[:most]).within(tokens).passages
    assert generator.n_read(lengths) == len(read)
    total = sum(len(one.text) for one in read)
    assert total <= 4 * tokens
    whole = sum(lengths[:most])
    assert total == whole or total >= min(whole, 4 * tokens) - max(WORTH, 2 * tokens), (
        "at least half of the room"
    )
    for one, given_ in zip(read, passages, strict=False):
        assert text[one.start : one.end] == one.text
        assert given_.text.startswith(one.text)


@pytest.mark.parametrize(
    ("written", "passages"),
    [
        ({}, 5),
        ({"passages": 3}, 3),
        ({"context_tokens": 2000}, 100),
        ({"context_tokens": 2000, "passages": 3}, 3),
        ({"context_tokens": None}, 5),
    ],
)
def test_a_budget_takes_the_place_of_the_number_unless_both_are_said(
    written: dict[str, Any], passages: int
) -> None:
    assert read_generator({"extractive": written}).passages == passages
    assert read_generator({"llm": {"model": "openai/any", **written}}).passages == passages


def test_a_budget_is_part_of_the_identity_and_without_one_it_is_that_of_before() -> None:
    plain = read_generator({"extractive": {}})
    assert "context_tokens" not in plain.meaning()
    tokens = [64, 2000, 2001]
    known = {
        plain.identity(),
        *(read_generator({"extractive": {"context_tokens": n}}).identity() for n in tokens),
    }
    assert len(known) == 4
    again = read_generator(
        {"extractive": read_generator({"extractive": {"context_tokens": 64}}).model_dump()}
    )
    assert again.identity() in known


@pytest.mark.parametrize(
    "written",
    [
        {"extractive": {"context_tokens": 63}},
        {"extractive": {"context_tokens": 0}},
        {"extractive": {"context_tokens": "many"}},
        {"no_context": {"model": "openai/any", "context_tokens": 2000}},
    ],
)
def test_what_is_no_budget_is_refused_at_its_place(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        read_generator(written)
    assert ["context_tokens" in error["loc"] for error in caught.value.errors()] == [True]


def test_a_quotation_cites_the_part_that_was_read(gateway: Gateway) -> None:
    passage = replace(document(100, 12, "a"), text=document(0, 12).text.replace("07", "for tickets"))
    request = replace(asked(passage), question="Which ferry is for tickets?")
    context = context_of(gateway)
    [whole] = read_generator({"extractive": {"max_tokens": 20, "min_score": None}}).answer([request], context)
    assert whole.text is not None
    assert "for tickets" in whole.text
    [found] = read_generator(
        {"extractive": {"max_tokens": 20, "min_score": None, "context_tokens": 100}}
    ).answer([request], context)
    assert found.text is not None
    assert "for tickets" not in found.text, "it is after the budget"
    assert found.passages is not None
    assert [(one.start, one.end) for one in found.citations] == [(100, 100 + len(found.passages[0].text))]
    assert found.cuts == (Cut("a", len(found.passages[0].text)),)
    assert whole.prompt_tokens is not None
    assert found.prompt_tokens is not None
    assert found.prompt_tokens < whole.prompt_tokens


@pytest.mark.parametrize("kind", ["llm", "llm_binned", "oracle_context"])
def test_a_model_is_given_no_more(kind: str, server: FakeOpenAI, gateway: Gateway) -> None:
    server.respond = lambda _received: answer("At noon [1] or later [2].")
    passages = (document(40, 5, "a"), document(0, 9, "b"), document(0, 2, "c"))
    generator = read_generator({kind: {"model": "openai/any", "context_tokens": 150}})
    [found] = generator.answer([asked(*passages)], context_of(gateway))
    prompt = server.requests[-1].body["messages"][-1]["content"]
    assert prompt.count("leaves the harbour") == 5 + 3
    assert [one.text for one in found.passages or ()] == [passages[0].text, passages[1].text[:215]]
    assert [(one.chunk, one.start, one.end) for one in found.citations] == [("a", 40, 399), ("b", 0, 215)]
    assert found.cuts == (Cut("b", 215),)


def test_after_another_search_twice_the_budget_is_read_and_what_was_cut_is_whole(
    server: FakeOpenAI, gateway: Gateway
) -> None:
    passages = (document(0, 6, "a"), document(900, 6, "b"), document(0, 6, "c"), document(0, 6, "d"))

    def respond(received: Received) -> Scripted:
        checks = "response_format" in received.body
        return answer(json.dumps({"sufficient": False, "missing": "more"}) if checks else "At noon [2].")

    server.respond = respond
    queries: list[int] = []

    def search(_request: Request, _query: str, most: int) -> Retrieved:
        queries.append(most)
        return Retrieved(passages, 0.1)

    generator = read_generator({"llm": {"model": "openai/any", "context_tokens": 150, "sufficiency": {}}})
    [found] = generator.answer([asked(*passages)], context_of(gateway, retrieve=search))
    assert found.status is Status.OK
    assert [one.chunks for one in found.attempts] == [("a", "b"), ("a", "b", "c")]
    assert found.passages is not None
    assert found.passages[:2] == passages[:2]
    assert found.cuts == (Cut("c", len(found.passages[2].text)),)
    assert sum(len(one.text) for one in found.passages) <= 4 * 300
    assert queries == [200]
