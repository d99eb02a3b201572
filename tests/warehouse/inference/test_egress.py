"""A model's requests reach the server that its recipe or the environment names, and no other one."""

from __future__ import annotations

import json
import os
from base64 import b64encode

import httpx
import pytest
from openai import APIError
from pydantic import SecretStr, TypeAdapter, ValidationError

from rag_assay.evals.study.sections import Alerts
from rag_assay.warehouse.inference import call_failures
from rag_assay.warehouse.inference.chat_model import Address, ChatModel
from rag_assay.warehouse.inference.egress import (
    NotAllowedError,
    guard_client,
    only_to,
    origin,
    public,
    request_context,
)
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.model_servers import UnknownServerError, destination, litellm, unreachable
from rag_assay.warehouse.inference.redaction import without_secrets
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Scripted, answer, failure

HOSTS = ("OLLAMA_API_BASE", "AZURE_API_BASE", "AZURE_AI_API_BASE", "HF_API_BASE", "OOBABOOGA_API_BASE")


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOSTS:
        monkeypatch.delenv(name, raising=False)


def ask(gateway: Gateway, model: str, api_base: str | None = None) -> Reply:
    return gateway.complete(model, [{"role": "user", "content": "passage"}], api_base=api_base)


@pytest.mark.parametrize(
    "name",
    [
        "oobabooga/http://{host}",
        "huggingface/http://{host}/models/x",
        "oobabooga/HTTP://{host}",
        "petals/{host}",
        "triton/{host}/v2",
        "ollama/localhost:11434",
        "custom/[::1]:8080/x",
        "ollama/ollama.example:443",
        "openai/http%3A%2F%2F{host}",
    ],
)
def test_an_address_in_a_models_name_is_refused_with_advice(gateway: Gateway, name: str) -> None:
    with FakeOpenAI(answer("stolen")) as listener:
        model = name.format(host=listener.api_base.split("/")[2])
        with pytest.raises(ValidationError, match="api_base"):
            ChatModel(model=model)
        reply = ask(gateway, model)
        assert (reply.status, listener.requests) == (Status.ERROR, [])
        assert "api_base" in str(reply.reason)
        with pytest.raises(EmbeddingError, match="api_base"):
            EmbeddingApi(model, retries=0).embed(["passage"])
        assert listener.requests == []


@pytest.mark.parametrize(
    "name",
    [
        "ollama/llama3:8b",
        "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
        "openai/ft:gpt-4o-mini:acme::9a8b",
        "openrouter/meta-llama/llama-3.1-8b:free",
        "bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/x",
        "openai/Qwen/Qwen2.5-7B-Instruct",
        "openai/模型",
    ],
)
def test_a_name_with_a_tag_is_no_address(name: str) -> None:
    assert ChatModel(model=name).model == name


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai/gpt-4o-mini", "https://api.openai.com:443"),
        ("anthropic/claude-3-5-haiku", "https://api.anthropic.com:443"),
        ("gpt-4o-mini", "https://api.openai.com:443"),
        ("gemini/gemini-2.0-flash", "https://generativelanguage.googleapis.com:443"),
        ("mistral/mistral-small", "https://api.mistral.ai:443"),
        ("groq/any", "https://api.groq.com:443"),
        ("ollama/llama3", "http://localhost:11434"),
        ("ollama_chat/llama3", "http://localhost:11434"),
        ("bedrock/eu-west-1/x", "https://bedrock-runtime.eu-west-1.amazonaws.com:443"),
    ],
)
def test_the_server_of_a_provider_is_known(model: str, expected: str) -> None:
    assert expected in destination(model, None).origins
    assert destination(model, "http://h.example/v1").origins == {"http://h.example:80"}


