"""`assay run` is stopped wherever it is: it ends, leaves nobody and no lock, and the next run goes on."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.openai_server import FakeOpenAI, answer, hang
from tests.fakes.processes import ROOT, assay_command, ignore_only, of_home, wait_until
from tests.fakes.site import Reply, article, index, serving
from tests.orchestration.conftest import TEXTS, Finished, replace_in

pytestmark = pytest.mark.models
QUOTE = "  quote: {extractive: {passages: 2, max_tokens: 40}}\n"
LOCAL = "  quote: {llm: {model: local/smollm2-135m-instruct, passages: 2, max_tokens: 3000}}\n"
PAID = "  quote: {llm: {model: openai/scripted, passages: 2, price: {read: 1, written: 1}}}\n"


@dataclass
class Running:
    """`assay run` of a study in a process of its own; what it says is in a file."""

    study: Path
    home: Home
    ignores: Collection[signal.Signals] = ()

    def __post_init__(self) -> None:
        self.said = self.study.with_name("stderr")
        with self.said.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(
                assay_command("run", str(self.study)),
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                preexec_fn=partial(ignore_only, self.ignores),  # noqa: PLW1509 -- calls of the system, and no lock
            )

    def until(self, true: Callable[[], object]) -> None:
        """Wait until something is so while it runs."""
        assert wait_until(lambda: true() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said.read_text()

    def has_said(self, words: str) -> bool:
        return words in self.said.read_text()

    def until_computing_with(self, weights: str) -> None:
        """Wait until it has loaded weights, and has computed for a third of a second since."""
        own = Path(f"/proc/{self.process.pid}")
        self.until(lambda: weights in (own / "maps").read_text())
        then = seconds_of(self.process.pid)
        self.until(lambda: seconds_of(self.process.pid) > then + 0.3)

    def stop(self, number: signal.Signals) -> None:
        """Stop it; look at how it ends, and that it leaves nobody and no lock."""
        self.process.send_signal(number)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
        said = self.said.read_text()
        assert self.process.returncode == 130, said
        assert "Traceback" not in said
        assert said.count("stopped. Finished results are stored; run the same command to continue.") == 1
        assert wait_until(lambda: not of_home(self.home.root)), of_home(self.home.root)
        with locked(self.home):
            pass

    def run_again(self) -> None:
        """Run it to its end."""
        done = assay("run", str(self.study))
        assert done.returncode == 0, done.stderr


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Hold the lock of a home, which nobody holds."""
    with (home.root / "run.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def test_while_a_local_model_writes(finished: Finished, weights: Callable[[str], Path]) -> None:
    weights("smollm2-135m-instruct")
    finished.edit(QUOTE, LOCAL)
    running = Running(finished.path, finished.home)
    running.until_computing_with(".gguf")
    running.stop(signal.SIGTERM)  # each signal ends native code and each wait alike: test_shutdown.py
    finished.edit(LOCAL, QUOTE)
    running.run_again()


def test_while_texts_are_embedded(assay_home: Home, study_path: Path) -> None:
    words = (f"Pier {n} is {n * 7} metres long and lies {n * 3} miles off the coast." for n in range(100))
    (study_path.parent / "texts" / "piers.txt").write_text(" ".join(words))
    running = Running(study_path, assay_home)
    running.until(lambda: running.has_said(" chunks "))
    running.until_computing_with("model.safetensors")
    running.stop(signal.SIGTERM)
    running.run_again()


def test_while_a_site_does_not_answer(assay_home: Home, study_path: Path) -> None:
    with serving() as site:
        site["/"] = Reply(index("/harbour.txt", "/ferry"))
        for path, name in (("/harbour.txt", "harbour.txt"), ("/ferry", "ferry.txt")):
            site[path] = Reply(article(name, text=TEXTS[name] * 3))
        source = f"{{spider: news, start: ['{site.url('/')}'], delay: 0, allow_private: true}}"
        replace_in(study_path, "{reader: folder, path: texts}", source)
        site.allow(2)  # robots.txt and the first page
        running = Running(study_path, assay_home)
        running.until(lambda: len(site.paths()) > 2)
        assert len(of_home(assay_home.root)) >= 2, "the command and its crawler"
        running.stop(signal.SIGINT)
        site.allow(None)
        done = assay("run", str(study_path), "--recrawl", "texts", "--only", "documents")
    assert done.returncode == 0, done.stderr
    assert len(read_manifest(assay_home, "texts")) == len(("/harbour.txt", "/ferry"))


def test_while_a_paid_server_is_waited_for(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    finished.edit(QUOTE, PAID)
    slow = True
    with FakeOpenAI(respond=lambda _got: hang(120) if slow else answer("Twelve pounds [1].")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        running = Running(finished.path, finished.home)
        running.until(lambda: server.requests)
        running.stop(signal.SIGINT)
        slow = False
        running.run_again()


def test_while_another_run_is_waited_for(finished: Finished) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGHUP, -signal.SIGHUP)):
        with locked(finished.home):
            running = Running(finished.path, finished.home)
            running.until(partial(running.has_said, "waiting for another run"))
            running.process.send_signal(number)
            assert running.process.wait(60) == code
    running.run_again()


def test_with_nohup_it_outlives_its_terminal(finished: Finished) -> None:
    with locked(finished.home):
        running = Running(finished.path, finished.home, ignores={signal.SIGHUP})
        running.until(lambda: running.has_said("waiting for another run"))
        running.process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(1)
    assert running.process.wait(100) == 0, running.said.read_text()


def test_in_a_stage(finished: Finished) -> None:
    """Each run goes on where the one before was stopped."""
    finished.edit("passages: 2", "passages: 1")
    finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}")
    stops = {"rankings": signal.SIGHUP, "answers": signal.SIGTERM}
    for stage, number in stops.items():
        running = Running(finished.path, finished.home)
        running.until(partial(running.has_said, f" {stage} "))
        if number is signal.SIGHUP:  # of a terminal that is closed: the system ends it
            running.process.send_signal(number)
            assert running.process.wait(60) == -number
            assert wait_until(lambda: not of_home(finished.home.root)), of_home(finished.home.root)
        else:
            running.stop(number)
    running.run_again()


def seconds_of(process: int) -> float:
    """Return the seconds of processor time that a process has used, as Linux tells it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
