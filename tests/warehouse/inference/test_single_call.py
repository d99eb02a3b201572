"""One call, however its server behaves: attempts counted, faults typed, and the same by either client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference import chat_completions, single_call, throttle
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.replies import Reply, from_record
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.forking import PROGRAM
from tests.fakes.openai_server import (
    FakeOpenAI,
    Received,
    Scripted,
    answer,
    content_policy,
    dropped,
    failure,
    hang,
    invalid_json,
    rate_limited,
)

PLAIN = "openai/any"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(single_call, "cancellable_sleep", found.append)
    return found


def ask(gateway: Gateway, server: FakeOpenAI, text: str = "Who?", model: str = PLAIN, **more: Any) -> Reply:
    return gateway.complete(
        model, [{"role": "user", "content": text}], **{"api_base": server.api_base, **more}
    )


def test_attempts_are_counted_and_the_time_before_the_last_is_no_models_time(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(rate_limited(0.3), dropped(), answer("Nobody."))
    begin = time.perf_counter()
    reply = ask(gateway, server)
    elapsed = time.perf_counter() - begin
    assert (reply.status, reply.retries, len(server.requests)) == (Status.OK, 2, 3)
    assert 0.3 <= reply.queued <= elapsed - reply.seconds + 0.01
    assert ask(gateway, server) == Reply(**{**vars(reply), "cached": True})
    (row,) = gateway.cache.rows()
    assert (row["queued"], row["retries"]) == (reply.queued, 2)


def test_a_record_from_before_is_still_an_answer(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(answer("Nobody."))
    reply = ask(gateway, server)
    record = gateway.cache.get(reply.call_id)
    assert record is not None
    for name in ("queued", "retries"):
        del record[name]
    gateway.cache.put(reply.call_id, record)
    found = ask(gateway, server)
    assert (found.text, found.cached, found.queued, found.retries) == ("Nobody.", True, 0.0, 0)
    (row,) = CallCache(gateway.home).rows()
    assert (row["queued"], row["retries"]) == (None, None)
    assert from_record({**record, "queued": "long"}) is not None


def test_dropped_connections_are_tried_again_as_often_as_the_recipe_says(
    gateway: Gateway, server: FakeOpenAI, waits: list[float]
) -> None:
    server.add(dropped(), dropped(), answer("Nobody."))
    assert ask(gateway, server).text == "Nobody."
    server.add(*[dropped()] * 9)
    reply = ask(gateway, server, "Where?")
    assert (reply.status, reply.retries, len(server.requests)) == (Status.ERROR, 2, 6)
    assert len(waits) == 4


def test_a_wish_to_be_left_alone_holds_the_other_calls_back_too(gateway: Gateway, server: FakeOpenAI) -> None:
    began: list[float] = []

    def respond(_received: Received) -> Scripted:
        began.append(time.monotonic())
        return rate_limited(0.8) if len(began) == 2 else answer("Nobody.")

    server.respond = respond
    ask(gateway, server, "first")
    threads = [threading.Thread(target=ask, args=(gateway, server, "limited"))]
    threads[0].start()
    while len(began) < 2:
        time.sleep(0.01)
    time.sleep(0.2)
    threads += [threading.Thread(target=ask, args=(gateway, server, f"later {n}")) for n in range(4)]
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(began) == 7
    assert min(began[2:]) - began[1] >= 0.75


def test_a_busy_server_that_says_when_is_waited_for_as_a_rate_limit(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    busy = failure(503, "busy", headers={"Retry-After": "0.05"})
    server.add(*[busy] * 5, answer("Nobody."))
    reply = ask(gateway, server)
    assert (reply.status, reply.retries) == (Status.OK, 5), "more than the two of a passing fault"


def test_a_wrong_key_is_sent_once_though_many_ask_together(gateway: Gateway, server: FakeOpenAI) -> None:
    server.respond = lambda _received: Scripted(failure(401, "no such key").body, 401, delay=0.2)
    chat = ChatModel(model=PLAIN, api_base=server.api_base)
    asked = gateway.map(lambda n: ask(gateway, server, f"question {n}"), range(64), chat)
    assert Counter(reply.status for reply in asked) == {Status.ERROR: 1, Status.NOT_RUN: 63}
    assert len(server.requests) == 1


def test_a_model_that_has_answered_is_not_asked_alone_again(gateway: Gateway, server: FakeOpenAI) -> None:
    lock, in_flight, most = threading.Lock(), [0], [0]

    def respond(_received: Received) -> Scripted:
        with lock:
            in_flight[0] += 1
            most[0] = max(most[0], in_flight[0])
        time.sleep(0.1)
        with lock:
            in_flight[0] -= 1
        return answer("Nobody.")

    server.respond = respond
    chat = ChatModel(model=PLAIN, api_base=server.api_base)
    ask(gateway, server, "first")
    assert most[0] == 1
    list(gateway.map(lambda n: ask(gateway, server, f"question {n}"), range(64), chat))
    assert 16 < most[0] <= 32


def test_requests_a_minute_of_a_recipe_are_kept(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "MINUTE", 1.0)
    began: list[float] = []

    def respond(_received: Received) -> Scripted:
        began.append(time.monotonic())
        return answer("Nobody.")

    server.respond = respond
    limits = {"requests_per_minute": 3}
    chat = ChatModel.model_validate({"model": PLAIN, "api_base": server.api_base, "limits": limits})
    replies = list(
        gateway.map(lambda n: gateway.ask(chat, [{"role": "user", "content": f"{n}"}]), range(8), chat)
    )
    assert {reply.status for reply in replies} == {Status.OK}
    assert max(reply.queued for reply in replies) > 0.9  # 2, less what the threads begin late
    began.sort()
    # The server hears of a request a little later than it began here.
    assert all(began[n + 3] - began[n] > 0.5 for n in range(5))


SAME: dict[str, tuple[Scripted, Status]] = {
    "an answer": (answer(" Nobody. "), Status.OK),
    "cut": (answer("Nob", finish_reason="length"), Status.TRUNCATED),
    "empty": (answer(""), Status.PARSE_FAILED),
    "null": (answer(None), Status.PARSE_FAILED),
    "filtered": (answer("", finish_reason="content_filter"), Status.REFUSED),
    "a refusal": (answer(None, refusal="I cannot."), Status.REFUSED),
    "policy": (content_policy(), Status.REFUSED),
    "too long": (failure(400, "This model's maximum context length is 8 tokens."), Status.TRUNCATED),
    "too long for llama.cpp": (
        failure(400, "the request exceeds the available context size", code="exceed_context_size_error"),
        Status.TRUNCATED,
    ),
    "bad request": (failure(400, "no such parameter"), Status.ERROR),
    "no key": (failure(401, "no"), Status.ERROR),
    "no such model": (failure(404, "The model `any` does not exist", code="model_not_found"), Status.ERROR),
    "limited": (rate_limited(), Status.RATE_LIMITED),
    "no money": (failure(429, "quota", code="insufficient_quota"), Status.RATE_LIMITED),
    "a fault": (failure(500, "oh"), Status.ERROR),
    "a gateway's silence": (failure(504, "upstream"), Status.TIMEOUT),
    "silence": (hang(), Status.TIMEOUT),
    "dropped": (dropped(), Status.ERROR),
    "no JSON": (invalid_json(), Status.ERROR),
    "a list": (Scripted(b"[]"), Status.ERROR),
    "no choices": (Scripted(b'{"choices": []}'), Status.ERROR),
    "another shape": (Scripted(b'{"choices": {"0": null}, "usage": []}'), Status.ERROR),
    "garbage": (Scripted(b"\x00\xff<html>" * 50), Status.ERROR),
    "nothing": (Scripted(b""), Status.ERROR),
}


@pytest.mark.parametrize("name", SAME)
def test_both_clients_come_to_the_same_outcome(
    server: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scripted, status = SAME[name]
    server.add(scripted, scripted)
    plain = ask(Gateway(Home(tmp_path / "1"), retries=0, timeout=1.0), server)
    monkeypatch.setattr(chat_completions, "is_plain", lambda _model: False)
    other = ask(Gateway(Home(tmp_path / "2"), retries=0, timeout=1.0), server)
    assert len(server.requests) == 2
    assert server.requests[0].body == server.requests[1].body
    assert plain.status is other.status is status
    assert (plain.text, plain.raw, plain.prompt_tokens) == (other.text, other.raw, other.prompt_tokens)
    assert bool(plain.reason) is bool(other.reason) is (status is not Status.OK)
    for one in (plain, other):
        assert "Traceback" not in str(one.reason)


ASKS = """
import sys
from pathlib import Path
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
chat = ChatModel(model="openai/any", api_base=sys.argv[2])
sys.stdin.read(1)
with Gateway(Home(Path(sys.argv[1]))) as gateway:
    asked = gateway.map(lambda n: gateway.ask(chat, [{"role": "user", "content": f"{n}"}]), range(24), chat)
    print(*(reply.text for reply in asked))
