"""Usage in the app: its figures are those of the views, and nothing in them runs."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.human.spreadsheets.formula_escaping import CSV
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server
from rag_assay.orchestration.web.usage import panels
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.usage import PANELS, UsageFilter, panel
from tests.fakes.browser import Tab, axe_violations, tab
from tests.fakes.commands import assay
from tests.fakes.forking import PROGRAM
from tests.fakes.used import SCRIPT, used_home
from tests.orchestration.web.conftest import site_of

EVERYTHING = "monitor?study=town&view=usage&days=All"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return used_home(tmp_path_factory.mktemp("used"))


@pytest.fixture(scope="module")
def url(home: Home) -> Iterator[str]:
    with Server(site_of(home, UiOptions("town"))) as server:
        server.wait_until_ready()
        yield server.site.url


def opened(shown: Tab, address: str) -> Tab:
    shown.page.on("dialog", lambda one: shown.errors.append(f"a script ran: {one.message}"))
    shown.page.goto(address)
    shown.page.wait_for_selector(".st-key-panel_people")
    return shown


def figures(shown: Tab) -> dict[str, str]:
    """What stands in the boxes at the top: name -> value."""
    shown.page.locator(".st-key-figures").get_by_text("Paid by chats").wait_for()  # their script comes late
    found = shown.page.locator(".st-key-figures [data-testid=stMetric]").all_inner_texts()
    return {name: value.strip() for name, _, value in (text.partition("\n") for text in found)}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_shows_what_the_views_say_and_nothing_runs(
    browser: Any, home: Home, url: str, width: int, scheme: str
) -> None:
    with tab(browser, width, scheme=scheme) as shown:
        opened(shown, url + EVERYTHING)
        with connect(home.database) as connection:
            found = {name: panel(connection, name, UsageFilter("town")) for name in PANELS}
        total = found["totals"].row(0, named=True)
        top = figures(shown)
        assert top["Questions"] == str(total["questions"])
        assert top["Paid by chats"] == panels.paid(panels.ENGLISH, found["models"], "chat")
        assert "of unknown price" in top["Paid by chats"]
        text = shown.page.locator(".st-key-board").inner_text().replace("\u2060", "")
        assert panels.totals_words(panels.ENGLISH, total) in text
        assert panels.share_words(panels.ENGLISH, found["feedback"].row(0, named=True)) in text
        assert panels.latency_words(panels.ENGLISH, found["latency"]) in text
        shown.page.wait_for_selector(".st-key-panel_people canvas, .st-key-panel_hours svg")
        names = shown.page.locator(".st-key-panel_documents svg.marks").text_content()
        assert "<script>" in names  # a title is drawn as it is
        assert axe_violations(shown.page) == []
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.errors == []


def test_filters_keep_demo_data_apart_and_a_file_has_what_the_view_has(
    browser: Any, home: Home, url: str, tmp_path: Path
) -> None:
    with tab(browser) as shown:
        opened(shown, f"{url}{EVERYTHING}&cell=%3Cscript%3E")  # there is no such cell: all
        with shown.page.expect_download() as download:
            shown.page.locator(".st-key-csv_unanswered button").click()
        download.value.save_as(tmp_path / "file.csv")
        assert figures(shown)["Questions"] != "1"
        assert "Demo data: nobody asked" not in shown.page.inner_text("body")
        shown.page.get_by_text("Demo data", exact=True).click()
        shown.page.wait_for_selector("text=not real usage")
        boxes = shown.page.locator(".st-key-figures [data-testid=stMetric]")
        boxes.filter(has_text="Questions").get_by_text("1", exact=True).wait_for()
        assert "Paid by runs" not in figures(shown)
        shown.page.reload()
        shown.page.wait_for_selector("text=not real usage")
        assert "study=town" in shown.page.url
        assert shown.errors == []
    rows = list(csv.DictReader(io.StringIO((tmp_path / "file.csv").read_text("utf-8-sig"))))
    done = assay("usage", "town", "--format", "csv", "--panel", "unanswered", ASSAY_HOME=str(home.root))
    assert rows == list(csv.DictReader(io.StringIO(done.stdout)))
    with connect(home.database) as connection:
        asked = panel(connection, "unanswered", UsageFilter("town"))["question"]
    assert [row["question"] for row in rows] == [CSV.written(one) for one in asked]


def test_two_look_while_another_process_writes_and_are_told_whom_they_wait_for(
    browser: Any, home: Home, url: str
) -> None:
    code = f"import duckdb, sys; c = duckdb.connect({str(home.database)!r}); print(1, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        tab(browser) as one,
        tab(browser, 390) as two,
        subprocess.Popen([sys.executable, "-m", PROGRAM, code], **pipes) as other,  # type: ignore[call-overload]
    ):
        assert other.stdout.readline() == b"1\n"
        for shown in (one, two):
            shown.page.goto(url + EVERYTHING, wait_until="domcontentloaded")
        for shown in (one, two):
            shown.page.wait_for_selector("text=continues by itself")
        other.communicate(b"\n")
        for shown in (one, two):
            shown.page.wait_for_selector(".st-key-panel_people")
        assert figures(one) == figures(two)
        assert "continues by itself" not in one.page.inner_text("body")


def test_it_is_printed_without_a_browser_and_mistakes_are_named(home: Home) -> None:
    place = str(home.root)
    done = assay("usage", "town", "--format", "json", "--cell", "town.plain.e.r.g", ASSAY_HOME=place)
    found = json.loads(done.stdout)
    with connect(home.database) as connection:
        wanted = UsageFilter("town", "town.plain.e.r.g")
        assert found["panels"]["totals"] == panel(connection, "totals", wanted).to_dicts()
    assert set(found["panels"]) == set(PANELS)
    for options, words_of_it in (
        (("--format", "csv"), "--panel totals | questions"),
        (("--format", "json", "--panel", "qestions"), "questions"),
        (("--since", "yesterday"), "'yesterday' is not a date"),
        (("--time-zone", "Mars"), "unknown time zone 'Mars'"),
        ((SCRIPT,), "script"),
    ):
        wrong = assay("usage", *options, ASSAY_HOME=place)
        assert (wrong.returncode, words_of_it in wrong.stderr) == (2, True), wrong.stderr
    gone = assay("usage", "--forget-demo", ASSAY_HOME=place)
    assert "1 demo conversations are removed" in gone.stderr
    assert len(Conversations(home).stamps()) == 6
