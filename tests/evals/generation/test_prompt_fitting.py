"""Passages are fitted into a model's window: whole ones first, the last one cut where a sentence ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.evals.generation.answer_prompt import Prompts
from rag_assay.evals.generation.contract import Cut, Passage, Request
from rag_assay.evals.generation.prompt_fitting import WORTH, fit_prompt
from rag_assay.evals.study.registry import read_generator
from rag_assay.warehouse.inference.gateway import Gateway, Messages
from rag_assay.warehouse.inference.token_counts import estimated_tokens, known_window, most_tokens
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.generating import context_of
from tests.fakes.openai_server import FakeOpenAI, answer

SENTENCE = "The ferry number {} leaves the harbour at noon and calls at the island before dusk. "
WRITE = Prompts("answer").messages


def passages(*n_sentences: int) -> tuple[Passage, ...]:
    return tuple(
        Passage("".join(SENTENCE.format(f"{at}-{n}") for n in range(count)).strip(), f"c{at}", start=100)
        for at, count in enumerate(n_sentences)
    )


def asked(*n_sentences: int, text: str | None = None) -> Request:
    given = passages(*n_sentences) if text is None else (Passage(text, "c0"),)
    return Request("When?", "en", passages=given)


def size(messages: Messages) -> int:
    return sum(len(one["content"]) for one in messages)


def within(n: int) -> Callable[[Messages], bool]:
    return lambda messages: size(messages) <= n


def test_what_fits_is_left_alone() -> None:
    request = asked(2, 3)
    found = fit_prompt(request, WRITE, within(size(WRITE(request))))
    assert found is not None
    assert (found.messages, found.cuts) == (WRITE(request), ())


@pytest.mark.parametrize("less", [1, 50, 100, 200, 290])
def test_the_last_passage_is_cut_where_a_sentence_ends(less: int) -> None:
    request = asked(2, 5)
    found = fit_prompt(request, WRITE, within(size(WRITE(request)) - less))
    assert found is not None
    (cut,) = found.cuts
    assert cut.chunk == "c1"
    text = request.passages[1].text
    assert text[: cut.kept].endswith(".")
    assert cut.kept < len(text)
    assert text[: cut.kept] + " …\n</passage>" in found.messages[-1]["content"]
    assert size(found.messages) <= size(WRITE(request)) - less
    more = text[: cut.kept] + text[cut.kept :].partition(".")[0]
    assert size(found.messages) + len(more) - cut.kept > size(WRITE(request)) - less - 3, "one more would fit"


def test_what_comes_after_the_cut_is_left_out_and_named() -> None:
    request = asked(3, 3, 1, 1)
    found = fit_prompt(request, WRITE, within(size(WRITE(asked(3))) + 150))
    assert found is not None
    assert [cut.chunk for cut in found.cuts] == ["c1", "c2", "c3"]
    assert [bool(cut.kept) for cut in found.cuts] == [True, False, False]
    user = found.messages[-1]["content"]
    assert user.count("<passage ") == 2
    assert user.endswith("</passages>\n\nQuestion: When?")


def test_a_beginning_that_is_not_worth_it_is_left_out() -> None:
    request = asked(2, 2)
    found = fit_prompt(request, WRITE, within(size(WRITE(asked(2))) + WORTH // 2))
    assert found is not None
    assert found.cuts == (Cut("c1", 0),)


def test_a_text_without_sentences_is_cut_at_a_word() -> None:
    request = asked(text="word " * 400)
    found = fit_prompt(request, WRITE, within(size(WRITE(asked())) + 600))
    assert found is not None
    (cut,) = found.cuts
    assert request.passages[0].text[: cut.kept].endswith("word")
    assert cut.kept > WORTH


def test_a_prompt_that_does_not_fit_without_passages_is_none() -> None:
    assert fit_prompt(asked(1), WRITE, within(size(WRITE(asked())) - 1)) is None


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 2_500))
def test_whatever_the_window_nothing_is_too_long_or_silently_lost(counts: list[int], room: int) -> None:
    request = asked(*counts)
    found = fit_prompt(request, WRITE, within(room))
    if found is None:
        assert size(WRITE(asked())) > room
        return
    assert size(found.messages) <= room
    user = found.messages[-1]["content"]
    kept = {cut.chunk: cut.kept for cut in found.cuts}
    for passage in request.passages:
        given = passage.text[: kept.get(passage.chunk, len(passage.text))]
        assert given in user
        if passage.chunk in kept:
            assert passage.text not in user


# --- in a generator -----------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FakeOpenAI(respond=lambda _received: answer("At noon [1]. Or later [5].")) as fake:
        yield fake


def generator(server: FakeOpenAI, **more: Any) -> Any:
    return read_generator({"llm": {"model": "openai/any", "api_base": server.api_base, **more}})


def test_an_answer_says_what_was_cut(server: FakeOpenAI, tmp_path: Path) -> None:
    with Gateway(Home(tmp_path)) as gateway:
        (found,) = generator(server, window=600).answer([asked(2, 2, 2, 2, 2)], context_of(gateway))
    assert found.status is Status.OK
    assert len(found.cuts) >= 2
    assert found.cuts[-1] == Cut("c4", 0)
    sent = json.dumps(server.requests[0].body)
    assert "number 0-1 leaves" in sent
    assert "number 4-0 leaves" not in sent
    cited = {one.marker: one.chunk for one in found.citations}
    assert cited == {1: "c0", 5: None}, "a passage that was left out cannot be cited"


@pytest.mark.parametrize(
    ("window", "request_", "status"),
    [
        (256, asked(3), Status.TRUNCATED),  # 160 of them are for the answer
        (400, asked(30), Status.NO_CONTEXT),
    ],
)
def test_a_window_that_is_too_small_is_a_typed_outcome_and_nothing_is_sent(
    window: int, request_: Request, status: Status, server: FakeOpenAI, tmp_path: Path
) -> None:
    with Gateway(Home(tmp_path)) as gateway:
        (found,) = generator(server, window=window).answer([request_], context_of(gateway))
    assert (found.status, found.text, found.seconds) == (status, None, None)
    assert found.reason
    assert f"window of {window} tokens" in found.reason
    assert server.requests == []


def test_without_a_known_window_nothing_is_cut(server: FakeOpenAI, tmp_path: Path) -> None:
    with Gateway(Home(tmp_path)) as gateway:
        (found,) = generator(server).answer([asked(200)], context_of(gateway))
    assert (found.status, found.cuts) == (Status.OK, ())


# --- tokens -------------------------------------------------------------------------------------------------

TEXTS = [
    "Größe und Straße, naïve café.",
    "The ferry leaves the harbour at noon.",
    "漢字とかな",
    "🛳️ e\u0301",
    "",
]


def test_tokens_of_an_unknown_model_are_bounded_from_above() -> None:
    for text in TEXTS:
        known, unknown = (estimated_tokens(model, [text]) for model in ("openai/gpt-4o-mini", "mistral/x"))
        assert unknown <= most_tokens([text])
        assert known <= most_tokens([text])
    prose = "".join(SENTENCE.format(n) for n in range(50))
    assert estimated_tokens("openai/gpt-4o-mini", [prose]) < estimated_tokens("mistral/x", [prose])


def test_special_tokens_in_a_text_are_text() -> None:
    assert estimated_tokens("openai/gpt-4o-mini", ["<|endoftext|>"]) > 16


def test_windows_that_are_known() -> None:
    assert known_window("openai/gpt-4o-mini") == 128_000
    assert known_window("openai/nobody-has-it") is None
    assert known_window("local/smollm2-135m-instruct") is None


@pytest.mark.models
def test_a_local_model_counts_by_its_own_tokenizer_and_answers_what_was_fitted(
    weights: Callable[[str], Path], tmp_path: Path
) -> None:
    weights("smollm2-135m-instruct")
    local = read_generator({"llm": {"model": "local/smollm2-135m-instruct", "max_tokens": 16}})
    with Gateway(Home(tmp_path), timeout=240, local_threads=1, local_context=512) as gateway:
        (found,) = local.answer([asked(6, 6, 6)], context_of(gateway))
    assert found.status in {Status.OK, Status.TRUNCATED, Status.REFUSED}
    assert found.cuts
    assert found.prompt_tokens is not None
    assert 380 < found.prompt_tokens <= 512 - 16, "nearly all of the window is used"