"""


def test_processes_that_ask_the_same_at_once_pay_once(server: FakeOpenAI, tmp_path: Path) -> None:
    def respond(received: Received) -> Scripted:
        return Scripted(answer(f"to {received.body['messages'][0]['content']}.").body, delay=0.1)

    server.respond = respond
    command = [sys.executable, "-m", PROGRAM, ASKS, str(tmp_path), server.api_base]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    told = {process.communicate(timeout=120)[0] for process in processes}
    assert told == {" ".join(f"to {n}." for n in range(24)) + "\n"}
    assert len(server.requests) == 24


def test_bytes_that_are_no_text_are_a_typed_outcome(gateway: Gateway, server: FakeOpenAI) -> None:
    body = answer("Paris").body
    server.add(Scripted(body.replace(b"Paris", b"Par\xff\xfes")), answer("Paris"))
    reply = ask(gateway, server)
    assert (reply.status, reply.raw, len(server.requests)) == (Status.ERROR, None, 1)
    assert "utf-8" in str(reply.reason).lower()
    assert ask(gateway, server).text == "Paris", "it was not kept"


@pytest.mark.parametrize(
    "content", [7, ["Paris"], {"text": "Paris"}, True], ids=lambda value: type(value).__name__
)
def test_content_that_is_no_text_is_a_typed_outcome(
    gateway: Gateway, server: FakeOpenAI, content: object
) -> None:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    server.add(Scripted(json.dumps({"choices": [choice]}).encode()))
    reply = ask(gateway, server)
    assert (reply.status, reply.text, reply.raw) == (Status.ERROR, "", None)


def test_an_error_under_a_good_status_is_an_error(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(Scripted(json.dumps({"error": {"message": "out of cards"}}).encode()))
    reply = ask(gateway, server)
    assert reply.status is Status.ERROR
    assert "out of cards" in str(reply.reason)


def test_a_key_that_is_missing_is_told_by_name(gateway: Gateway) -> None:
    replies = [
        gateway.complete("openai/gpt-4o-mini", [{"role": "user", "content": str(n)}]) for n in range(2)
    ]
    assert [reply.status for reply in replies] == [Status.ERROR, Status.NOT_RUN]
    assert "OPENAI_API_KEY" in str(replies[0].reason)


def test_two_models_on_one_server_and_one_model_on_two_never_get_each_others_answers(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, with names swapped, a slash more, and the server named by the environment alone."""

    def saying(name: str) -> FakeOpenAI:
        def respond(received: Received) -> Scripted:
            text = received.body["messages"][0]["content"]
            return answer(f"{name} {received.body['model']} {text}")

        return FakeOpenAI(respond=respond)

    with saying("one") as one, saying("two") as two:
        servers = {"one": one, "two": two}
        monkeypatch.setenv("OPENAI_BASE_URL", two.api_base + "/")
        cases = [
            (name, model, base, f"question {n}")
            for n in range(12)
            for model in ("a", "b")
            for name, base in (
                ("one", one.api_base),
                ("one", one.api_base + "/"),
                ("two", two.api_base),
                ("two", None),
            )
        ]
        chat = ChatModel(model=PLAIN)
        replies = gateway.map(
            lambda case: gateway.complete(
                f"openai/{case[1]}", [{"role": "user", "content": case[3]}], api_base=case[2]
            ),
            cases,
            chat,
        )
        for (name, model, _, text), reply in zip(cases, replies, strict=True):
            assert reply.text == f"{name} {model} {text}"
        assert {name: len(found.requests) for name, found in servers.items()} == {"one": 24, "two": 24}
