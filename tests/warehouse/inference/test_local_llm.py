from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_assay.warehouse.cancellation import cancel_scope
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference import local_llm
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.local_llm import LocalServer
from rag_assay.warehouse.inference.streaming import PartialAnswer, on_token
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.generating import answer_messages

MODEL = "local/smollm2-135m-instruct"
PASSAGES = [
    "The lighthouse of Norderney was built in 1874. It is 54 metres high.",
    "The island has about 6,000 inhabitants. Cars may drive on it in winter only.",
]


@pytest.fixture(scope="module")
def gateway(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    weights("smollm2-135m-instruct")
    home = Home(tmp_path_factory.mktemp("home"))
    with Gateway(home, timeout=240, local_threads=1, local_context=1024) as made:
        yield made


@pytest.mark.models
def test_a_real_model_answers_from_the_passages(gateway: Gateway, capfd: pytest.CaptureFixture[str]) -> None:
    messages = answer_messages("When was the lighthouse built?", PASSAGES, "en")
    reply = gateway.complete(MODEL, messages, max_tokens=64)
    assert reply.status == Status.OK
    assert "1874" in reply.text
    assert reply.usd == 0.0
    assert reply.prompt_tokens is not None
    assert reply.prompt_tokens > 100
    assert gateway.complete(MODEL, messages, max_tokens=64).cached
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.models
def test_the_same_question_gets_the_same_answer_whatever_came_before(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": f"{PASSAGES[0]} How high is the lighthouse?"}]
    first = gateway.complete(MODEL, messages, max_tokens=24)
    other = [{"role": "user", "content": f"{PASSAGES[0]} When was it built?"}]
    gateway.complete(MODEL, other, max_tokens=8)
    assert gateway.complete(MODEL, messages, max_tokens=24, replicate=1).raw == first.raw


def test_the_server_uses_nothing_that_makes_answers_depend_on_earlier_calls_or_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import xllamacpp

    started: list[Any] = []
    nothing = SimpleNamespace(listening_address="http://127.0.0.1:9")
    monkeypatch.setattr(xllamacpp, "Server", lambda params: started.append(params) or nothing)
    (tmp_path / "model.gguf").touch()
    LocalServer("m", tmp_path, threads=2, context=64)
    (params,) = started
    disabled = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    assert (params.flash_attn_type, params.cache_prompt, params.cache_ram_mib) == (disabled, False, 0)
    assert (params.n_parallel, params.offline, params.hostnames) == (1, True, ["127.0.0.1"])


@pytest.mark.models
def test_the_number_of_threads_does_not_change_the_answer(
    gateway: Gateway, weights: Callable[[str], Path], tmp_path: Path
) -> None:
    weights("smollm2-135m-instruct")
    messages = [{"role": "user", "content": f"{PASSAGES[1]} Who may drive on the island, and when?"}]
    with Gateway(Home(tmp_path), timeout=240, local_threads=2, local_context=1024) as other:
        two = other.complete(MODEL, messages, max_tokens=12)
    one = gateway.complete(MODEL, messages, max_tokens=12)
    assert (one.raw, one.cached, two.cached) == (two.raw, False, False)
    assert one.call_id == two.call_id


@pytest.mark.models
def test_a_local_model_is_heard_while_it_writes_and_answers_the_same(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": "Who may drive on an island?"}]
    whole = gateway.complete(MODEL, messages, max_tokens=24)
    heard: list[PartialAnswer] = []
    with on_token(heard.append):
        reply = gateway.complete(MODEL, messages, max_tokens=24, replicate=1, drafted=True)
    same = {"call_id": "", "seconds": 0.0, "queued": 0.0}
    assert replace(reply, **same) == replace(whole, **same)
    texts = [one.text for one in heard]
    assert len(set(texts)) > 3
    assert all(reply.text.startswith(text) for text in texts)
    assert (texts[0], texts[-1]) == ("", reply.text)


@pytest.mark.models
def test_a_local_model_goes_on_after_an_answer_that_nobody_waits_for(gateway: Gateway) -> None:
    heard: list[PartialAnswer] = []
    with on_token(heard.append), cancel_scope(lambda: any(one.text for one in heard)):
        messages = [{"role": "user", "content": "Tell a very long story of a ship."}]
        reply = gateway.complete(MODEL, messages, max_tokens=900, drafted=True)
    assert reply.status is Status.NOT_RUN
    assert reply.raw
    after = gateway.complete(MODEL, [{"role": "user", "content": "Say yes."}], max_tokens=2)
    assert after.raw
    assert gateway.cache.get(reply.call_id) is None


@pytest.mark.models
def test_a_prompt_longer_than_the_context_is_a_typed_status(gateway: Gateway) -> None:
    reply = gateway.complete(MODEL, answer_messages("Why?", ["wide " * 3000], "en"), max_tokens=8)
    assert (reply.status, reply.text) == (Status.TRUNCATED, "")
    assert reply.reason is not None
    assert "1024" in reply.reason
    short = gateway.complete(MODEL, [{"role": "user", "content": "Say hello."}], max_tokens=8)
    assert short.status in {Status.OK, Status.TRUNCATED}  # the server lives on


@pytest.mark.models
def test_many_calls_are_answered_by_several_servers_as_by_one(
    gateway: Gateway, weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("smollm2-135m-instruct")
    monkeypatch.setattr(local_llm, "free_cores", lambda: 2)
    started: list[LocalServer] = []
    start = local_llm.LocalServer

    def counted(*args: Any, **options: Any) -> LocalServer:
        started.append(start(*args, **options))
        return started[-1]

    monkeypatch.setattr(local_llm, "LocalServer", counted)
    asked = [[{"role": "user", "content": f"How many {what}?"}] for what in ("people", "cars", "lamps")]
    chat = ChatModel(model=MODEL, max_tokens=12)
    with Gateway(Home(tmp_path), timeout=240, local_context=1024) as several:
        replies = list(several.map(lambda messages: several.ask(chat, messages), asked, chat))
        assert (len(started), {server.threads for server in started}) == (2, {1})
        again = several.ask(chat, asked[0], replicate=1)
        assert (again.raw, len(started)) == (replies[0].raw, 2), "a free server is used again"
    alone = [gateway.complete(MODEL, messages, max_tokens=12) for messages in asked]
    assert [reply.raw for reply in replies] == [reply.raw for reply in alone]


@pytest.mark.models
def test_a_closed_gateway_starts_again(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": "Say yes."}]
    gateway.complete(MODEL, messages, max_tokens=4)
    gateway.close()
    assert gateway.complete(MODEL, messages, max_tokens=4, replicate=1).raw


@pytest.mark.models
def test_the_port_needs_the_key_and_is_freed(weights: Callable[[str], Path]) -> None:
    server = LocalServer("tiny", weights("smollm2-135m-instruct"), threads=1, context=512)
    assert server.api_base.startswith("http://127.0.0.1:")
    request = urllib.request.Request(f"{server.api_base}/chat/completions", b"{}")  # noqa: S310 - loopback
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=10)  # noqa: S310 - loopback
    server.close()
    server.close()
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(request, timeout=10)  # noqa: S310 - loopback


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "torn.gguf").write_bytes(b"GGUF torn")
    with pytest.raises(AssayError, match=r"torn\.gguf: llama\.cpp could not load"):
        LocalServer("torn", tmp_path, threads=1)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=r"expected one \.gguf file, found 0"):
        LocalServer("none", tmp_path)
