"""Embeddings from a server: order, typed errors, retries, the budget."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rag_assay.warehouse.inference import single_call
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import (
    FakeOpenAI,
    Received,
    Scripted,
    embeddings,
    failure,
    hang,
    invalid_json,
    rate_limited,
    text_vector,
)

TEXTS = ["one", "two words", "three"]


def api(server: FakeOpenAI, model: str = "openai/any", **fields: object) -> EmbeddingApi:
    return EmbeddingApi(model, base=server.api_base, **fields)  # type: ignore[arg-type]


def test_vectors_come_in_the_order_of_the_texts() -> None:
    with FakeOpenAI(respond=embeddings) as server:
        asked = api(server)
        found = asked.embed(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, [text_vector(text, 8) for text in TEXTS])
    assert asked.prompt_tokens == 4
    assert asked.spent_usd == 0, "nobody knows the price of this model"
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body["input"] == TEXTS
    assert "dimensions" not in request.body


def test_dimensions_are_asked_for_and_must_come() -> None:
    with FakeOpenAI(respond=embeddings) as server:
        assert api(server, dimensions=5).embed(TEXTS).shape == (3, 5)
        assert server.requests[0].body["dimensions"] == 5
    with (
        FakeOpenAI(respond=lambda received: embeddings(_without(received, "dimensions"))) as server,
        pytest.raises(EmbeddingError, match="gave 8 dimensions where 5 were asked for"),
    ):
        api(server, dimensions=5).embed(TEXTS)


def _without(received: Received, name: str) -> Received:
    received.body.pop(name, None)
    return received


def test_a_rate_limit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAI(rate_limited(0), failure(503, "starting"), respond=embeddings) as server:
        monkeypatch.setattr(single_call, "cancellable_sleep", lambda _seconds: None)
        assert api(server, retries=2).embed(TEXTS).shape == (3, 8)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        (rate_limited(0), Status.RATE_LIMITED, "Rate limit reached"),
        (hang(), Status.TIMEOUT, "imeout"),
        (failure(400, "maximum context length is 8 tokens"), Status.TRUNCATED, "8 tokens"),
        (failure(401, "no key sk-abcdefghijklmnop1234"), Status.ERROR, r"no key \*\*\*"),
        (invalid_json(), Status.ERROR, "Error"),
        (
            Scripted(json.dumps({"object": "list", "model": "m", "data": []}).encode()),
            Status.PARSE_FAILED,
            "0 vectors for 3 texts",
        ),
    ],
    ids=["rate limit", "timeout", "too long", "key", "no JSON", "no vectors"],
)
def test_failures_are_typed(response: Scripted, status: Status, reason: str) -> None:
    with FakeOpenAI(response) as server, pytest.raises(EmbeddingError, match=reason) as caught:
        api(server, retries=0, timeout=1.0).embed(TEXTS)
    assert caught.value.status == status
    assert "sk-abc" not in str(caught.value)


@pytest.mark.parametrize(
    "data", [[{"index": 0, "embedding": [1.0, 2.0]}] * 3, [{"index": 0, "embedding": [1]}]]
)
def test_too_few_vectors_are_refused(data: list[object]) -> None:
    body = {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    with (
        FakeOpenAI(Scripted(json.dumps(body).encode())) as server,
        pytest.raises(EmbeddingError, match="vectors for 3 texts"),
    ):
        api(server).embed(TEXTS)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ("[NaN, 1]", "a number that is not finite"),
        ("[1e300, 1]", "a number that is not finite"),
        ("[0, 0.0]", "a vector of zeros"),
        ("[]", "a vector of zeros"),
        ("[1, 2, 3]", "holds no embeddings"),
        ("null", "holds no embeddings"),
        ('"AACAPwAAAEA="', "holds no embeddings"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:Pydantic serializer")
def test_what_is_no_vector_is_refused(vector: str, reason: str) -> None:
    other = "[]" if vector == "[]" else "[1, 2]"
    data = f'[{{"index": 1, "embedding": {vector}}}, {{"index": 0, "embedding": {other}}}]'
    body = f'{{"object": "list", "model": "m", "data": {data}, "usage": {{"total_tokens": 2}}}}'
    with (
        FakeOpenAI(Scripted(body.encode())) as server,
        pytest.raises(EmbeddingError, match=reason) as caught,
    ):
        api(server).embed(TEXTS[:2])
    assert caught.value.status == Status.PARSE_FAILED


def test_nothing_is_sent_once_the_budget_is_spent() -> None:
    with FakeOpenAI(respond=embeddings) as server:
        asked = api(server, "openai/text-embedding-3-small", budget_usd=1e-9)
        asked.embed(TEXTS)
        assert asked.spent_usd == pytest.approx(4 * 0.02 / 1e6), "4 tokens at 0.02 USD a million"
        with pytest.raises(EmbeddingError, match="The budget of 1e-09 USD is spent") as caught:
            asked.embed(TEXTS)
        assert len(server.requests) == 1
    assert caught.value.status == Status.OVER_BUDGET
