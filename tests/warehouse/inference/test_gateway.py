from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.cancellation import cancel_scope
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import budget as budgets
from rag_assay.warehouse.inference import single_call
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.forking import PROGRAM
from tests.fakes.openai_server import (
    FakeOpenAI,
    Received,
    Scripted,
    answer,
    content_policy,
    failure,
    hang,
    invalid_json,
)

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
KEY = "sk-live-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def _key(_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(gateway: Gateway, server: FakeOpenAI, model: str = "openai/any", **changes: Any) -> Reply:
    return gateway.complete(model, MESSAGES, **{"api_base": server.api_base, **changes})


def test_an_answer(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(answer(" Paris. \n", prompt_tokens=20, completion_tokens=3))
    reply = ask(gateway, server, max_tokens=40, seed=7)
    assert (reply.status, reply.reason, reply.text, reply.raw) == (Status.OK, None, "Paris.", " Paris. \n")
    assert (reply.prompt_tokens, reply.completion_tokens) == (20, 3)
    assert reply.seconds > 0
    assert reply.usd is None  # no price is known for this name
    assert not reply.cached
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body == {
        "model": "any",
        "messages": MESSAGES,
        "temperature": 0.0,
        "max_tokens": 40,
        "seed": 7,
    }


def test_a_second_call_comes_from_the_cache_as_it_was(
    gateway: Gateway, server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer("Paris."))
    first = ask(gateway, server)
    second = ask(Gateway(Home(tmp_path)), server)
    assert len(server.requests) == 1
    assert second.cached
    assert second == Reply(**{**vars(first), "cached": True})


def test_a_call_keeps_what_it_was_paid_for_and_another_purpose_asks_nothing_again(
    gateway: Gateway, server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer("Paris."))
    first = ask(gateway, server, purpose=Purpose("answers", "energy", "energy.a.b.c.d").of("q1"))
    again = ask(gateway, server, purpose=Purpose("judging", "other"))
    assert (again.call_id, again.cached) == (first.call_id, True)
    assert ask(gateway, server).cached
    assert len(server.requests) == 1
    (row,) = CallCache(Home(tmp_path)).rows()
    paid_for = [row[column] for column in ("purpose", "study", "cell", "question")]
    assert paid_for == ["answers", "energy", "energy.a.b.c.d", "q1"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'"caf\xe9 \xff\xfe"', Status.ERROR),
        (b'["Paris."]', Status.ERROR),
        (b"7", Status.ERROR),
        (b"null", Status.PARSE_FAILED),
        (b'""', Status.PARSE_FAILED),
        (b'" \\n\\t"', Status.PARSE_FAILED),
    ],
)
def test_what_is_no_text_is_a_typed_failure_with_a_reason(
    content: bytes, status: Status, server: FakeOpenAI, tmp_path: Path
) -> None:
    whole = answer("PLACE").body
    server.add(Scripted(whole.replace(b'"PLACE"', content)))
    with Gateway(Home(tmp_path), retries=0) as gateway:
        found = ask(gateway, server)
    assert (found.status, found.text) == (status, "")
    assert found.reason
    json.dumps([found.reason, found.raw], ensure_ascii=False).encode("utf-8")


