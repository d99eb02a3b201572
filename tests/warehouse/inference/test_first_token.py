from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.replies import LONGEST_TOKEN, MOST_KEPT, first_tokens
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Scripted, answer

MESSAGES = [{"role": "user", "content": "Is it so?"}]
TOPS = {" Yes": 0.5, "No": 0.25, "The": 0.125}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FakeOpenAI() as fake:
        yield fake


@pytest.mark.parametrize("model", ["openai/any", "hosted_vllm/any"])
def test_first_tokens_come_over_http_and_from_the_cache(
    model: str, server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer(" Yes", "length", tops=TOPS), answer(" Yes", "length", tops=TOPS))
    with Gateway(Home(tmp_path)) as gateway:

        def ask(top_logprobs: int | None = 3) -> Any:
            return gateway.complete(
                model, MESSAGES, max_tokens=1, top_logprobs=top_logprobs, api_base=server.api_base
            )

        first, again, without = ask(), ask(), ask(None)
    wanted = tuple((token, pytest.approx(math.log(chance))) for token, chance in TOPS.items())
    assert first.first_tokens == again.first_tokens == wanted
    assert (first.status, first.raw, first.cached, again.cached) == (Status.TRUNCATED, " Yes", False, True)
    assert without.first_tokens is None, "a server may say more than it was asked for"
    assert [body.get("logprobs") for body in bodies(server)] == [True, None]
    assert [body.get("top_logprobs") for body in bodies(server)] == [3, None]
    assert first.call_id != without.call_id
    requests = {one["call_id"]: json.loads(one["request"]) for one in CallCache(Home(tmp_path)).rows()}
    assert requests[first.call_id]["top_logprobs"] == 3
    assert "top_logprobs" not in requests[without.call_id]


def test_a_provider_that_knows_no_probabilities_says_so(
    server: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM refuses the parameter itself; whoever asks may ask without it."""
    monkeypatch.setenv("DEEPINFRA_API_KEY", "k")
    with Gateway(Home(tmp_path), retries=0) as gateway:
        reply = gateway.complete("deepinfra/any", MESSAGES, top_logprobs=3, api_base=server.api_base)
    assert reply.status is Status.ERROR
    assert "logprobs" in (reply.reason or "")
    assert server.requests == []


def bodies(server: FakeOpenAI) -> list[dict[str, Any]]:
    return [received.body for received in server.requests]


ODD: dict[str, Any] = {
    "nothing": None,
    "text": "high",
    "a list": [1],
    "empty": {},
    "no content": {"content": None},
    "no token": {"content": []},
    "no mapping": {"content": ["Yes"]},
    "no logarithm": {"content": [{"token": "Yes", "logprob": "-1", "top_logprobs": None}]},
    "NaN": {"content": [{"token": "Yes", "logprob": math.nan, "top_logprobs": [{"token": "No"}]}]},
    "above 0": {"content": [{"token": "Yes", "logprob": 1e9, "top_logprobs": [{"token": 7, "logprob": -1}]}]},
    "truth": {"content": [{"token": "Yes", "logprob": False}]},
    "minus infinity": {"tokens": ["Yes"], "token_logprobs": [-math.inf], "top_logprobs": [None]},
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_logarithm_is_none(name: str) -> None:
    assert first_tokens({"logprobs": ODD[name]}) is None


def test_odd_probabilities_are_no_reason_to_lose_the_answer(server: FakeOpenAI, tmp_path: Path) -> None:
    body = json.loads(answer("Yes").body)
    body["choices"][0]["logprobs"] = {"content": [{"token": "Yes", "logprob": 1e999}]}
    server.add(Scripted(json.dumps(body["choices"][0] | {"logprobs": 5}).encode()), answer("Yes", tops=TOPS))
    with Gateway(Home(tmp_path), retries=0) as gateway:
        broken = gateway.complete("openai/any", MESSAGES, top_logprobs=2, api_base=server.api_base)
        sound = gateway.complete("openai/any", MESSAGES, top_logprobs=3, api_base=server.api_base)
    assert (broken.status, broken.first_tokens) == (Status.ERROR, None)
    assert (sound.status, len(sound.first_tokens or ())) == (Status.OK, 3)


def test_many_and_long_tokens_are_bounded() -> None:
    rivals = [{"token": f"{n:03}" + "x" * 1000, "logprob": -float(n)} for n in range(MOST_KEPT + 5)]
    found = first_tokens(
        {"logprobs": {"content": [{"token": "a", "logprob": 0.0005, "top_logprobs": rivals}]}}
    )
    assert found is not None
    assert len(found) == MOST_KEPT
    assert {len(token) for token, _ in found} == {1, LONGEST_TOKEN}
    assert all(chance <= 0 for _, chance in found), "a rounded probability of 1"


@pytest.mark.models
def test_a_local_model_says_how_likely_its_first_token_is(
    weights: Callable[[str], Path], tmp_path: Path
) -> None:
    weights("smollm2-135m-instruct")
    messages = [{"role": "user", "content": "Is water wet? Answer yes or no."}]
    with Gateway(Home(tmp_path), timeout=240, local_threads=1, local_context=512) as gateway:
        reply = gateway.complete("local/smollm2-135m-instruct", messages, max_tokens=1, top_logprobs=20)
    assert reply.first_tokens is not None
    assert len(reply.first_tokens) == 20
    chances = [math.exp(chance) for _, chance in reply.first_tokens]
    assert chances == sorted(chances, reverse=True)
    assert 0.5 < sum(chances) <= 1.000001
    assert reply.first_tokens[0][0].strip() == reply.text, "at temperature 0 the likeliest is said"
    assert any(token.strip().lower() in {"yes", "no"} for token, _ in reply.first_tokens)