@pytest.mark.parametrize(
    "model",
    [
        *("petals/x", "triton/x", "oobabooga/x", "azure/x", "custom/x", "custom_openai/x", "sagemaker/x"),
        *("nonsense/x", "langflow/x", "a2a/x", "github_copilot/x", "chatgpt/x", "bedrock/evil.example#/x"),
    ],
)
def test_a_model_whose_server_cannot_be_known_is_refused(
    gateway: Gateway, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_REGION_NAME"):
        monkeypatch.setenv(name, "x.evil.example/#")
    with pytest.raises(UnknownServerError):
        destination(model, None)
    assert unreachable(model, None)
    assert ask(gateway, model).status in {Status.ERROR, Status.NOT_RUN}
    assert destination(model, "http://127.0.0.1:1/v1").origins == {"http://127.0.0.1:1"}


def test_the_environment_names_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://one.example/v1")
    monkeypatch.setenv("OLLAMA_API_BASE", "http://two.example:1")
    assert destination("openai/x", None).origins == {"http://one.example:80"}
    assert destination("ollama_chat/x", None).origins == {"http://two.example:1"}


@pytest.mark.parametrize("model", ["openai/any", "mistral/any", "anthropic/any"])
@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(
    gateway: Gateway, model: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(name, "sk-live-0123456789abcdefghij")
    gateway.retries = 0
    with FakeOpenAI(respond=lambda _: answer("stolen")) as thief:
        away = Scripted(b"", status, {"Location": f"{thief.api_base}/chat/completions"})
        with FakeOpenAI(away) as server:
            reply = ask(gateway, model, server.api_base)
        assert (len(server.requests), thief.requests) == (1, [])
    assert reply.status is Status.ERROR
    assert origin(thief.api_base) in str(reply.reason)


def test_litellm_cannot_go_elsewhere(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a provider's client makes of a name does not matter: the gate is in its HTTP client."""
    with FakeOpenAI(respond=lambda _: answer("stolen")) as thief:
        for client in ("openai/any", "anthropic/any"):
            with (
                only_to(destination(client, "http://127.0.0.1:9")),
                pytest.raises(APIError) as found,
            ):
                litellm().completion(
                    model=client,
                    messages=[{"role": "user", "content": "passage"}],
                    api_base=thief.api_base,
                    api_key="sk-live-0123456789abcdefghij",
                    max_retries=0,
                )
            assert "not sent to" in str(call_failures.obstacle(found.value, client, None, answered=True))
        with pytest.raises(NotAllowedError), guard_client(httpx.Client()) as outside:
            outside.get(thief.api_base)
        assert thief.requests == []


def test_the_same_host_may_turn_to_https() -> None:
    allowed = destination("openai/x", "http://h.example/v1")
    assert allowed.admits(httpx.URL("https://h.example/v1"))
    assert not allowed.admits(httpx.URL("https://h.example:8443/v1"))
    assert not destination("openai/x", "https://h.example/v1").admits(httpx.URL("http://h.example/v1"))


USER, PASSWORD, KEY = "user-canary-0001", "password-canary-0002", "query-canary-0003"
SECRET = f"://{USER}:{PASSWORD}@"


@pytest.mark.parametrize("model", ["openai/any", "mistral/any", "anthropic/any"])
def test_credentials_of_an_address_are_sent_and_never_held(
    gateway: Gateway, server: FakeOpenAI, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(name, "sk-live-0123456789abcdefghij")
    address = server.api_base.replace("://", SECRET) + f"?key={KEY}"
    chat = ChatModel(model=model, api_base=address)
    assert chat.api_base == server.api_base
    server.respond = lambda _: failure(400, f"no {USER} {PASSWORD} {KEY}")
    reply = gateway.ask(chat, [{"role": "user", "content": "Who?"}])
    (got,) = server.requests
    assert got.path.endswith(f"?key={KEY}")
    basic = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    headers = {name.lower(): value for name, value in got.headers.items()}
    assert headers["authorization"] == f"Basic {basic}"
    held = f"{chat!r} {chat.model_dump_json()} {reply!r} {request_context(server.api_base)!r}"
    assert not [secret for secret in (USER, PASSWORD, KEY, basic) if secret in held]


def test_an_address_with_credentials_is_the_same_server(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ChatModel(model="openai/x", api_base="http://h.example/v1")
    secret = ChatModel(model="openai/x", api_base=f"http{SECRET}h.example/v1?key={KEY}")
    assert plain == secret
    assert plain.meaning() == secret.meaning()
    monkeypatch.setenv("OPENAI_API_BASE", f"http{SECRET}h.example/v1?key={KEY}")
    from_environment = ChatModel(model="openai/x").served_by()
    monkeypatch.setenv("OPENAI_API_BASE", "http://h.example/v1")
    assert ChatModel(model="openai/x").served_by() == from_environment


@pytest.mark.parametrize(
    "address", ["http://", "http://a b/v1", "http://a\\@b/", "http://h:99999/", "ftp://h"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(Address).validate_python(address)
    assert "address" in str(found.value)


def test_an_address_that_is_refused_tells_no_secret() -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(Address).validate_python(f"http{SECRET}h.example:99999/v1?key={KEY}")
    said = str(found.value.errors(include_input=False))
    assert not [secret for secret in (USER, PASSWORD, KEY) if secret in said]


def test_nothing_is_carried_where_nothing_was_written() -> None:
    assert public("http://h.example/v1") == "http://h.example/v1"
    assert request_context("http://other.example/v1") is None


def test_a_webhook_of_a_study_is_a_secret_wherever_it_is_said() -> None:
    token = "-".join(["hookcanary", "0123456789"])
    url = f"https://chat.example/x/{token}"
    assert url not in repr(Alerts(webhook=SecretStr(url)))
    assert without_secrets({"id": [f"a {token}", url]}) == {"id": ["a ***", "***"]}


@pytest.mark.parametrize("model", ["openai/any", "mistral/any"])
@pytest.mark.parametrize("drafted", [False, True])
def test_secrets_that_a_server_echoes_are_not_kept(
    gateway: Gateway, server: FakeOpenAI, model: str, drafted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = 'canary-"key\\4711'
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("MISTRAL_API_KEY", key)
    body = json.loads(answer(f"Your key is {key}.").body)
    body |= {"model": key, "id": key, "system_fingerprint": f"x {PASSWORD}", "extra": [{key: key}]}
    server.respond = lambda _: Scripted(json.dumps(body).encode(), is_plain=True)
    base = server.api_base.replace("://", SECRET)
    reply = gateway.ask(
        ChatModel(model=model, api_base=base), [{"role": "user", "content": "Who?"}], drafted=drafted
    )
    assert reply.text == "Your key is ***."
    kept = b"".join(path.read_bytes() for path in gateway.home.root.rglob("*") if path.is_file())
    assert b"Your key is ***" in kept
    for secret in (key, json.dumps(key)[1:-1], json.dumps(json.dumps(key)[1:-1])[1:-1], PASSWORD):
        assert secret.encode() not in kept, secret
        assert secret not in repr(reply)
    assert os.environ["OPENAI_API_KEY"] == key
