"""A ranked list of models: who is asked next, when, and how it is known afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference.budget import Budget, Caps
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import (
    FakeOpenAI,
    Scripted,
    answer,
    content_policy,
    failure,
    hang,
    invalid_json,
    rate_limited,
)

MESSAGES = [{"role": "user", "content": "Who?"}]
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def first() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
def second() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=lambda _received: answer("From the second.")) as fake:
        yield fake


def ranked(first: str, *others: str, **more: Any) -> ChatModel:
    """A model `openai/a` with further ones, `openai/b` and so on, each at an address."""
    named = [
        {"model": f"openai/{letter}", "api_base": base} for letter, base in zip("bcd", others, strict=False)
    ]
    written = {"model": "openai/a", "api_base": first, "limits": {"timeout": 1, "retries": 0}}
    return ChatModel.model_validate({**written, **({"fallback": named} if named else {}), **more})


def gateway_of(home: Path, **more: Any) -> Gateway:
    return Gateway(Home(home), **more)


@pytest.mark.parametrize(
    "trouble",
    [
        failure(401, "Incorrect API key provided"),
        failure(404, "The model does not exist", code="model_not_found"),
        failure(429, "You exceeded your current quota", code="insufficient_quota"),
        failure(400, "no such parameter"),
        failure(500, "broken"),
        rate_limited(0),
        invalid_json(),
        hang(),
    ],
    ids=["key", "model", "quota", "request", "server", "rate", "garbled", "silence"],
)
def test_another_model_is_asked_where_one_cannot_answer(
    trouble: Scripted, first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.add(trouble, trouble, trouble)
    with gateway_of(tmp_path) as gateway:
        found = gateway.ask(ranked(first.api_base, second.api_base), MESSAGES)
    assert (found.status, found.reason, found.text) == (Status.OK, None, "From the second.")
    assert found.model == "openai/b"
    assert len(second.requests) == 1
    assert [row["model"] for row in CallCache(Home(tmp_path)).rows()] == ["openai/b"]


def test_another_model_is_asked_where_nobody_listens(second: FakeOpenAI, tmp_path: Path) -> None:
    chat = ranked(NOBODY, second.api_base)
    with gateway_of(tmp_path) as gateway:
        for number in range(3):
            assert gateway.ask(chat, MESSAGES, replicate=number).model == "openai/b"
    assert len(second.requests) == 3


def test_another_model_is_asked_where_a_key_is_missing(second: FakeOpenAI, tmp_path: Path) -> None:
    chat = ChatModel.model_validate(
        {"model": "openai/gpt-4o-mini", "fallback": [{"model": "openai/b", "api_base": second.api_base}]}
    )
    with gateway_of(tmp_path) as gateway:
        assert gateway.ask(chat, MESSAGES).model == "openai/b"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (content_policy(), Status.REFUSED),
        (answer("no", finish_reason="content_filter"), Status.REFUSED),
        (answer("cut", finish_reason="length"), Status.TRUNCATED),
        (failure(400, "maximum context length is 8", code="context_length_exceeded"), Status.TRUNCATED),
        (answer(""), Status.PARSE_FAILED),
        (answer("From the first."), Status.OK),
    ],
)
def test_what_a_model_says_of_the_question_stands(
    said: Scripted, status: Status, first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.add(said)
    with gateway_of(tmp_path) as gateway:
        found = gateway.ask(ranked(first.api_base, second.api_base), MESSAGES)
    assert (found.status, found.model) == (status, "openai/a")
    assert not second.requests


@pytest.mark.parametrize("caps", [Caps(usd=0.0), Caps(tokens=0), Caps(calls=0)])
def test_a_spent_budget_is_spent_for_all(
    caps: Caps, first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    with gateway_of(tmp_path, budget=Budget(caps)) as gateway:
        found = gateway.ask(ranked(first.api_base, second.api_base), MESSAGES)
    assert found.status is Status.OVER_BUDGET
    assert not [*first.requests, *second.requests]


def test_where_none_answers_all_are_named_with_their_reasons(
    first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.add(failure(401, "Incorrect API key"))
    second.add(rate_limited(0))
    with gateway_of(tmp_path) as gateway:
        found = gateway.ask(ranked(first.api_base, second.api_base, NOBODY), MESSAGES)
    assert (found.status, found.model, found.raw) == (Status.ERROR, "openai/c", None)
    for told in (
        "openai/a: error: ",
        "Incorrect API key",
        "openai/b: rate_limited: ",
        "openai/c: connection",
    ):
        assert told in (found.reason or "")
    assert not list(CallCache(Home(tmp_path)).rows())


def test_the_first_model_is_asked_again_by_the_next_run_and_who_answered_from_the_cache(
    first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    chat = ranked(first.api_base, second.api_base)
    first.add(rate_limited(0), rate_limited(0), answer("From the first."))
    for model, cached in (("openai/b", False), ("openai/b", True), ("openai/a", False), ("openai/a", True)):
        with gateway_of(tmp_path) as gateway:
            found = gateway.ask(chat, MESSAGES)
        assert (found.model, found.cached) == (model, cached)
    assert (len(first.requests), len(second.requests)) == (3, 1)


def test_each_model_is_asked_as_it_is_said(first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path) -> None:
    first.respond = lambda _received: failure(500, "broken")
    other = {"model": "openai/b", "api_base": second.api_base, "temperature": 0.9, "max_tokens": 99}
    told = {"temperature": 0.5, "max_tokens": 50, "seed": 3}
    with gateway_of(tmp_path) as gateway:
        gateway.ask(ranked(first.api_base, fallback=[other], **told), MESSAGES, seed=7)
        gateway.ask(ranked(first.api_base, second.api_base, **told), MESSAGES, seed=7, replicate=2)
    sent = [(one.body["temperature"], one.body["max_tokens"], one.body["seed"]) for one in second.requests]
    assert sent == [(0.9, 99, 3), (0.5, 50, 5)]


def test_a_call_costs_what_the_model_costs_that_was_asked(
    first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.respond = lambda _received: failure(500, "broken")
    other = {"model": "openai/b", "api_base": second.api_base, "price": {"read": 1_000_000, "written": 0}}
    chat = ranked(first.api_base, fallback=[other], price={"read": 5_000_000, "written": 0})
    with gateway_of(tmp_path) as gateway:
        assert gateway.ask(chat, MESSAGES).usd == 11
        assert gateway.spent_usd == 11


class Said(BaseModel):
    sure: bool


def test_a_second_try_for_json_may_be_another_models(
    first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.add(answer("Sure."), failure(500, "broken"))
    second.respond = lambda _received: answer(json.dumps({"sure": True}))
    with gateway_of(tmp_path) as gateway:
        found = gateway.structured(ranked(first.api_base, second.api_base), MESSAGES, Said, name="said")
    assert found.value == Said(sure=True)
    assert [reply.model for reply in found.replies] == ["openai/a", "openai/b"]
    assert second.requests[0].body["messages"][1] == {"role": "assistant", "content": "Sure."}


def test_two_lists_of_the_same_models_never_share_an_answer_that_another_model_gave(
    first: FakeOpenAI, second: FakeOpenAI, tmp_path: Path
) -> None:
    first.respond = lambda _received: answer("From the first.")
    servers = {"openai/a": first.api_base, "openai/b": second.api_base}
    with gateway_of(tmp_path) as gateway:
        for one, other in permutations(servers.items()):
            chat = ChatModel.model_validate(
                {
                    "model": one[0],
                    "api_base": one[1],
                    "fallback": [{"model": other[0], "api_base": other[1]}],
                }
            )
            assert gateway.ask(chat, MESSAGES).model == one[0]


def test_the_whole_list_decides_the_identity_and_no_list_is_none() -> None:
    plain = ranked(NOBODY)
    assert ChatModel(model="openai/a", api_base=NOBODY).meaning() == plain.meaning()
    assert "fallback" not in plain.model_dump()
    lists = [
        ranked(NOBODY, "http://x/v1"),
        ranked(NOBODY, "http://y/v1"),
        ranked(NOBODY, "http://x/v1", NOBODY),
    ]
    named = ranked(NOBODY, fallback=["openai/b"])
    meanings = [json.dumps(one.meaning(), sort_keys=True) for one in (plain, named, *lists)]
    assert len(set(meanings)) == len(meanings)
    priced = ranked(
        NOBODY,
        fallback=[{"model": "openai/b", "limits": {"retries": 1}, "price": {"read": 1, "written": 1}}],
    )
    assert priced.meaning() == named.meaning()
    assert ChatModel.model_validate(priced.model_dump()) == priced
    swapped = ChatModel.model_validate({"model": "openai/b", "fallback": ["openai/a"]})
    assert (
        swapped.meaning()
        != ChatModel.model_validate({"model": "openai/a", "fallback": ["openai/b"]}).meaning()
    )


def test_who_serves_a_further_model_decides_too(monkeypatch: pytest.MonkeyPatch) -> None:
    local = ChatModel.model_validate(
        {"model": "openai/a", "api_base": NOBODY, "fallback": ["local/smollm2-135m-instruct"]}
    )
    named = ranked(NOBODY, fallback=["openai/b"])
    assert ranked(NOBODY).served_by() is None
    found = {local.served_by(), named.served_by()}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other/v1")
    found.add(named.served_by())
    assert len(found) == 3
