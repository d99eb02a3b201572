"""The page of `assay leaderboard`: the report's figures, studies beside each other, and what runs now."""

from __future__ import annotations

import csv
import fcntl
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.reporting.contexts import running
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.live_boards import Boards, beside_each_other, live_board
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.standings import main_subset, subsets
from rag_assay.evals.study.run_studies import note
from rag_assay.orchestration.web.leaderboard.rows import cell_rows, overview
from rag_assay.orchestration.web.page_process import Site, serve_script
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversations import Begun, Conversations
from rag_assay.warehouse.paths import Home
from tests.fakes.browser import axe_violations, tab
from tests.fakes.commands import assay
from tests.fakes.town import PLAIN, Town
from tests.orchestration.web.conftest import own_port

RETRIEVERS = {"bm25": {"bm25": {"k": 5}}, "dense": {"dense": {"k": 5}}}
MANY = {**PLAIN, "retrievers": RETRIEVERS, "metrics": ["ndcg@10", "retrieval_latency", "abstention"]}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A home with two studies that ask the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_STUDIES", str(tmp_path_factory.mktemp("none")))
        found = Town(tmp_path_factory.mktemp("town"), patch)
        for name, more in (
            ("tiny", {}),
            ("twin", {"retrievers": {"bm25": {"bm25": {"k": 5}}}}),
        ):
            found.run({**MANY, "study": name, **more}, "home", f"{name}.yaml")
            note(found.bench.study, found.bench.home)
        yield found


@pytest.fixture(scope="module")
def home(town: Town) -> Home:
    return town.bench.home


def report_of(town: Town, home: Home, name: str) -> ReportData:
    (one,) = (one for one in Boards(home).studies([name]))
    assert one.board is not None, one.trouble
    return report_data(town.bench_of({**MANY, "study": name}, "home", f"{name}.yaml").study, home)


def test_the_figures_are_those_of_the_report(town: Town, home: Home) -> None:
    data = report_of(town, home, "tiny")
    study = town.bench_of({**MANY, "study": "tiny"}, "home", "tiny.yaml").study
    board = live_board(study, home)
    assert subsets(board.data) == subsets(data)
    assert board.data.metrics == data.metrics
    assert board.running == running(data)
    assert board.data.verdict == data.verdict
    (one,) = Boards(home).studies(["tiny"])
    assert one.progress is not None
    assert one.progress.done == one.progress.wanted == len(data.answers)
    rows = cell_rows(board, main_subset(data), data.primary, one.progress)
    stored = data.leaderboard.filter(data.leaderboard["metric"] == data.primary.name)
    assert dict(rows.select("cell", "value").iter_rows()) == dict(stored.select("cell", "value").iter_rows())
    assert dict(rows.select("cell", "rank").iter_rows()) == dict(stored.select("cell", "rank").iter_rows())
    top = overview([one]).row(0, named=True)
    assert (top["low"], top["high"], top["state"]) == (*rows.select("low", "high").row(0), "up to date")


def test_studies_stand_beside_each_other_only_where_they_were_asked_the_same(home: Home) -> None:
    found = {one.name: one.board for one in Boards(home).studies()}
    tiny, twin = found["tiny"], found["twin"]
    assert tiny is not None
    assert twin is not None
    half = replace(twin, data=replace(twin.data, study="half"), asked="fewer")
    lower = [replace(one, higher_is_better=not one.higher_is_better) for one in twin.data.metrics]
    other = replace(twin, data=replace(twin.data, study="other", metrics=tuple(lower)))
    none = replace(twin, data=replace(twin.data, study="none", metrics=twin.data.metrics[1:]))
    first = tiny.data.primary.name
    kept, why = beside_each_other([tiny, twin, half, other, none], first)
    assert [one.data.study for one in kept] == ["tiny", "twin"]
    assert why == {
        "half": "it was asked other questions than tiny, or has other evidence",
        "other": f"its {first} means something else",
        "none": f"it does not measure {first}",
    }


