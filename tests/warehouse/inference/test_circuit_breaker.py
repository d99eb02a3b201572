"""A model that cannot be asked at all fails once, and is not asked for every question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.warehouse.inference import gateway as module
from rag_assay.warehouse.inference import single_call
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.model_servers import unreachable
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Scripted, answer, failure

KEYS = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    for name in (*KEYS, "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    waited: list[float] = []
    monkeypatch.setattr(single_call, "cancellable_sleep", waited.append)
    return waited


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Home(tmp_path), timeout=20.0) as made:
        yield made


def ask(gateway: Gateway, model: str, number: int, base: str | None = None) -> Reply:
    return gateway.complete(model, [{"role": "user", "content": f"question {number}"}], api_base=base)


def reasons(gateway: Gateway, model: str, base: str | None = None) -> tuple[list[Status], str]:
    replies = [ask(gateway, model, number, base) for number in range(4)]
    first = replies[0].reason
    assert first is not None
    for later in replies[1:]:
        assert later.reason == one_line(f"not asked, for another call has failed: {first}")
    return [reply.status for reply in replies], first


STOPPED = [Status.ERROR, Status.NOT_RUN, Status.NOT_RUN, Status.NOT_RUN]


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("gpt-4o-mini", "OPENAI_API_KEY"),
        ("gemini/gemini-1.5-flash", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_told_once_by_its_name(
    gateway: Gateway, waits: list[float], model: str, names: str
) -> None:
    statuses, reason = reasons(gateway, model)
    assert statuses == STOPPED
    assert reason.startswith(f"no key for `{model}`: set ")
    assert names in reason
    assert waits == []


def test_a_provider_that_is_none_is_told_once(gateway: Gateway, waits: list[float]) -> None:
    statuses, reason = reasons(gateway, "nonsense/foo")
    assert statuses == STOPPED
    assert "nonsense/foo" in reason
    assert waits == []


def test_a_refused_connection_is_told_once_after_its_retries(gateway: Gateway, waits: list[float]) -> None:
    with FakeOpenAI() as gone:
        base = gone.api_base
    statuses, reason = reasons(gateway, "openai/any", base)
    assert statuses == STOPPED
    assert reason == f"connection refused: nothing listens at {base}"
    assert len(waits) == 2
    assert 0 <= waits[0] <= 1
    assert 0 <= waits[1] <= 2


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("http://no-such-host.invalid/v1", "host not found: http://no-such-host.invalid/v1"),
        ("127.0.0.1:9/v1", "`127.0.0.1:9/v1` is not an address; it must begin with http:// or https://"),
    ],
)
def test_a_wrong_address_is_told_once(gateway: Gateway, base: str, reason: str) -> None:
    assert reasons(gateway, "openai/any", base) == (STOPPED, reason)


@pytest.mark.parametrize(
    "scripted",
    [
        failure(401, "Incorrect API key provided"),
        failure(402, "Payment required"),
        failure(403, "not for this project"),
        failure(404, "The model does not exist", code="model_not_found"),
    ],
    ids=lambda one: str(one.status),
)
def test_what_the_server_will_always_refuse_is_sent_once(gateway: Gateway, scripted: Scripted) -> None:
    with FakeOpenAI(respond=lambda _: scripted) as server:
        statuses, _ = reasons(gateway, "openai/any", server.api_base)
        assert (statuses, len(server.requests)) == (STOPPED, 1)


def test_an_account_without_money_is_asked_once(gateway: Gateway) -> None:
    broke = failure(429, "You exceeded your current quota", code="insufficient_quota")
    with FakeOpenAI(respond=lambda _: broke) as server:
        statuses, _ = reasons(gateway, "openai/any", server.api_base)
        assert (statuses, len(server.requests)) == ([Status.RATE_LIMITED, *STOPPED[1:]], 1)


@pytest.mark.parametrize("code", [400, 409, 422, 429, 500, 503])
def test_what_may_be_the_questions_own_fault_or_pass_stops_nothing(gateway: Gateway, code: int) -> None:
    gateway.retries = 0
    with FakeOpenAI(failure(code, "no"), answer("yes")) as server:
        assert ask(gateway, "openai/any", 0, server.api_base).status is not Status.OK
        assert ask(gateway, "openai/any", 1, server.api_base).text == "yes"


def test_a_403_after_an_answer_is_about_the_question(gateway: Gateway) -> None:
    with FakeOpenAI(answer("one"), failure(403, "this prompt is not allowed"), answer("two")) as server:
        replies = [ask(gateway, "openai/any", number, server.api_base) for number in range(3)]
    assert [reply.status for reply in replies] == [Status.OK, Status.ERROR, Status.OK]


def test_another_server_and_the_next_run_are_asked(gateway: Gateway) -> None:
    with FakeOpenAI(failure(401, "no")) as wrong, FakeOpenAI(answer("yes")) as right:
        ask(gateway, "openai/any", 0, wrong.api_base)
        assert ask(gateway, "openai/any", 0, right.api_base).text == "yes"
        wrong.add(answer("mended"))
        assert ask(gateway, "openai/any", 1, wrong.api_base).status is Status.NOT_RUN
        with Gateway(gateway.home) as next_run:
            assert ask(next_run, "openai/any", 1, wrong.api_base).text == "mended"


def test_what_is_cached_is_still_answered(gateway: Gateway) -> None:
    with FakeOpenAI(answer("one"), failure(401, "key was revoked")) as server:
        ask(gateway, "openai/any", 0, server.api_base)
        ask(gateway, "openai/any", 1, server.api_base)
        assert ask(gateway, "openai/any", 0, server.api_base).text == "one"


def test_a_local_model_that_cannot_be_had_is_looked_for_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[str] = []

    def fetch(name: str, home: Home) -> Path:
        tried.append(name)
        return tmp_path  # without a file of weights

    monkeypatch.setattr(module.models, "fetch", fetch)
    statuses, reason = reasons(gateway, "local/smollm2-135m-instruct")
    assert (statuses, tried) == (STOPPED, ["smollm2-135m-instruct"])
    assert "expected one .gguf file" in reason


def test_what_can_be_told_without_asking(monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    assert unreachable("local/smollm2-135m-instruct", None) is None
    assert unreachable("openai/any", "http://127.0.0.1:1/v1") is None
    assert "OPENAI_API_KEY" in str(unreachable("openai/gpt-4o", None))
    monkeypatch.setenv("GOOGLE_API_KEY", "x" * 20)
    assert unreachable("gemini/gemini-1.5-flash", None) is None
    assert "no provider" in str(unreachable("gpt-unheard-of", None))
    assert capfd.readouterr() == ("", "")


def test_who_answers_is_part_of_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ChatModel(model="openai/any").served_by() is None
    assert ChatModel(model="openai/any", api_base="http://here/v1").served_by() is None  # the recipe says it
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@here/v1")
    here = ChatModel(model="openai/any").served_by()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://there/v1")
    there = ChatModel(model="openai/any").served_by()
    assert here
    assert there
    assert here != there
    assert "secret" not in here
    assert ChatModel(model="mistral/any").served_by() is None
    assert ChatModel(model="local/smollm2-135m-instruct").served_by()
