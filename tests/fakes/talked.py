"""The football site of the demo as a small study that was run, and the app's page Chat on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server, Site
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversations import Begun, Conversation, Conversations
from rag_assay.warehouse.paths import Home
from tests.fakes.browser import LONGEST, Tab
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, streamed

STUDY = """\
study: liga
sources:
  reports:
    spider: news
    start: ["https://football.sample.example/fussball/ruhrlandliga/"]
    mirror: sample_site
    language: de
    delay: 0
corpus: {name: ruhrlandliga, sources: [reports]}
chunkings: {t128: {tokens: {size: 128, overlap: 42}}}
embedders: {hashed: {hashing: {size: 64}}}
retrievers:
  narrowed: [{follow_up: {}}, {time_frame: {}}, {entities: {days: 14, keywords: any}}, {hybrid: {k: 20}}]
generators:
  extractive: {extractive: {passages: 3, max_tokens: 60}}
  model: {llm: {model: openai/scripted, passages: 2, price: {read: 1, written: 1}}}
questions: [{file: liga.questions.yaml}]
metrics: [ndcg@10, abstention]
"""
QUESTIONS = """\
question_set: liga
language: de
asked_at: 2024-06-01
questions:
  - id: derby
    question: Wie ging das Kohlenbacher Heimspiel gegen die Eintracht in der Saison 2022/23 aus?
    ground_truth: Mit 1:3.
    evidence:
      - url: https://football.sample.example/fussball/ruhrlandliga/wesselrode-siegt-in-kohlenbach-brockhoff-trifft-a110921.html
        quote: "Mit 1:3 (0:2) unterlag die „Grubenelf“ vor 4105 Zuschauern am Förderturm."
"""
EXTRACTIVE, MODEL = "liga.t128.hashed.narrowed.extractive", "liga.t128.hashed.narrowed.model"


def scripted(received: Received) -> Scripted:
    """What the model says: to a prompt with a word in it what that asks for, else an answer with markers."""
    prompt = str(received.body["messages"][-1]["content"])
    if "ABBRUCH" in prompt:
        whole = streamed(answer("Es begann gut und brach dann ab " * 3), pause=0.05)
        return Scripted(b"", pieces=whole.pieces[:6], pause=0.05, drops=True)
    if "LANGSAM" in prompt:
        return replace(answer("Das **dauert** lange [1]. " * 40), pause=0.15)
    if "TEUER" in prompt.rpartition("Question")[2]:
        return answer("Es war teuer [1].", prompt_tokens=2_000_000)
    return answer("Mit **1:3** verlor Kohlenbach [1].\n\n- so [2]\n- <img src=x onerror='window.hit=1'>")


@dataclass
class Chatted:
    """The study in its home, the server of its model, and that of the page."""

    home: Home
    path: Path
    model: FakeOpenAI
    site: Site
    server: Server

    def url(self, **query: str) -> str:
        return f"{self.site.url}chat?" + "&".join(f"{name}={value}" for name, value in query.items())

    @property
    def chats(self) -> Conversations:
        return Conversations(self.home)

    def begin(self, *records: Any, person: str = "") -> str:
        """Make a conversation of records."""
        found = self.chats.begin("liga", Begun(record_id="begun", person=person))
        self.chats.append("liga", found, records)
        return found

    def conversation(self, name: str) -> Conversation:
        found = self.chats.read("liga", name)
        assert found is not None
        return found

    def selected(self, sql: str) -> list[tuple[Any, ...]]:
        with connect(self.home.database) as database:  # waits where the page is writing
            return database.execute(sql).fetchall()


@contextmanager
def chatted(folder: Path, study: str = STUDY) -> Iterator[Chatted]:
    """Run the study, and serve its page until the end of the block."""
    (folder / "liga.yaml").write_text(study, encoding="utf-8")
    (folder / "liga.questions.yaml").write_text(QUESTIONS, encoding="utf-8")
    home = Home(folder / "home")
    with FakeOpenAI(respond=scripted) as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(home.root))
        patch.setenv("DAGSTER_HOME", "")  # so that it is what it was, afterwards
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("OPENAI_BASE_URL", model.api_base)
        prepare()
        path = folder / "liga.yaml"
        report = Driver(read_study(path), home).run()
        assert report.ok, report
        site = site_of(path, home)
        with Server(site) as server:
            server.wait_until_ready()
            yield Chatted(home, path, model, site, server)


def site_of(study: Path, home: Home, cell: str = "") -> Site:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port = int(tried.getsockname()[1])
    options = UiOptions("liga", str(study), cell)
    return Site(options.to_argument(), "127.0.0.1", port, {"ASSAY_HOME": str(home.root)})


ANSWERED = """n => document.querySelectorAll(".as-facts").length >= n && !document.querySelector(".as-busy")
  && document.querySelector("[data-testid=stApp]").dataset.testScriptState === 'notRunning'"""


@dataclass
class ChatTab:
    """The page in a browser, as a person uses it."""

    at: Tab
    answers: int = field(default=0)

    @property
    def page(self) -> Any:
        return self.at.page

    def open(self, url: str) -> ChatTab:
        self.page.goto(url)
        self.page.locator("[data-testid=stChatInput] textarea").wait_for()
        self.page.locator(".st-key-cells button").first.wait_for(timeout=4 * LONGEST)
        self.answers = self.shown
        return self

    @property
    def shown(self) -> int:
        """How many answers are there, with their facts."""
        return int(self.page.locator(".as-facts").count())

    @property
    def id(self) -> str:
        """The conversation in the address."""
        return str(self.page.evaluate("new URLSearchParams(location.search).get('c')"))

    def put(self, question: str) -> ChatTab:
        """Type a question and send it; do not wait."""
        box = self.page.locator("[data-testid=stChatInput] textarea")
        box.fill(question)
        box.press("Enter")
        return self

    def ask(self, question: str) -> ChatTab:
        """Ask, and wait until the answer is there."""
        self.put(question)
        return self.wait()

    def wait(self) -> ChatTab:
        """Wait until one more answer is there than at the last time, and the page is drawn."""
        self.answers += 1
        self.page.wait_for_function(ANSWERED, arg=self.answers, timeout=4 * LONGEST)
        return self