def test_a_study_that_was_changed_since_shows_why_and_no_figure(town: Town, home: Home) -> None:
    boards = Boards(home)
    path = town.folder / "twin.yaml"
    before = path.read_text()
    assert boards.studies(["twin"])[0].board is not None
    try:
        path.write_text(before.replace("k: 5", "k: 4"))
        (one,) = boards.studies(["twin"])
        assert one.board is None
        assert "no longer what was run" in (one.trouble or "")
        assert overview([one])["value"].to_list() == [None]
    finally:
        path.write_text(before)


def test_demo_conversations_are_of_the_studys_questions_and_measured_answers(town: Town, home: Home) -> None:
    data = report_of(town, home, "tiny")
    place = {"ASSAY_HOME": str(home.root)}
    path = str(town.folder / "tiny.yaml")
    kept = Conversations(home).begin("tiny", Begun(record_id="b"))
    found = [
        json.loads(assay("usage", path, "--demo", "--format", "json", **place).stdout)["panels"] for _ in "ab"
    ]
    assert found[0]["totals"] == found[1]["totals"]  # the second time in place of the first
    assert found[0]["totals"][0]["answers"] > 100
    with connect(home.database) as connection:
        said = connection.execute(
            "SELECT DISTINCT cell, question, answer, status, is_demo, answer_seconds FROM chat_turns"
        ).fetchall()
    questions = dict(data.questions.select("question_id", "question").iter_rows())
    columns = ("cell", "question_id", "answer", "status", "seconds")
    measured = {
        (cell, questions[question], answer, status, True, seconds)
        for cell, question, answer, status, seconds in data.answers.select(columns).iter_rows()
    }
    assert {*said} <= measured
    report = json.loads(assay("usage", path, "--format", "json", **place).stdout)["panels"]
    assert report["totals"][0]["answers"] == 0  # demo data is asked for
    assert report["leaders"] == found[0]["leaders"]
    gone = assay("usage", path, "--forget-demo", **place)
    assert "demo conversations are removed" in gone.stderr
    assert [*Conversations(home).stamps()] == [("tiny", kept)]


def test_the_page_shows_it_and_says_what_runs(browser: Any, home: Home, tmp_path: Path) -> None:
    environment = {"ASSAY_HOME": str(home.root), "ASSAY_STUDIES": str(tmp_path)}
    site = Site("leaderboard", (), "127.0.0.1", own_port(), environment)
    boards = {one.name: one for one in Boards(home).studies()}
    board = boards["tiny"].board
    assert board is not None
    with serve_script(site) as server, tab(browser) as shown, tab(browser, 390, scheme="dark") as narrow:
        server.wait_until_ready()
        for one in (shown, narrow):
            one.page.goto(f"{site.url}?study=tiny")
            one.page.wait_for_selector(".st-key-csv_beside button")
            one.page.wait_for_selector(".st-key-panel_cells svg.marks")
            text = one.page.locator(".st-key-board").inner_text().replace("\u2060", "")
            assert all(sentence in text for sentence in board.data.verdict.sentences)
            assert axe_violations(one.page) == []
            assert (
                one.page.evaluate("document.documentElement.scrollWidth") <= one.page.viewport_size["width"]
            )
        with shown.page.expect_download() as download:
            shown.page.locator(".st-key-csv_tiny-cells button").click()
        download.value.save_as(tmp_path / "cells.csv")
        rows = list(csv.DictReader(io.StringIO((tmp_path / "cells.csv").read_text("utf-8-sig"))))
        expected = cell_rows(board, board.main, board.data.primary, boards["tiny"].progress)
        assert [(row["cell"], float(row["value"])) for row in rows] == expected.select("cell", "value").rows()
        with (home.root / "run.lock").open("w") as lock:  # as a run holds it
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write("4242")
            lock.flush()
            shown.page.reload()
            shown.page.wait_for_selector("text=process 4242")
        assert shown.errors + narrow.errors == []
