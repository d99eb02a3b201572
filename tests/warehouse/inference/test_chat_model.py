"""A chat model: checked once, stored as it was said, and known again by what decides its answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rag_assay.assets.enrichment.llm_enrichment import Enrichment
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, answer, failure, hang

MESSAGES = [{"role": "user", "content": "Who?"}]
LIMITS = {"limits": {"timeout": 9, "retries": 0, "at_once": 2}, "price": {"read": 1, "written": 2}}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=lambda _received: answer("Nobody.")) as fake:
        yield fake


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path)) as made:
        yield made


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"model": "gpt-4"}, "a model is written PROVIDER/NAME"),
    ({"model": "openai/"}, "a model is written PROVIDER/NAME"),
    ({"model": "local/smollm2-135m"}, "did you mean `local/smollm2-135m-instruct`?"),
    ({"model": "local/all-MiniLM-L6-v2"}, "unknown local model"),
    ({"model": "openai/x", "api_base": "localhost:8000"}, "begins with http:// or https://"),
    ({"model": "openai/x", "temperature": 3}, "less than or equal to 2"),
    ({"model": "openai/x", "max_tokens": True}, "must be a number"),
    ({"model": "openai/x", "limits": {"at_once": 0}}, "greater than or equal to 1"),
    ({"model": "openai/x", "price": {"read": 1}}, "Field required"),
    ({"model": "openai/x", "prize": 1}, "Extra inputs are not permitted"),
    ({"model": "openai/x", "fallback": ["openai/x"]}, "'openai/x' stands before it in this list"),
    ({"model": "openai/x", "fallback": ["openai/y", "openai/y"]}, "'openai/y' stands before it"),
    ({"model": "openai/x", "fallback": []}, "name further models"),
    ({"model": "openai/x", "fallback": ["gpt-4"]}, "a model is written PROVIDER/NAME"),
    ({"model": "openai/x", "fallback": [{"model": "local/nothing"}]}, "unknown local model"),
    ({"model": "openai/x", "fallback": [{"model": "openai/y", "budget_usd": 1}]}, "Extra inputs"),
]


@pytest.mark.parametrize(("written", "told"), MISTAKES, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("kind", [ChatModel, Enrichment])
def test_a_mistake_is_told_wherever_a_chat_model_stands(
    kind: type[ChatModel], written: dict[str, Any], told: str
) -> None:
    more = {"summary": True} if kind is Enrichment else {}
    with pytest.raises(ValidationError, match=told.replace("?", r"\?")):
        kind.model_validate({**written, **more})


def test_what_is_not_said_is_not_stored() -> None:
    assert ChatModel(model="openai/x").model_dump() == {"model": "openai/x", "api_base": None}
    said = ChatModel.model_validate({"model": "openai/x", "seed": 3, **LIMITS})
    assert ChatModel.model_validate(said.model_dump()) == said


def test_an_identity_holds_what_decides_an_answer_and_nothing_else() -> None:
    plain = ChatModel(model="openai/x").meaning()
    paid = ChatModel.model_validate({"model": "openai/x", "budget_usd": 1, **LIMITS}).meaning()
    assert plain == paid
    for changed in (
        {"temperature": 0.5},
        {"max_tokens": 99},
        {"seed": 1},
        {"api_base": "http://x/v1"},
        {"fallback": ["openai/y"]},
    ):
        assert ChatModel.model_validate({"model": "openai/x", **changed}).meaning() != plain


def test_a_recipe_is_asked_with_its_parameters(gateway: Gateway, server: FakeOpenAI) -> None:
    own = ChatModel(model="openai/x", api_base=server.api_base, temperature=0.5, max_tokens=99, seed=3)
    assert gateway.ask(own, MESSAGES, max_tokens=10, seed=7).text == "Nobody."
    plain = ChatModel(model="openai/x", api_base=server.api_base)
    assert gateway.ask(plain, MESSAGES, max_tokens=10, seed=7).text == "Nobody."
    sent = [(one.body["temperature"], one.body["max_tokens"], one.body["seed"]) for one in server.requests]
    assert sent == [(0.5, 99, 3), (0.0, 10, 7)]
    assert gateway.ask(plain, MESSAGES, max_tokens=10, seed=7).cached


def test_a_recipe_limits_its_own_calls(gateway: Gateway, server: FakeOpenAI) -> None:
    limited = {"model": "openai/x", "api_base": server.api_base, "limits": {"timeout": 0.3, "retries": 1}}
    server.add(hang())
    assert gateway.ask(ChatModel.model_validate(limited), MESSAGES).status is Status.TIMEOUT
    server.requests.clear()
    server.add(failure(500, "no"), failure(500, "no"), failure(500, "no"))
    assert gateway.ask(ChatModel.model_validate(limited), MESSAGES).status is Status.ERROR
    assert len(server.requests) == 2


def test_a_price_of_its_own_is_what_a_call_costs(gateway: Gateway, server: FakeOpenAI) -> None:
    known = {"model": "openai/mine", "api_base": server.api_base, "price": {"read": 3, "written": 5}}
    server.add(answer("Nobody.", prompt_tokens=1_000_000, completion_tokens=200_000))
    assert gateway.ask(ChatModel.model_validate(known), MESSAGES).usd == pytest.approx(3 + 1)
    assert gateway.spent_usd == pytest.approx(4)
    unknown = ChatModel(model="openai/mine", api_base=server.api_base, max_tokens=9)
    assert gateway.ask(unknown, MESSAGES).usd is None


def test_calls_run_side_by_side_as_far_as_the_recipe_allows(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    chat = ChatModel.model_validate(
        {"model": "openai/x", "api_base": server.api_base, "limits": {"at_once": 8}}
    )
    server.respond = lambda received: answer(received.body["messages"][0]["content"][::-1])
    questions = [f"question {number}" for number in range(40)]
    asked = gateway.map(
        lambda text: gateway.ask(chat, [{"role": "user", "content": text}]).text, questions, chat
    )
    assert list(asked) == [question[::-1] for question in questions]
    assert len(server.requests) == 40
