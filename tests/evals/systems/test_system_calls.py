"""Calls of systems: what is sent, what is kept of the replies, and which failures stop further calls."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from rag_assay.evals.generation.contract import Answer, GenerationContext, Request
from rag_assay.evals.systems.contract import AnySystem, System
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure

SYSTEM: TypeAdapter[System] = TypeAdapter(AnySystem)
NO_RETRY = {"retries": 0, "at_once": 1}


def respond(received: Received) -> Scripted:
    body = received.body
    question = body["messages"][-1]["content"] if "messages" in body else body["question"]
    if "error" in question:
        return Scripted(json.dumps({"error": {"message": "the index is down"}}).encode())
    if "missing" in question:
        return failure(404, "no such topic")
    if "empty" in question:
        return Scripted(b"", headers={"Content-Type": "text/plain"})
    if "login" in question:
        return Scripted(b"<html>", headers={"Content-Type": "text/html"})
    if "messages" in body:
        return answer(f"{question}: application/json")
    usage = {"prompt_tokens": 9, "completion_tokens": 9}
    return Scripted(json.dumps({"a": f"{question}: application/json", "usage": usage}).encode())


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=respond) as fake:
        yield fake


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GenerationContext:
    monkeypatch.setattr(egress, "opened", None)
    return GenerationContext(
        Gateway(Home(tmp_path / "home")),
        lambda _: np.zeros((0, 1), np.float32),
        lambda _: [],
        folder=tmp_path,
    )


def ask(written: dict[str, Any], context: GenerationContext, *questions: str) -> list[Answer]:
    system = SYSTEM.validate_python(written)
    return list(system.generate([Request(one) for one in questions], context))


def http(server: FakeOpenAI, query: str = "", **more: Any) -> dict[str, Any]:
    url = server.api_base.removesuffix("/v1") + "/ask" + query
    return {"http": {"url": url, "answer": "$.a", "limits": NO_RETRY, **more}}


def openai(server: FakeOpenAI, **more: Any) -> dict[str, Any]:
    return {"openai": {"api_base": server.api_base, "model": "gpt-4o-mini", "limits": NO_RETRY, **more}}


def test_two_systems_at_one_address_send_their_own_query(
    server: FakeOpenAI, context: GenerationContext
) -> None:
    first, second = (http(server, query) for query in ("?index=a&tag=x&tag=y", "?index=b"))
    systems = [SYSTEM.validate_python(one) for one in (first, second)]
    for one in systems:
        one.generate([Request("why")], context)
    paths = [one.path.partition("?")[2] for one in server.requests]
    assert paths == ["index=a&tag=x&tag=y", "index=b"]


def test_headers_are_sent_once_and_no_plain_one_is_starred(
    server: FakeOpenAI, context: GenerationContext
) -> None:
    headers = {"accept": "application/json", "content-type": "application/json", "X-Key": "qwertz-12-qwertz"}
    (found,) = ask(http(server, headers=headers), context, "why qwertz-12-qwertz")
    assert found.text == "why ***: application/json"
    sent = [name.lower() for name in server.requests[-1].headers]
    assert sent.count("accept") == sent.count("content-type") == 1


def test_a_question_that_is_not_found_stops_no_other(server: FakeOpenAI, context: GenerationContext) -> None:
    found = ask(http(server), context, "one", "missing", "two")
    assert [one.status for one in found] == [Status.OK, Status.ERROR, Status.OK]


@pytest.mark.parametrize("word", ["error", "empty", "login"])
def test_a_failure_that_says_200_is_asked_again(
    word: str, server: FakeOpenAI, context: GenerationContext
) -> None:
    kinds = [openai(server)] if word == "error" else [openai(server), http(server)]
    for written in kinds:
        for _ in range(2):
            server.requests.clear()
            (found,) = ask(written, context, word)
            assert found.status is Status.ERROR
            assert len(server.requests) == 1
    if word == "login":
        (text,) = ask(http(server, answer="$"), context, word)
        assert text.text == "<html>"


def test_costs_are_known_where_a_price_is_given(server: FakeOpenAI, context: GenerationContext) -> None:
    (found,) = ask(openai(server), context, "why")
    assert (found.usd, found.prompt_tokens) == (None, 11)
    (found,) = ask(openai(server, price={"read": 1, "written": 1}), context, "where")
    assert found.usd == pytest.approx(18e-6)


def test_code_is_imported_before_the_clock_starts(context: GenerationContext) -> None:
    code = "import time\n\ntime.sleep(0.5)\n\ndef answer(question):\n    return 'yes'\n"
    (context.folder / "slow_rag.py").write_text(code)
    begun = time.perf_counter()
    (found,) = ask({"python": {"call": "slow_rag:answer"}}, context, "why")
    assert found.text == "yes"
    assert found.seconds is not None
    assert found.seconds <= time.perf_counter() - begun - 0.5
