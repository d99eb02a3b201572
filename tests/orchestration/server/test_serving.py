"""A server answers as its cell: to the clients of OpenAI and of MCP, to many at once, within its limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import openai
import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.export.revisions import answer_record
from rag_assay.evals.study.cells import Cell
from rag_assay.orchestration.authentication import FREE
from rag_assay.orchestration.commands.corpus_prompt import OpenCorpus
from rag_assay.orchestration.corpora.records import NamedCorpus
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.question_service.worker_pool import ServiceLimits, Workers
from rag_assay.orchestration.server import app as app_module
from rag_assay.orchestration.server.guard import AccessRules
from rag_assay.orchestration.server.parity_check import check
from rag_assay.orchestration.server.server_process import bind_port, serve_in_thread
from rag_assay.warehouse.inference import call_failures
from tests.fakes.commands import assay
from tests.fakes.openai_server import answer, dropped, hang
from tests.fakes.shipped import Shipped, reply, stored

pytestmark = pytest.mark.models
OWN = {"record_id", "at", "cached", "search_seconds", "answer_seconds", "seconds"}
QUESTION = "When does the boat 4 leave its pier?"


@dataclass
class Served:
    """A server that runs in this process, and a client of it."""

    url: str
    model: str
    client: httpx.Client
    desk: Workers
    log: list[str]

    def chat(self, question: str = QUESTION, **more: Any) -> httpx.Response:
        body = {"model": self.model, "messages": [{"role": "user", "content": question}], **more}
        return self.client.post("/v1/chat/completions", json=body)

    def openai(self, **more: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="word", max_retries=0, timeout=60, **more)


Serve = Callable[..., Served]


@pytest.fixture
def serve(work: BuildContext, shipped: Shipped) -> Iterator[Serve]:
    """(cell or what was opened, limits, token, US dollars) -> a server of it."""
    with ExitStack() as stack:

        def start(
            what: Cell | OpenedCell,
            limits: ServiceLimits | None = None,
            token: str | None = None,
            usd: float | None = None,
        ) -> Served:
            opened = what
            if isinstance(opened, Cell):
                opened = open_cell(shipped.bench.study, opened, work, usd, interactive=False)
            limits = limits or ServiceLimits()
            place, log = bind_port("127.0.0.1", 0), list[str]()
            rules = AccessRules(token, place.host, frozenset({"https://ours.example"}), limits.body)
            desk = stack.enter_context(serve_in_thread(opened, place, limits, rules, log.append))
            client = stack.enter_context(httpx.Client(base_url=place.url, timeout=60, trust_env=False))
            return Served(place.url, opened.key, client, desk, log)

        yield start


def failed(response: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, field and code of an error in OpenAI's form."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return response.status_code, error["param"], error["code"]


def test_what_a_server_says_is_held_against_what_was_measured(shipped: Shipped, serve: Serve) -> None:
    cell = shipped.cell("hybrid", "model")
    expected = [*(every := stored(shipped.bench, cell))[:2], *every[-2:]]
    server = serve(cell)
    found = check(server.url, server.model, expected, None)
    assert (found.same, found.asked, found.unlike) == (4, 4, {})
    other = replace(expected[0], passages=expected[1].passages)
    assert check(server.url, server.model, [other], None).unlike == {
        other.question["question_id"]: "passage 1 is another one"
    }


def test_every_surface_gives_the_same_answer(shipped: Shipped, work: BuildContext, serve: Serve) -> None:
    from mcp.client.client import Client

    cell, home = shipped.cell("hybrid", "model"), shipped.bench.home
    server = serve(cell)
    path = str(shipped.bench.study.path)
    corpus = NamedCorpus(name="boats", target=path, kind="study")

    async def told(question: str) -> dict[str, Any]:
        async with Client(f"{server.url}/mcp") as client:
            return (await client.call_tool("answer", {"question": question})).structured_content or {}

    with (
        closing(QuestionService(home, fills_tables=False)) as chat,
        open_cell(shipped.bench.study, cell, work, None) as opened,
        OpenCorpus(corpus, home, lambda study, _name: shipped.cell("hybrid", "model"), keep=False) as boats,
    ):
        for question in (QUESTION, "Welches Boot fährt nach Norden?", "Who was captain of the boat 3?"):
            name = chat.begin_conversation(cell.study)
            (turn,) = chat.ask(cell.study, name, QuestionRequest(question), [opened]).turns()
            (asked,) = json.loads(
                assay("ask", path, question, "--cell", cell.short, "--format", "json").stdout
            )
            alike = {
                "chat": turn.model_dump(mode="json"),
                "corpus": boats.ask(question).model_dump(mode="json"),
                "serve": server.chat(question).json()["assay"],
                "mcp": anyio.run(told, question),
            }
            boats.begin_conversation()
            for surface, one in alike.items():
                assert answer_record(one) == answer_record(alike["chat"]), surface
                assert (one["question"], one["question_id"]) == (turn.question, turn.question_id), surface
            assert (asked["answer"]["status"], asked["answer"]["text"]) == (turn.status, turn.answer)
            assert [one["chunk"] for one in asked["passages"]][:2] == list(turn.chunk_ids)


def test_the_client_of_openai(shipped: Shipped, serve: Serve) -> None:
    server = serve(shipped.cell("hybrid", "model"))
    client = server.openai()
    assert [one.id for one in client.models.list()] == [server.model]
    assert client.models.retrieve(server.model).owned_by == "rag-assay"
    asked: Any = {"model": server.model, "messages": [{"role": "user", "content": QUESTION}]}
    whole = client.chat.completions.create(**asked, temperature=0.7)
    message = whole.choices[0].message
    assert (message.role, message.refusal, whole.choices[0].finish_reason) == ("assistant", None, "stop")
    text, _, listed = (message.content or "").partition("\n\nSources:\n\n")
    assert text.startswith("It leaves soon [1].")
    assert listed.startswith("- [1] [boat-")
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (11, 7, 18)
    sources: Any = (whole.model_extra or {})["sources"]
    assert [one["number"] for one in sources] == [1, 2]
    assert sources[0]["url"].startswith("https://x.example/boat-")
    assert sources[0]["end"] - sources[0]["start"] == len(sources[0]["text"])
    pieces = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(one.choices[0].delta.content or "" for one in pieces if one.choices) == message.content
    assert len([one for one in pieces if one.choices and one.choices[0].delta.content]) > 2
    assert [one.choices[0].finish_reason for one in pieces if one.choices][-1] == "stop"
    assert pieces[-1].usage == whole.usage
    assert {one.id for one in pieces} == {pieces[0].id}
    declined = client.chat.completions.create(
        model=server.model, messages=[{"role": "user", "content": "Who was captain of boat 3?"}]
    )
    assert declined.choices[0].message.refusal == "The documents do not say."
    assert (declined.model_extra or {})["assay"]["declined"] == "model"
    assert declined.choices[0].message.content == "The documents do not say.", "no source is listed"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(**{**asked, "model": "gpt-4o"})
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**asked, n=2)
    assert (refused.value.param, refused.value.code) == ("n", "unsupported_parameter")


def test_many_at_once_are_answered_as_one_by_one(shipped: Shipped, serve: Serve) -> None:
    questions = [f"When does the boat {n} leave its pier, please?" for n in range(8)]

    def asked(server: Served, question: str) -> tuple[object, object]:
        chat = server.chat(question).json()
        found = server.client.post("/retrieve", json={"question": question}).json()
        turn = chat["assay"]
        return {name: turn[name] for name in turn.keys() - OWN}, found["passages"]

    for name in ("model", "gated"):
        server = serve(shipped.cell("hybrid", name))
        with ThreadPoolExecutor(8) as pool:
            at_once = list(pool.map(lambda one, server=server: asked(server, one), questions))
        assert at_once == [asked(server, one) for one in questions]


def test_passages_with_their_places_in_each_step(shipped: Shipped, serve: Serve) -> None:
    server = serve(shipped.cell("chain", "extractive"))
    body = {
        "question": "And what does it carry?",
        "conversation": ["Is there a boat 7?", "Yes, the boat 7 is there."],
        "asked_at": "2026-03-31",
        "k": 2,
    }
    found = server.client.post("/retrieve", json=body).json()
    assert [one["number"] for one in found["passages"]] == [1, 2]
    first = found["passages"][0]
    assert first["title"] == "boat-7"
    assert {"bm25", "dense"} <= {one["step"] for one in first["steps"]}
    assert all(one["rank"] >= 1 for one in first["steps"])
    (known,) = found["understood"]
    assert (known["kind"], known["text"], known["status"]) == ("follow_up", body["question"], "used")
    assert "7" in known["value"]
    bare = server.client.post("/retrieve", json={**body, "without": [known["removal"]]}).json()
    assert [one["status"] for one in bare["understood"]] == ["removed"]
    alone = server.client.post("/retrieve", json={**body, "conversation": []}).json()
    assert bare["passages"] == alone["passages"] != found["passages"]
    said = {name: body[name] for name in ("asked_at",)} | {"without": ["time_frame"]}
    answered = server.chat("Which posts were published in 2026, by boat 7?", **said).json()["assay"]
    assert [one["status"] for one in answered["understood"]] == ["removed"]
    assert answered["declined"] in {None, "min_score"}, "and not for its time frame"
    wrong = {"k": 0, "question": 7, "conversation": "x", "asked_at": "noon", "extra": 1}
    removals = ["x", [1], ["keywords"], [known["removal"]] * 51]
    for field, value in [*wrong.items(), *(("without", one) for one in removals)]:
        status, param, _code = failed(server.client.post("/retrieve", json={**body, field: value}))
        assert (status, (param or "").partition("[")[0]) == (400, field)
    assert failed(server.client.post("/retrieve", content=b"[" * 100_000))[0] == 400
    assert failed(server.client.post("/retrieve", json=[1]))[0] == 400


def test_the_client_of_mcp(shipped: Shipped, serve: Serve) -> None:
    from mcp.client.client import Client

    server = serve(shipped.cell("hybrid", "model"))

    async def talk() -> None:
        async with Client(f"{server.url}/mcp") as client:
            tools = await client.list_tools()
            assert {one.name: one.input_schema["required"] for one in tools.tools} == {
                "search": ["question"],
                "answer": ["question"],
            }
            found = await client.call_tool("search", {"question": QUESTION, "k": 2})
            passages = (found.structured_content or {})["passages"]
            assert [one["number"] for one in passages] == [1, 2]
            answered = await client.call_tool("answer", {"question": QUESTION})
            assert not answered.is_error
            assert (answered.structured_content or {})["status"] == "ok"
            assert "\n\nSources:\n\n- [1]" in answered.content[0].text
            for name, arguments in (("search", {}), ("answer", {"question": ""}), ("answer", {"k": 1})):
                wrong = await client.call_tool(name, arguments)
                assert wrong.is_error, name

    anyio.run(talk)
    plain = server.client.post("/mcp", json={"jsonrpc": "2.0"}, headers={"Host": "evil.example"})
    assert failed(plain)[0] == 421


def test_who_may_ask(shipped: Shipped, serve: Serve) -> None:
    cell = shipped.cell("hybrid", "gated")
    server = serve(cell)
    url = server.url.removeprefix("http://")
    for host, expected in (
        (url, 200),
        ("localhost:1", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("", 421),
    ):
        assert server.client.get("/v1/models", headers={"Host": host}).status_code == expected, host
    for origin, expected in (
        (f"http://{url}", 200),
        ("https://ours.example", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:1", 403),
    ):
        answered = server.client.get("/v1/models", headers={"Origin": origin})
        assert answered.status_code == expected, origin
        allowed = answered.headers.get("access-control-allow-origin")
        assert allowed == (origin if "ours" in origin else None)
    assert failed(server.client.get("/nowhere")) == (404, None, "not_found")
    assert failed(server.client.get("/retrieve"))[0] == 405
    health = server.client.get("/health").json()
    assert (health["status"], health["live"], health["ready"], health["model"]) == (
        "ok",
        True,
        True,
        cell.key,
    )
    closed = serve(cell, token="word")  # noqa: S106
    assert closed.client.get("/health").status_code == 200, "who watches a server has no token"
    for path in ("/v1/models", "/mcp", "/retrieve", "/nowhere"):
        for given in (b"", b"Bearer", b"Basic word"):
            answered = closed.client.get(path, headers=[(b"Authorization", given)])
            assert failed(answered) == (401, None, "invalid_api_key")
    for given in (b"Bearer other", "Bearer wörd".encode()):
        assert failed(closed.client.get("/mcp", headers=[(b"Authorization", given)]))[0] == 401
    assert [one.id for one in closed.openai().models.list()] == [cell.key]
    assert not [line for line in closed.log if "word" in line]


def test_guessed_tokens_are_refused_for_a_while_and_logged(shipped: Shipped, serve: Serve) -> None:
    server = serve(shipped.cell("hybrid", "gated"), token="word")  # noqa: S106

    def asked(token: str, client: httpx.Client = server.client) -> httpx.Response:
        return client.get("/v1/models", headers={"Authorization": f"Bearer {token}"})

    with ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(lambda n: asked(f"guess {n}"), range(40)))
    assert [one.status_code for one in refused].count(401) == FREE
    late = [one for one in refused if one.status_code != 401]
    assert {failed(one) for one in late} == {(429, None, "rate_limit_exceeded")}
    assert {one.headers["Retry-After"] for one in late} == {"1"}
    assert asked("word").status_code == 429, "the right one is not told from others meanwhile"
    assert server.client.get("/health").status_code == 200
    assert server.client.get("/v1/models").status_code == 401, "no token is no guess"
    lines = [line for line in server.log if line.startswith("wrong token for this server from 127.0.0.1")]
    assert len(lines) == FREE
    assert "locked for 1 s" in lines[-1]
    assert "guess" not in "".join(server.log)
    other = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=server.url, transport=other, timeout=60, trust_env=False) as client:
        assert asked("word", client).status_code == 200
        statuses = [asked("guess", client).status_code for _ in range(FREE + 1)]
        assert statuses == [401] * FREE + [429]
        assert asked("word", client).status_code == 200, "clients who have the token are not locked out"


def test_what_is_too_much(shipped: Shipped, serve: Serve) -> None:
    cell = shipped.cell("hybrid", "gated")
    server = serve(cell, ServiceLimits(body=2_000, question=50, per_minute=4))
    assert failed(server.chat("x" * 51)) == (400, "messages", "string_above_max_length")
    assert failed(server.chat(user="x" * 2_000)) == (413, None, "request_too_large")
    endless = (b"x" * 1_000 for _ in range(100))
    assert failed(server.client.post("/retrieve", content=endless)) == (413, None, "request_too_large")
    assert [server.chat(f"When does boat {n} leave?").status_code for n in range(4)] == [200] * 4
    refused = server.chat()
    assert failed(refused) == (429, None, "rate_limit_exceeded")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    for messages, field in (
        ([], "messages"),
        ("hello", "messages"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content"),
        ([{"role": "user", "content": " "}], "messages"),
        ([{"role": "user", "content": "\ud800"}], ""),  # half of a surrogate pair is no JSON
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "messages"),
        ([{"role": "user", "content": "a"}] * 201, "messages"),
    ):
        body = json.dumps({"model": cell.key, "messages": messages})
        assert failed(server.client.post("/v1/chat/completions", content=body.encode()[:2_000]))[0] == 400
        if len(body) < 2_000:
            param = failed(server.client.post("/v1/chat/completions", content=body))[1]
            assert (param or "").startswith(field), body
    for more, field in (
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"surprise": 1}, "surprise"),
        ({"stream": 1}, "stream"),
        ({"n": True}, "n"),
        ({"sources": "html"}, "sources"),
        ({"language": "german"}, "language"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ):
        assert failed(server.chat(**more))[:2] == (400, field)


@pytest.fixture
def script(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Lets the model's server answer so, one attempt a call."""
    monkeypatch.setattr(call_failures, "fault_of", lambda _error: call_failures.CallFailure(is_passing=False))
    yield shipped.server.add
    shipped.server.script.clear()
    shipped.server.respond = reply


