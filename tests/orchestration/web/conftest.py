"""One browser for all tests of pages, and the page of a made-up queue."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.human.queue import Queue, write_queue
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server, Site
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.browser import chromium, tab
from tests.fakes.talked import ChatTab, Chatted, chatted


@dataclass
class Served:
    """A page that is served, of the queue in a home."""

    home: Home
    study: str
    site: Site
    server: Server

    def url(self, annotator: str | None = None) -> str:
        return f"{self.site.url}review?study={self.study}" + (f"&name={annotator}" if annotator else "")

    def forget(self) -> None:
        """Begin anew: nobody has scored anything."""
        shutil.rmtree(HumanScores(self.home).folder(self.study), ignore_errors=True)

    def rows(self, annotator: str | None = None) -> list[dict[str, Any]]:
        found = HumanScores(self.home).rows(self.study)
        return [row for row in found if annotator in {None, row["annotator"]}]


def own_port() -> int:
    """Return a port that no other file of tests takes, which may run beside this one."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def site_of(home: Home, options: UiOptions, **environment: str) -> Site:
    """Return the app on a home, at a port that no other file of tests takes."""
    return Site(options.to_argument(), "127.0.0.1", own_port(), {"ASSAY_HOME": str(home.root), **environment})


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser until the end of the file: while it is there, nothing else can run an event loop."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatted]:
    """The page Chat of a study that was run; it ends with the file of tests."""
    with chatted(tmp_path_factory.mktemp("chat")) as found:
        yield found


@pytest.fixture
def at(browser: Any) -> Iterator[ChatTab]:
    """A tab of its own for the page Chat, which has shown no error at the end."""
    with tab(browser) as found:
        yield ChatTab(found)
        assert found.errors == []


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Serve the page of a queue, with a password if there is one; it ends with the file of tests."""
    with ExitStack() as stack:

        def start(queue: Queue, password: str = "", folder: Path | None = None) -> Served:
            home = Home(folder or tmp_path_factory.mktemp("home"))
            write_queue(home, queue)
            site = site_of(home, UiOptions(queue.study, queue.study), ASSAY_UI_PASSWORD=password)
            server = stack.enter_context(Server(site))
            server.wait_until_ready()
            return Served(home, queue.study, site, server)

        yield start
