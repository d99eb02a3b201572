"""What a hostile or broken server sends costs neither memory nor a night."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rag_assay.warehouse.inference import http_limits
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Scripted, answer, failure

MB = b" " * (1 << 20)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-0123456789abcdefghij")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-live-0123456789abcdefghij")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path), timeout=20.0) as made:
        yield made


def ask(gateway: Gateway, server: FakeOpenAI, model: str = "openai/any") -> Reply:
    return gateway.complete(model, [{"role": "user", "content": "Who?"}], api_base=server.api_base)


@pytest.mark.parametrize("model", ["openai/any", "anthropic/any"])
def test_a_reply_without_end_is_cut_off(gateway: Gateway, model: str) -> None:
    with FakeOpenAI(Scripted(MB, repeats=200)) as server:
        reply = ask(gateway, server, model)
        assert (reply.status, len(server.requests)) == (Status.ERROR, 1)  # no second try of that
        assert server.n_bytes < 60 << 20  # what was under way is all that was sent
    assert reply.reason is not None
    assert "more than 32 MB" in reply.reason


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_bomb_is_counted_as_it_unpacks(gateway: Gateway, encode) -> None:
    name = "gzip" if encode is gzip.compress else "deflate"
    with FakeOpenAI(Scripted(encode(MB * 64), headers={"Content-Encoding": name})) as server:
        reply = ask(gateway, server)
    assert reply.status is Status.ERROR
    assert "more than 32 MB" in str(reply.reason)


def test_a_compressed_reply_is_read(gateway: Gateway) -> None:
    packed = gzip.compress(answer("Paris.").body)
    with FakeOpenAI(Scripted(packed, headers={"Content-Encoding": "gzip"})) as server:
        assert ask(gateway, server).text == "Paris."


@pytest.mark.parametrize("encoding", ["gzip", "br", "x-made-up"])
def test_a_reply_in_a_wrong_encoding_is_an_error(gateway: Gateway, encoding: str) -> None:
    gateway.retries = 0
    with FakeOpenAI(Scripted(b"{}", headers={"Content-Encoding": encoding})) as server:
        assert ask(gateway, server).status is Status.ERROR


@pytest.mark.parametrize("model", ["openai/any", "anthropic/any"])
def test_a_reply_that_drips_is_given_up(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(http_limits, "TOTAL", 0.5)
    gateway.timeout = 1.0
    with FakeOpenAI(Scripted(b" ", repeats=300, pause=0.1)) as server:
        reply = ask(gateway, server, model)
        assert (reply.status, len(server.requests)) == (Status.TIMEOUT, 1)
        assert reply.seconds < 15  # of 30


def test_embeddings_are_held_to_the_limits_too() -> None:
    with FakeOpenAI(Scripted(MB, repeats=200)) as server:
        api = EmbeddingApi("openai/any", base=server.api_base)
        with pytest.raises(EmbeddingError, match="more than 32 MB"):
            api.embed(["one"])
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5_000_000, "completion_tokens": 7},
        {"prompt_tokens": 5, "completion_tokens": -7},
        {"prompt_tokens": 2**70, "completion_tokens": 7},
    ],
    ids=["negative read", "negative written", "beyond any number"],
)
def test_counts_that_cannot_be_are_not_known(gateway: Gateway, usage: dict[str, int]) -> None:
    body = json.loads(answer("Paris.").body) | {"usage": {**usage, "total_tokens": 1}}
    with FakeOpenAI(Scripted(json.dumps(body).encode())) as server:
        reply = ask(gateway, server, "openai/gpt-4o-mini")
    assert (reply.text, reply.usd) == ("Paris.", None)
    assert all(
        count is None or 0 <= count < 2**31 for count in (reply.prompt_tokens, reply.completion_tokens)
    )
    assert gateway.spent_usd == 0


def test_a_reason_with_letters_that_are_none_can_be_stored(gateway: Gateway) -> None:
    gateway.retries = 0
    with FakeOpenAI(failure(400, "no \ud800 such parameter")) as server:
        reply = ask(gateway, server)
    assert reply.reason is not None
    assert "no ? such parameter" in reply.reason
    reply.reason.encode()


def test_the_limits_are_those_of_the_client_alone() -> None:
    with FakeOpenAI(Scripted(b"x" * 100)) as server, httpx.Client() as client:
        assert client.post(server.api_base, json={}).content == b"x" * 100