def test_a_model_that_is_lost_is_an_error_and_not_an_answer(
    shipped: Shipped, serve: Serve, script: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(shipped.cell("hybrid", "model"), ServiceLimits(timeout=2, at_once=2, queued=0))
    script(dropped())
    assert failed(server.chat("Is boat 1 lost?")) == (503, None, "model_unavailable")
    assert server.chat("Is boat 1 lost?").status_code == 200, "and the next one is answered"
    script(answer("It is", "length"))
    assert server.chat("Is boat 2 cut?").json()["choices"][0]["finish_reason"] == "length"
    monkeypatch.setattr(app_module, "ALIVE", 0.05)
    script(replace(dropped(), delay=0.5))
    streamed = server.chat("Is boat 3 lost in mid-stream?", stream=True)
    assert streamed.status_code == 200
    *_, event, done, _ = streamed.text.split("\n\n")
    assert json.loads(event.removeprefix("data: "))["error"]["code"] == "model_unavailable"
    assert done == "data: [DONE]"
    assert streamed.text.startswith(": being answered")
    script(replace(dropped(), delay=0.5))
    stream = server.openai().chat.completions.create(
        model=server.model, messages=[{"role": "user", "content": "Is boat 4 lost?"}], stream=True
    )
    with pytest.raises(openai.APIError):
        list(stream)
    script(hang(4), hang(4))
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(server.chat, f"Is boat {n} slow?") for n in (5, 6)]
        while server.desk.under_way < 2:
            anyio.run(anyio.sleep, 0.01)
        assert failed(server.chat()) == (429, None, "rate_limit_exceeded")
        assert [failed(one.result()) for one in slow] == [(504, None, "timeout")] * 2


