"""Drafts of answers: seen while a model writes; in the end exactly what a call without streaming gives."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.cancellation import cancel_scope
from rag_assay.warehouse.inference import chat_streams, http_clients, http_limits, single_call, streaming
from rag_assay.warehouse.inference.chat_streams import events
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.streaming import PartialAnswer, on_token
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import (
    DONE,
    FakeOpenAI,
    Received,
    Scripted,
    answer,
    dropped,
    event,
    failure,
    stream_of,
    streamed,
    words,
)

LONG = "Zürich liegt am See 🌊 und hat 😀 viele Brücken; " * 20
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_call, "cancellable_sleep", lambda _seconds: None)


def ask(
    gateway: Gateway, server: FakeOpenAI, text: str = "Who?", *, model: str = "openai/any", **more: Any
) -> Reply:
    messages = [{"role": "user", "content": text}]
    return gateway.complete(model, messages, api_base=server.api_base, drafted=True, **more)


def heard(
    gateway: Gateway, server: FakeOpenAI, text: str = "Who?", **more: Any
) -> tuple[Reply, list[PartialAnswer]]:
    found: list[PartialAnswer] = []
    with on_token(found.append):
        reply = ask(gateway, server, text, **more)
    return reply, found


def growing(found: list[PartialAnswer]) -> None:
    """Each beginning is empty, and each text goes on from the one before it: never two halves."""
    assert [one.number for one in found] == sorted(one.number for one in found)
    before = PartialAnswer("", 0, "")
    for one in found:
        assert one.number > before.number or one.text.startswith(before.text)
        before = one


def record(home: Path, reply: Reply) -> dict[str, Any]:
    found = CallCache(Home(home)).get(reply.call_id)
    assert found is not None
    found["response"] = found["response"] and json.loads(found["response"])
    return {name: value for name, value in found.items() if name not in {"created_at", "seconds", "queued"}}


ANSWERS: dict[str, Scripted] = {
    "plain": answer(LONG),
    "white space": answer("  \n two words \n\n"),
    "cut": answer("Half of it", "length"),
    "filtered": answer("Some", "content_filter"),
    "empty": answer(""),
    "nothing": answer(None),
    "refused": answer(None, refusal="I will not say that."),
    "with thoughts": answer("So.", reasoning_content="Let me think."),
    "with first tokens": answer("Yes", tops={"Yes": 0.75, "No": 0.25}),
    "no counts": replace(answer("So."), body=answer("So.").body.replace(b'"usage"', b'"unused"')),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_streamed_call_is_kept_as_one_without_streaming(name: str, tmp_path: Path) -> None:
    with FakeOpenAI(ANSWERS[name], ANSWERS[name]) as server:
        with Gateway(Home(tmp_path / "whole")) as gateway:
            whole = ask(gateway, server, top_logprobs=2)
        with Gateway(Home(tmp_path / "streamed")) as gateway:
            reply, found = heard(gateway, server, top_logprobs=2)
            again, cached = heard(gateway, server, top_logprobs=2)
        assert [one.body.get("stream") for one in server.requests] == [None, True]
    alone = {"seconds": 0.0, "queued": 0.0}
    assert replace(reply, **alone) == replace(whole, **alone)
    assert record(tmp_path / "streamed", reply) == record(tmp_path / "whole", whole)
    assert again == replace(reply, cached=True)
    growing(found)
    if reply.text:
        assert (found[0].text, found[-1].text) == ("", reply.text)
        assert cached == [PartialAnswer("openai/any", 1, reply.text)]
    else:
        assert {one.text for one in [*found, *cached]} <= {""}


def test_only_what_somebody_listens_to_and_what_is_the_answer_is_streamed(gateway: Gateway) -> None:
    found: list[PartialAnswer] = []
    with FakeOpenAI(respond=lambda _received: answer("So.")) as server:
        ask(gateway, server, "nobody listens")
        with on_token(found.append):
            gateway.complete("openai/any", [{"role": "user", "content": "a check"}], api_base=server.api_base)
        assert not found
        with on_token(found.append):
            ask(gateway, server, "the answer")
        assert [one.body.get("stream") for one in server.requests] == [None, None, True]
    assert found[-1].text == "So."


def sliced(pieces: tuple[bytes, ...], seed: int) -> tuple[bytes, ...]:
    """The same bytes, cut anywhere: within events, lines and letters."""
    whole, rng = b"".join(pieces), random.Random(seed)
    ends = sorted({0, len(whole), *(rng.randrange(len(whole)) for _ in range(60))})
    return tuple(whole[start:end] for start, end in pairwise(ends))


def _written(change: Callable[[bytes], bytes]) -> tuple[bytes, ...]:
    return tuple(change(piece) for piece in streamed(answer(LONG)).pieces)


AS_UTF8 = [
    b"data: " + json.dumps(json.loads(one[6:]), ensure_ascii=False).encode() + b"\n\n"
    for one in streamed(answer(LONG)).pieces[:-1]
]
WAYS: dict[str, tuple[bytes, ...]] = {
    "cut anywhere": sliced((*AS_UTF8, DONE), 1),
    "CRLF, cut anywhere": sliced(_written(lambda one: one.replace(b"\n", b"\r\n")), 2),
    "CR": sliced(_written(lambda one: one.replace(b"\n", b"\r")), 3),
    "comments": _written(lambda one: b": alive\n\n" + one + b":\n"),
    "names and ids": (b"\xef\xbb\xbfretry: 3\n\n", *_written(lambda one: b"event: message\nid: 7\n" + one)),
    "no space": _written(lambda one: one.replace(b"data: ", b"data:")),
    "without [DONE]": streamed(answer(LONG)).pieces[:-1],
    "no blank line at the end": (*streamed(answer(LONG)).pieces[:-1], b"data: [DONE]"),
    "usage with the end": (
        *words("", *LONG.partition("See")),
        event({"choices": [{"delta": {}, "index": 0, "finish_reason": "stop"}], "usage": USAGE}),
        DONE,
    ),
    "halves of characters": (
        *[
            b'data: {"choices": [{"delta": {"content": "%b"}, "index": 0}]}\n\n' % one
            for one in json.dumps(LONG).strip('"').encode().replace(b"\\ude", b"|\\ude").split(b"|")
        ],
        event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE}),
        DONE,
    ),
    "further choices": (
        *words(LONG),
        event({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}),
        event({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}], "usage": USAGE}),
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_however_it_is_sent_the_text_is_the_same(name: str, gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(stream_of(*WAYS[name]))
    reply, found = heard(gateway, server)
    assert (reply.status, reply.reason, reply.raw) == (Status.OK, None, LONG)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.retries) == (11, 7, 0)
    assert found[-1].text == LONG.strip()
    growing(found)


def test_a_connection_is_used_again(gateway: Gateway, server: FakeOpenAI) -> None:
    server.respond = lambda _received: answer("So.")
    with http_clients.lent_line() as line:
        before = line
    for number in range(3):
        heard(gateway, server, str(number))
    with http_clients.lent_line() as line:
        assert line is before


BROKEN: dict[str, tuple[Scripted, Status, str]] = {
    "dropped": (stream_of(*words("Half ", "of it"), drops=True), Status.ERROR, "peer closed connection"),
    "ended": (stream_of(*words("Half ", "of it")), Status.ERROR, "ended before the answer did"),
    "closed": (
        stream_of(*words("Half ", "of it"), headers={"Connection": "close"}),
        Status.ERROR,
        "ended before the answer did",
    ),
    "cut in an event": (
        stream_of(*words("Half ", "of it"), b'data: {"choices": [{"del', drops=True),
        Status.ERROR,
        "peer closed",
    ),
    "an error": (
        stream_of(*words("Half ", "of it"), event({"error": {"message": "overloaded", "code": 503}})),
        Status.ERROR,
        "overloaded",
    ),
    "an event of error": (
        stream_of(*words("Half ", "of it"), b'event: error\ndata: {"message": "out of memory"}\n\n', DONE),
        Status.ERROR,
        "out of memory",
    ),
    "its limit": (
        stream_of(
            *words("Half ", "of it"), event({"error": {"type": "rate_limit_exceeded", "message": "slow"}})
        ),
        Status.RATE_LIMITED,
        "slow",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_is_tried_again_and_never_passes_for_an_answer(
    name: str, gateway: Gateway, server: FakeOpenAI
) -> None:
    broken, status, reason = BROKEN[name]
    server.add(broken, answer("The whole of it."))
    reply, found = heard(gateway, server, "tried again")
    assert (reply.status, reply.text, reply.retries) == (Status.OK, "The whole of it.", 1)
    assert [one.text for one in found if one.number == 1][-1] == "Half of it"
    assert next(one.text for one in found if one.number == 2) == ""
    growing(found)

    server.add(broken)
    reply, found = heard(gateway, server, "not tried again", retries=0)
    assert (reply.status, reply.text, reply.raw) == (status, "", "Half of it")
    assert reason in str(reply.reason)
    assert "broke off after 10 characters" in str(reply.reason)
    assert gateway.cache.get(reply.call_id) is None


def test_a_lost_server_leaves_what_had_come(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(stream_of(*words("Half "), drops=True), dropped(), dropped())
    reply, found = heard(gateway, server)
    assert (reply.status, reply.raw, reply.text, reply.retries) == (Status.ERROR, "Half ", "", 2)
    assert [one.number for one in found if not one.text] == [1, 2, 3]


LASTING: dict[str, tuple[Scripted, Status, str]] = {
    "no JSON": (stream_of(b"data: {half\n\n", DONE), Status.ERROR, "not JSON"),
    "no object": (stream_of(b"data: [1]\n\n", DONE), Status.ERROR, "not a JSON object"),
    "no choice": (stream_of(event({"choices": []}), DONE), Status.ERROR, "not a chat completion"),
    "no text": (
        stream_of(event({"choices": [{"delta": {"content": 7}}]}), DONE),
        Status.ERROR,
        "not of type str",
    ),
    "no UTF-8": (stream_of(b'data: {"a": "\xff"}\n\n', DONE), Status.ERROR, "not UTF-8"),
    "a page": (Scripted(b"<html>", headers={"Content-Type": "text/html"}), Status.ERROR, "not JSON"),
    "too deep": (stream_of(b"data: " + b"[" * 100_000 + b"\n\n"), Status.ERROR, "not JSON"),
    "a filter": (
        stream_of(*words("So"), event({"error": {"code": "content_filter", "message": "no"}})),
        Status.REFUSED,
        "no",
    ),
    "too long": (
        stream_of(event({"error": {"code": "context_length_exceeded", "message": "long"}})),
        Status.TRUNCATED,
        "long",
    ),
}


@pytest.mark.parametrize("name", LASTING)
def test_what_no_further_attempt_mends_is_not_tried_again(
    name: str, gateway: Gateway, server: FakeOpenAI
) -> None:
    scripted, status, reason = LASTING[name]
    server.add(scripted)
    reply, _found = heard(gateway, server)
    assert (reply.status, reply.text, reply.retries) == (status, "", 0)
    assert reason in str(reply.reason)


def test_silence_is_counted_between_events(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(streamed(answer("Slow but sure"), pause=0.4))
    reply, _found = heard(gateway, server, timeout=1.5)
    assert (reply.status, reply.text) == (Status.OK, "Slow but sure")

    server.add(stream_of(*words("Half"), stays=20))
    reply, _found = heard(gateway, server, "silent", timeout=1.0)
    assert (reply.status, reply.raw, reply.retries) == (Status.TIMEOUT, "Half", 0)


def test_an_endless_stream_is_cut_off(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "MOST_BYTES", 200_000)
    monkeypatch.setattr(streaming, "LONGEST", 100)
    server.add(stream_of(*words("again "), repeats=100_000))
    reply, found = heard(gateway, server)
    assert "cut off" in str(reply.reason)
    assert (reply.status, reply.text, reply.retries) == (Status.ERROR, "", 0)
    assert max(len(one.text) for one in found) <= 100 < len("again ") * len(server.requests) * 30
    assert len(str(reply.raw)) <= 100


def test_a_flood_of_pieces_is_told_in_few_drafts(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(stream_of(*words(*["a"] * 3_000, finish_reason="stop"), DONE))
    begin = time.monotonic()
    reply, found = heard(gateway, server)
    assert reply.raw == "a" * 3_000
    assert len(found) <= 3 + (time.monotonic() - begin) / streaming.EVERY
    growing(found)


def test_a_server_that_keeps_the_stream_open_is_not_waited_for(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_streams, "AFTER_END", 0.2)
    whole = streamed(answer("So.")).pieces
    server.add(stream_of(*whole[:-1], stays=20), stream_of(*whole, stays=20))
    for number in range(2):
        reply, _found = heard(gateway, server, str(number))
        assert (reply.status, reply.text, reply.retries) == (Status.OK, "So.", 0)
        assert reply.seconds < 10


def test_a_call_that_has_ended_cannot_cut_the_next_one() -> None:
    with http_clients.lent_line() as line:
        hang_up = line.lend()
    with http_clients.lent_line() as again:
        again.lend()
        hang_up()
        assert (again is line, again.is_cut) == (True, False)


def test_a_server_that_ignores_streams_is_one_draft(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(replace(answer("All at once."), is_plain=True))
    reply, found = heard(gateway, server)
    assert (reply.text, [one.text for one in found]) == ("All at once.", ["", "All at once."])
    assert len(server.requests) == 1


def _without(*refused: str) -> Callable[[Received], Scripted]:
    def respond(received: Received) -> Scripted:
        for name in refused:
            if name in received.body:
                return failure(400, f"Unrecognized request argument supplied: {name}")
        return answer("So.")

    return respond


@pytest.mark.parametrize(
    ("refused", "first", "then"),
    [
        (["stream_options"], [True, True], [None]),  # its streams have no counts
        (["stream_options", "stream"], [True, True, None], [None]),
        (["stream"], [True, None], [None]),
    ],
)
def test_a_server_that_refuses_streams_is_asked_as_it_wants(
    refused: list[str],
    first: list[bool | None],
    then: list[bool | None],
    gateway: Gateway,
    server: FakeOpenAI,
) -> None:
    server.respond = _without(*refused)
    reply, found = heard(gateway, server)
    assert (reply.status, reply.text, found[-1].text) == (Status.OK, "So.", "So.")
    growing(found)
    assert [one.body.get("stream") for one in server.requests] == first
    server.requests.clear()
    reply, found = heard(gateway, server, "once more")
    assert (reply.status, found[-1].text, reply.prompt_tokens) == (Status.OK, "So.", 11)
    assert [one.body.get("stream") for one in server.requests] == then


def test_a_server_that_counts_no_tokens_at_all_goes_on_streaming(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.respond = lambda _received: ANSWERS["no counts"]
    for number in range(4):
        reply, _found = heard(gateway, server, str(number))
        assert (reply.text, reply.tokens) == ("So.", None)
    assert [one.body.get("stream") for one in server.requests] == [True, None, True, True]


VLLM = "hosted_vllm/any"  # goes through LiteLLM


@pytest.mark.parametrize("name", ["plain", "cut", "filtered", "refused", "no counts"])
def test_through_litellm_the_answer_is_that_of_a_call_without_streaming(name: str, tmp_path: Path) -> None:
    with FakeOpenAI(respond=lambda _received: ANSWERS[name]) as server:
        with Gateway(Home(tmp_path / "whole")) as gateway:
            whole = ask(gateway, server, model=VLLM)
        with Gateway(Home(tmp_path / "streamed")) as gateway:
            reply, found = heard(gateway, server, model=VLLM)
    alone = {"seconds": 0.0, "queued": 0.0}
    assert replace(reply, **alone) == replace(whole, **alone)
    growing(found)
    assert found[-1].text == reply.text


# The client of LiteLLM passes over an event `error` whose data has no `error`.
@pytest.mark.parametrize("name", [name for name in BROKEN if name not in {"its limit", "an event of error"}])
def test_through_litellm_a_broken_stream_never_passes_for_an_answer(
    name: str, gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(BROKEN[name][0], answer("The whole of it."))
    reply, found = heard(gateway, server, model=VLLM)
    assert (reply.status, reply.text, reply.retries) == (Status.OK, "The whole of it.", 1)
    growing(found)
    server.add(BROKEN[name][0])
    reply, _found = heard(gateway, server, "not again", model=VLLM, retries=0)
    assert (reply.status, reply.text, reply.raw) == (Status.ERROR, "", "Half of it")


def test_through_litellm_silence_ends_a_stream_and_a_whole_text_is_one_draft(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(stream_of(*words("Half"), stays=20))
    reply, _found = heard(gateway, server, model=VLLM, timeout=1.0)
    assert (reply.status, reply.raw, reply.retries) == (Status.TIMEOUT, "Half", 0)
    server.respond = lambda _received: replace(answer("All at once."), is_plain=True)
    reply, found = heard(gateway, server, "whole", model=VLLM)
    assert (reply.text, [one.text for one in found]) == ("All at once.", ["", "All at once."])


def test_another_fault_of_the_request_is_told_as_without_streaming(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.respond = lambda _received: failure(400, "max_tokens is too large")
    reply, _found = heard(gateway, server)
    assert (reply.status, len(server.requests)) == (Status.ERROR, 2)
    assert "max_tokens is too large" in str(reply.reason)


@pytest.mark.parametrize("pieces", [(), tuple(words("Half "))])
def test_an_unwanted_answer_ends_its_request(
    pieces: tuple[bytes, ...], gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(stream_of(*pieces, stays=60) if pieces else replace(answer("late"), delay=60))
    unwanted = threading.Event()
    threading.Timer(0.5, unwanted.set).start()
    begin = time.monotonic()
    with cancel_scope(unwanted.is_set):
        reply, _found = heard(gateway, server)
    assert time.monotonic() - begin < 30
    assert (reply.status, reply.raw) == (Status.NOT_RUN, "Half " if pieces else None)
    assert not [thread for thread in threading.enumerate() if thread.name == "draft" and _still(thread)]
    server.add(answer("So."))
    assert heard(gateway, server)[0].status is Status.OK


def _still(thread: threading.Thread) -> bool:
    thread.join(10)
    return thread.is_alive()


def test_a_listener_that_fails_loses_drafts_and_no_answer(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(streamed(answer("One two three"), pause=0.1))
    calls: list[PartialAnswer] = []

    def fails(draft: PartialAnswer) -> None:
        calls.append(draft)
        raise ValueError("the page is gone")

    with on_token(fails):
        reply = ask(gateway, server)
    assert (reply.status, reply.text, len(calls)) == (Status.OK, "One two three", 1)


def test_a_slow_listener_does_not_slow_the_model_and_hears_the_end(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(streamed(answer("word " * 40), pause=0.01))
    found: list[PartialAnswer] = []

    def hear(draft: PartialAnswer) -> None:
        time.sleep(0.5)
        found.append(draft)

    with on_token(hear):
        reply = ask(gateway, server)
    assert (found[-1].text, len(found) < 10) == (reply.text, True)


def test_listeners_of_many_threads_hear_their_own_answers(gateway: Gateway, server: FakeOpenAI) -> None:
    server.respond = lambda received: streamed(
        answer(f"{received.body['messages'][0]['content']} " * 20), pause=0.01
    )
    found: dict[int, list[PartialAnswer]] = {number: [] for number in range(8)}

    def one(number: int) -> None:
        with on_token(found[number].append):
            ask(gateway, server, f"n{number}")

    threads = [threading.Thread(target=one, args=(number,)) for number in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, heard_there in found.items():
        growing(heard_there)
        assert set(" ".join(draft.text for draft in heard_there).split()) == {f"n{number}"}


def test_whatever_bytes_come_the_reader_ends() -> None:
    rng = random.Random(5)
    alphabet = [b"data:", b"data: ", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"{", b"}", b"a", b"\xef\xbb\xbf"]
    for _ in range(300):
        parts = [b"".join(rng.choices(alphabet, k=rng.randrange(6))) for _ in range(20)]
        assert list(events(parts)) == list(events([b"".join(parts)]))
