"""`assay ui` as a command: what it refuses, how it ends, and two people beside a run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.browser import chromium, tab
from tests.fakes.commands import assay
from tests.fakes.processes import ROOT, assay_command, of_home, wait_until
from tests.fakes.terminal import Terminal
from tests.orchestration.conftest import Finished

RUBRICS = "rubrics:\n  points: {points: {}}\n"


@pytest.fixture
def scored(finished: Finished) -> Finished:
    """The small study, with a rubric."""
    finished.path.write_text(finished.path.read_text() + RUBRICS)
    return finished


@contextmanager
def annotating(study: Path, *options: str) -> Iterator[str]:
    """Serve the page of a study by a process of its own; give its address."""
    command = assay_command("ui", str(study), "--page", "review", *options)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield (process.stdout.readline() if process.stdout else "").strip()
        finally:
            process.kill()


def test_what_cannot_be_served_is_refused_in_a_sentence(finished: Finished) -> None:
    study = str(finished.path)
    open_to_all = assay("ui", study, "--host", "0.0.0.0")  # noqa: S104 -- it is refused
    assert open_to_all.returncode == 2
    assert "ASSAY_UI_PASSWORD" in open_to_all.stderr
    for name in (" ", "x" * 81, "a\u202eb"):
        assert assay("ui", study, "--name", name).returncode == 2
    assert of_home(finished.home.root) == {}


def test_ctrl_c_ends_the_page_and_its_server(scored: Finished) -> None:
    with Terminal(assay_command("ui", str(scored.path), "--name", "Ada Ü"), {}) as shown:
        shown.until("http://127.0.0.1:")  # it is said when the server answers
        assert len(of_home(scored.home.root)) == 2
        shown.type("\x03")
        assert shown.ended() == 130
    assert "Traceback" not in shown.written
    assert wait_until(lambda: not of_home(scored.home.root))


def test_two_people_score_while_the_study_is_run(scored: Finished) -> None:
    with annotating(scored.path) as url:
        assert url.startswith("http://127.0.0.1:")
        assert len(of_home(scored.home.root)) == 2
        with chromium() as browser, tab(browser) as ada, tab(browser) as ben:
            tabs: dict[str, Any] = {"Ada": ada, "Ben": ben}
            for name, at in tabs.items():
                at.open(f"{url}&name={name}")
            scored.edit("max_tokens: 40", "max_tokens: 30")
            command = assay_command("run", str(scored.path))
            pressed = 0
            with subprocess.Popen(
                command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            ) as run:
                while run.poll() is None:
                    for at in tabs.values():
                        at.press("5").press("u")
                        pressed += 2
                assert run.returncode == 0
            assert pressed >= 4
            assert [at.errors for at in tabs.values()] == [[], []]
            for at in tabs.values():
                at.press("3")
    assert wait_until(lambda: not of_home(scored.home.root)), "the server ends with the command"
    assert "ASSAY_UI_PASSWORD" not in os.environ
    rows = list(HumanScores(Home(scored.home.root)).rows("town"))
    assert len(rows) == pressed + 2
    assert len({row["score_id"] for row in rows}) == len(rows)
    assert [row["status"] for row in rows].count("withdrawn") == pressed // 2
    assert assay("run", str(scored.path)).returncode == 0
    with duckdb.connect(str(scored.home.database), read_only=True) as database:
        table = database.execute("SELECT count(*), count(DISTINCT score_id) FROM human_scores").fetchone()
    assert table == (len(rows), len(rows))