def test_a_paid_model_is_not_drained(shipped: Shipped, serve: Serve, script: Callable[..., None]) -> None:
    server = serve(shipped.cell("hybrid", "model"), usd=0.01)
    before = len(shipped.server.requests)
    assert server.chat("Is boat 9 dear?").status_code == 200, "a call may begin while nothing is spent"
    assert failed(server.chat("Is boat 10 dear?")) == (429, None, "insufficient_quota")
    again = server.chat("Is boat 9 dear?")
    assert again.json()["assay"]["cached"] is True
    assert len(shipped.server.requests) == before + 1


def test_the_log_says_that_it_was_asked_and_not_what(shipped: Shipped, serve: Serve) -> None:
    server = serve(shipped.cell("hybrid", "gated"))
    server.chat("What is my secret?")
    server.client.get("/v1/models?key=secret")
    server.client.get("/%0d%0aforged")
    assert [line.rsplit(" ", 2)[0] for line in server.log] == [
        "POST /v1/chat/completions 200",
        "GET /v1/models 200",
        "GET /??forged 404",
    ]


def test_a_hostile_document_stays_text(shipped: Shipped, serve: Serve, script: Callable[..., None]) -> None:
    server = serve(shipped.cell("hybrid", "model"))
    script(answer("<script>alert(1)</script> {{7*7}} [1]. \u202e\x00data: [DONE]\n\n[2]"))
    text = "".join(
        one.choices[0].delta.content or ""
        for one in server.openai().chat.completions.create(
            model=server.model, messages=[{"role": "user", "content": "Is boat 11 odd?"}], stream=True
        )
        if one.choices
    )
    assert text.startswith("<script>alert(1)</script> {{7*7}} [1].")
    assert "data: [DONE]" in text


def test_the_commands(shipped: Shipped, tmp_path: Path) -> None:
    study, folder = str(shipped.bench.study.path), str(tmp_path / "out")
    name = "t16.minilm.hybrid.gated"
    written = assay("export", study, name, folder, "--questions", "3")
    assert (written.returncode, written.stdout.strip()) == (0, folder)
    checked = assay("serve", folder, "--check", "9", "--port", "0")
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("3 of 3 questions were answered as they were measured")
    assert "--force replaces it" in assay("export", study, name, folder).stderr
    open_to_all = assay("serve", folder, "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert (open_to_all.returncode, "set ASSAY_SERVE_TOKEN" in open_to_all.stderr) == (2, True)
    (tmp_path / "out" / "recipe.yaml").write_text("")
    assert "recipe.yaml: has other bytes" in assay("serve", folder, "--port", "0").stderr
    assert assay("serve", folder, "a.cell", "--port", "0").returncode == 2