def test_a_reply_says_who_was_asked(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(answer("Paris."), failure(400, "no"))
    assert ask(gateway, server).model == "openai/any"
    assert ask(gateway, server).model == "openai/any", "from the cache, too"
    assert ask(gateway, server, "openai/other").model == "openai/other", "a failed one, too"


@pytest.mark.parametrize(
    "change",
    [
        {"model": "openai/other"},
        {"replicate": 1},
        {"temperature": 0.5},
        {"max_tokens": 9},
        {"seed": 1},
        {"response_format": {"type": "json_object"}},
    ],
    ids=str,
)
def test_what_differs_is_asked_again(gateway: Gateway, server: FakeOpenAI, change: dict[str, Any]) -> None:
    server.add(answer("one"), answer("two"))
    assert ask(gateway, server).text == "one"
    changed = ask(gateway, server, **change)
    assert (changed.text, changed.cached) == ("two", False)


def test_another_server_is_another_model(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(answer("one"))
    with FakeOpenAI(answer("two")) as other:
        assert ask(gateway, server).text == "one"
        assert ask(gateway, other).text == "two"


def test_a_server_named_by_the_environment_is_another_model_too(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add(answer("one"))
    with FakeOpenAI(answer("two")) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        assert gateway.complete("openai/any", MESSAGES).text == "one"
        monkeypatch.setenv("OPENAI_BASE_URL", other.api_base)
        assert gateway.complete("openai/any", MESSAGES).text == "two"


def test_an_answer_cut_at_the_limit_keeps_its_text(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(answer("Paris is", finish_reason="length"))
    reply = ask(gateway, server, max_tokens=2)
    assert (reply.status, reply.text, reply.raw) == (Status.TRUNCATED, "Paris is", "Paris is")
    assert reply.reason is not None
    assert "max_tokens 2" in reply.reason
    assert ask(gateway, server, max_tokens=2).cached


@pytest.mark.parametrize(
    ("scripted", "status", "reason"),
    [
        (answer(""), Status.PARSE_FAILED, "empty"),
        (answer(None), Status.PARSE_FAILED, "empty"),
        (answer("", finish_reason="content_filter"), Status.REFUSED, "content filter"),
        (answer(None, refusal="I cannot help with that."), Status.REFUSED, "I cannot help"),
        (content_policy(), Status.REFUSED, "safety system"),
        (
            failure(400, "maximum context length is 8 tokens", code="context_length_exceeded"),
            Status.TRUNCATED,
            "8",
        ),
    ],
    ids=["empty", "null", "filter", "refusal", "policy", "context"],
)
def test_outcomes_that_another_run_would_not_mend_are_cached(
    gateway: Gateway, server: FakeOpenAI, scripted: Scripted, status: Status, reason: str
) -> None:
    server.add(scripted)
    reply = ask(gateway, server)
    assert (reply.status, reply.text) == (status, "")
    assert reply.reason is not None
    assert reason in reply.reason
    again = ask(gateway, server)
    assert (again.status, again.cached, len(server.requests)) == (status, True, 1)


@pytest.mark.parametrize(
    ("scripted", "reason"),
    [
        (failure(400, "no such parameter"), "no such parameter"),
        (failure(404, "no such model"), "no such model"),
        (failure(401, f"Incorrect API key provided: {KEY}"), "Incorrect API key"),
        (Scripted(b'{"choices": []}'), ""),
        (Scripted(b"[]"), ""),
    ],
    ids=["bad request", "not found", "key", "no choices", "a list"],
)
def test_other_failures_are_errors_with_a_reason(
    gateway: Gateway, server: FakeOpenAI, scripted: Scripted, reason: str
) -> None:
    server.add(scripted, answer("mended"))
    server.respond = lambda received: answer("mended")
    gateway.retries = 0
    reply = ask(gateway, server)
    assert (reply.status, reply.text, reply.raw) == (Status.ERROR, "", None)
    assert reply.seconds > 0  # a failure takes time too
    assert reply.reason
    assert "\n" not in reply.reason
    assert reason in reply.reason
    assert KEY not in reply.reason
    with Gateway(gateway.home) as next_run:
        assert ask(next_run, server).text == "mended"  # nothing of it was cached


def test_numbers_that_are_none_are_a_reason_without_a_traceback(
    gateway: Gateway, server: FakeOpenAI, capfd: pytest.CaptureFixture[str]
) -> None:
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": -5, "completion_tokens": 1e30, "total_tokens": "x"}
    body = {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}
    server.add(Scripted(json.dumps(body).encode()))
    gateway.retries = 0
    reply = ask(gateway, server)
    assert reply.status == Status.ERROR
    assert reply.reason
    assert "Traceback" not in reply.reason
    assert "site-packages" not in reply.reason
    assert "completion_tokens" in reply.reason
    assert capfd.readouterr() == ("", "")


def test_of_tracebacks_within_a_reason_the_last_error_is_kept() -> None:
    cause = (
        'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    f()\n    ^^^\nKeyError: 1\n'
    )
    text = f"no answer {cause}\nDuring handling of it:\n\n{cause.replace('KeyError: 1', 'a.Bad: two')}  lines"
    assert one_line(text) == "no answer a.Bad: two lines"
    assert one_line("cut Traceback (most recent call last):\n  File") == "cut"


def test_an_answer_that_is_no_json_is_an_error(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(invalid_json())
    gateway.retries = 0
    reply = ask(gateway, server)
    assert (reply.status, reply.text) == (Status.ERROR, "")


@pytest.mark.parametrize(
    "reason",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: sk-proj-********************abcd.",
        "header Authorization: Bearer abc.def",
        "GET https://user:password@host/v1",
        "GET https://host/v1?key=AbCd123&x=1",
        "POST https://host/v1?page=1&X-Amz-Signature=AbCd123",
        "POST https://hooks.example.org/services/T0/AbCd123?wait=1",
        "POST https://host/api/webhooks/1/AbCd123",
        "GET https://host/share/AbCd123AbCd123AbCd123AbCd123/page",
    ],
)
def test_a_reason_holds_no_secret(reason: str) -> None:
    shown = one_line(reason)
    assert "***" in shown
    for secret in (KEY, "abcd", "abc.def", "user:password", "AbCd123"):
        assert secret not in shown


@pytest.mark.parametrize(
    "url",
    [
        "https://host/2020/07/02/five-people-one-phone/?page=2&q=hook#top",
        "https://host/services/parking/permit-2024?author=Ann&design=3",
        "https://host/eli/reg/2016/679/oj?uri=CELEX:32016R0679",
        "https://host/commit/9f0d6e6b788a2cdc5b5eadbf58cbd94b0ae25926",
        "https://host/wiki/Harbour_Office_Opening_Hours_Of_2024.html",
    ],
)
def test_a_reason_names_a_page_as_it_is(url: str) -> None:
    assert one_line(f"GET {url}: 404") == f"GET {url}: 404"


def test_a_reason_holds_no_secret_in_another_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "zq9/very+odd=value"  # noqa: S105 -- invented
    monkeypatch.setenv("SOME_API_KEY_2", secret)
    encoded = b64encode(secret.encode()).decode()
    shown = one_line(f"a {secret} b {quote(secret, safe='')} c {encoded}")
    assert shown == "a *** b *** c ***"


@pytest.mark.parametrize("code", [408, 425, 500, 502, 503, 504, 520, 529])
def test_passing_failures_are_tried_again(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(single_call, "cancellable_sleep", lambda seconds: None)
    server.add(failure(code, "not now"), answer("Paris."))
    assert ask(gateway, server).text == "Paris."


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422, 501])
def test_lasting_failures_are_not(gateway: Gateway, server: FakeOpenAI, code: int) -> None:
    server.add(failure(code, "never"), answer("Paris."))
    assert (ask(gateway, server).status, len(server.requests)) == (Status.ERROR, 1)


def test_a_server_that_counts_no_tokens_leaves_them_and_the_price_open(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    choice = {"message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}
    server.add(Scripted(json.dumps({"choices": [choice]}).encode()))
    reply = ask(gateway, server, "openai/gpt-4o-mini")
    assert (reply.status, reply.text) == (Status.OK, "Paris.")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.usd) == (None, None, None)


def test_letters_that_are_none_are_question_marks_in_what_is_sent_and_kept(
    gateway: Gateway, server: FakeOpenAI
) -> None:
    server.add(answer("a\ud800b"))
    messages = [{"role": "user", "content": "\udfff?"}]
    reply = gateway.complete("openai/any", messages, api_base=server.api_base)
    assert (reply.status, reply.text, reply.raw) == (Status.OK, "a?b", "a?b")
    assert server.requests[0].body["messages"][0]["content"] == "??"
    assert gateway.complete("openai/any", messages, api_base=server.api_base).cached


def test_a_silent_server_is_a_timeout(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(hang(), answer("Paris."))
    gateway.timeout = 0.3
    reply = ask(gateway, server)
    assert (reply.status, len(server.requests)) == (Status.TIMEOUT, 1)
    assert 0.3 <= reply.seconds < 5
    gateway.timeout = 5.0
    assert ask(gateway, server).text == "Paris."


def test_a_server_that_is_not_there_is_an_error(gateway: Gateway) -> None:
    gateway.retries = 0
    with FakeOpenAI() as gone:
        base = gone.api_base
    reply = gateway.complete("openai/any", MESSAGES, api_base=base)
    assert reply.status == Status.ERROR


def test_a_provider_that_is_not_known_is_an_error(gateway: Gateway) -> None:
    reply = gateway.complete("nosuchprovider/any", MESSAGES)
    assert reply.status == Status.ERROR
    assert reply.reason is not None
    assert "nosuchprovider" in reply.reason


def test_the_budget_stops_paid_calls_and_not_cached_ones(tmp_path: Path, server: FakeOpenAI) -> None:
    # gpt-4o-mini costs 0.15 USD for a million prompt tokens and 0.60 USD for a million answer tokens.
    server.add(answer("one", prompt_tokens=1_000_000, completion_tokens=100_000))
    server.add(answer("two", prompt_tokens=1_000_000, completion_tokens=0))
    gateway = Gateway(Home(tmp_path), budget=Budget(0.3))
    first = ask(gateway, server, "openai/gpt-4o-mini")
    assert first.usd == pytest.approx(0.15 + 0.06)
    assert ask(gateway, server, "openai/gpt-4o-mini", replicate=1).status == Status.OK
    assert gateway.spent_usd == pytest.approx(0.21 + 0.15)
    stopped = ask(gateway, server, "openai/gpt-4o-mini", replicate=2)
    assert (stopped.status, len(server.requests)) == (Status.OVER_BUDGET, 2)
    assert stopped.usd is None
    again = ask(gateway, server, "openai/gpt-4o-mini")
    assert (again.status, again.cached, again.usd) == (Status.OK, True, first.usd)
    assert gateway.spent_usd == pytest.approx(0.36)


def test_the_budget_holds_for_many_threads(tmp_path: Path, server: FakeOpenAI) -> None:
    # Each call costs 0.15 USD: two of them reach the budget.
    server.respond = lambda received: answer("x", prompt_tokens=1_000_000, completion_tokens=0)
    gateway = Gateway(Home(tmp_path), budget=Budget(0.3))
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda n: ask(gateway, server, "openai/gpt-4o-mini", replicate=n), range(32)))
    assert len(server.requests) == 2
    assert gateway.spent_usd == pytest.approx(0.3)
    assert Counter(reply.status for reply in replies) == {Status.OK: 2, Status.OVER_BUDGET: 30}


@pytest.mark.parametrize(("is_cancelled", "status"), [(True, Status.NOT_RUN), (False, Status.TIMEOUT)])
def test_who_waits_for_the_budget_does_not_wait_for_ever(
    tmp_path: Path, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool, status: Status
) -> None:
    monkeypatch.setattr(budgets, "STALLED", 60.0 if is_cancelled else 0.5)
    held, gone = Budget(0.3), threading.Event()
    assert held.open("openai/gpt-4o-mini")  # a call that does not end
    if is_cancelled:
        threading.Timer(0.5, gone.set).start()
    with cancel_scope(gone.is_set):
        reply = ask(Gateway(Home(tmp_path), budget=held), server, "openai/gpt-4o-mini")
        vectors = EmbeddingApi("openai/gpt-4o-mini", base=server.api_base)
        vectors._budget = held
        with pytest.raises(EmbeddingError) as caught:
            vectors.embed(["text"])
    assert (reply.status, caught.value.status) == (status, status)
    assert server.requests == []


def test_what_many_threads_ask_at_once_is_paid_once(gateway: Gateway, server: FakeOpenAI) -> None:
    server.respond = lambda received: answer("x")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: ask(gateway, server), range(8)))
    assert len(server.requests) == 1
    assert sorted(reply.cached for reply in replies) == [False, *[True] * 7]
    assert not gateway.cache._turns._slots


ASKS_50 = """
import sys
from pathlib import Path
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import Reply
gateway = Gateway(Home(Path(sys.argv[1])))
for number in range(50):
    messages = [{"role": "user", "content": f"question {number}"}]
    assert gateway.complete("openai/any", messages, api_base=sys.argv[2]).text == f"question {number}"
"""


def test_a_killed_run_pays_at_most_the_call_under_way_again(tmp_path: Path, server: FakeOpenAI) -> None:
    held = threading.Event()

    def respond(received: Received) -> Scripted:
        if len(server.requests) == 25:
            held.set()
            time.sleep(0.2)  # under way while the process is killed
        return answer(received.body["messages"][0]["content"])

    server.respond = respond
    command = [sys.executable, "-m", PROGRAM, ASKS_50, str(tmp_path), server.api_base]
    killed = subprocess.Popen(command)
    assert held.wait(120)
    killed.kill()
    killed.wait()
    assert len(server.requests) == 25
    subprocess.run(command, check=True, timeout=300)
    asked = Counter(received.body["messages"][0]["content"] for received in server.requests)
    assert len(asked) == 50
    assert sum(asked.values()) <= 51
    assert len(list(CallCache(Home(tmp_path)).rows())) == 50
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_many_threads_share_a_gateway(gateway: Gateway, server: FakeOpenAI) -> None:
    def echo(received: Received) -> Scripted:
        return answer(received.body["messages"][0]["content"])

    server.respond = echo
    questions = [f"question {n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(
            pool.map(
                lambda question: gateway.complete(
                    "openai/any", [{"role": "user", "content": question}], api_base=server.api_base
                ),
                questions,
            )
        )
    assert [reply.text for reply in replies] == questions
    assert len({reply.call_id for reply in replies}) == 24


def test_the_calls_are_rows_without_the_key(gateway: Gateway, server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer("Paris."))
    reply = ask(gateway, server)
    (row,) = gateway.cache.rows()
    assert (row["call_id"], row["model"], row["status"]) == (reply.call_id, "openai/any", "ok")
    assert "capital of France" in row["request"]
    assert "Paris." in row["response"]
    assert not [path for path in tmp_path.rglob("*.json*") if KEY in path.read_text()]


def test_a_torn_record_is_asked_again(gateway: Gateway, server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer("one"), answer("two"))
    ask(gateway, server)
    (path,) = tmp_path.rglob("calls.jsonl")
    path.write_bytes(path.read_bytes()[:100])
    assert ask(gateway, server).text == "two"


def test_nothing_is_printed(gateway: Gateway, server: FakeOpenAI, capfd: pytest.CaptureFixture[str]) -> None:
    server.add(answer("one"), failure(400, "bad"))
    gateway.retries = 0
    ask(gateway, server)
    ask(gateway, server, seed=1)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [("local/smollm", "smollm2-135m-instruct"), ("local/all-MiniLM-L6-v2", "cannot answer")],
)
def test_a_local_name_that_cannot_answer_is_refused(gateway: Gateway, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gateway.complete(name, MESSAGES)


def test_weights_that_cannot_be_had_are_an_error(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    reply = gateway.complete("local/smollm2-135m-instruct", MESSAGES)
    assert reply.status == Status.ERROR
    assert reply.reason is not None
    assert "could not be fetched" in reply.reason
