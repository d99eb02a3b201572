"""The journeys of a small study with hostile texts in a real Chromium, from a file and from a folder."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from rag_assay.evals.reporting import journey
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.page import folders_of, write_html
from tests.fakes.browser import Tab, axe_violations, chromium, tab
from tests.fakes.report_data import NDCG, OVERRIDE, report_data

HOSTILE = "a/b \"c\" '</script><script>document.title='gone'</script>&amp;=?#%41ü😀"
RTL = f"مرحبا{OVERRIDE}\x00 <img src=x onerror=\"document.title='gone'\">"
LONG = "word " * 200_000
A = "energy.tokens-128-42.minilm.bm25.extractive"
B = "energy.tokens-128-42.minilm.dense.extractive"


def hostile() -> ReportData:
    """Return a small study: the first question's id is hostile, and so are its text and its answers."""
    data = report_data(n_questions=20, chunkings=1, retrievers=2, generators=1)
    assert data.journey is not None

    def renamed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("question_id").replace({"q000": HOSTILE}))

    parts = {name: getattr(data, name) for name in ("questions", "scores", "answers", "hits", "losses")}
    frames = {name: renamed(frame) for name, frame in parts.items()}
    rows = {name: renamed(getattr(data.journey, name)) for name in ("hits", "ended", "taken", "lost")}
    first = pl.col("question_id") == HOSTILE
    asked = pl.when(first).then(pl.lit(RTL)).otherwise("question")
    said = pl.when(first & (pl.col("cell") == A)).then(pl.lit(LONG)).otherwise("answer")
    kept = pl.when(first & (pl.col("cell") == B)).then(pl.lit(f"the same [1] and {RTL}")).otherwise(said)
    frames["questions"] = frames["questions"].with_columns(asked.alias("question"))
    frames["answers"] = frames["answers"].with_columns(kept.alias("answer"))
    return dataclasses.replace(data, **frames, journey=dataclasses.replace(data.journey, **rows))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def data() -> ReportData:
    return hostile()


@pytest.fixture(scope="module")
def page(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(data, tmp_path_factory.mktemp("report") / "energy.html")


@pytest.fixture
def opened(browser: Any) -> Iterator[Tab]:
    with tab(browser) as found:
        found.page.context.set_offline(True)
        yield found
        assert found.errors == []
        assert "gone" not in found.page.title()


def go(opened: Tab, page: Path, question: str, a: str = A, b: str | None = B) -> None:
    cells = "".join(f"&{name}={quote(key, safe='')}" for name, key in (("a", a), ("b", b)) if key)
    opened.page.goto(f"{page.as_uri()}#q={quote(question, safe='')}{cells}")
    shown(opened, question)


def shown(opened: Tab, question: str) -> None:
    shows = "id => document.querySelector('.journey article')?.dataset.shown === id"
    opened.page.wait_for_function(shows, arg=question)


def says(opened: Tab, selector: str, text: str) -> None:
    """Wait until the first element that fits says a text among others."""
    waits = "([selector, text]) => document.querySelector(selector)?.innerText.includes(text)"
    opened.page.wait_for_function(waits, arg=[selector, text])


def where(opened: Tab) -> str:
    return opened.text(".journey .where")


def test_hostile_texts_stay_texts_and_an_answer_of_a_megabyte_is_shown(opened: Tab, page: Path) -> None:
    go(opened, page, HOSTILE)
    article = opened.page.locator(".journey article")
    text = article.inner_text()
    assert "</script><script>document.title=" in text  # the id
    assert "onerror=" in article.locator("h3").inner_text()
    assert OVERRIDE not in text
    assert article.locator("img, script").count() == 0
    assert len(article.locator(".side").first.locator(".long").first.inner_text()) > 999_000
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_axe_finds_nothing_serious_in_two_cells_side_by_side(opened: Tab, page: Path) -> None:
    go(opened, page, "q002")
    assert axe_violations(opened.page) == []


def test_an_address_leads_to_a_question_and_back_again(opened: Tab, page: Path) -> None:
    go(opened, page, "q003")
    assert where(opened) == "Question 4 of 20"
    opened.page.get_by_role("button", name="Next").click()
    shown(opened, "q004")
    assert opened.page.evaluate("document.activeElement.textContent") == "Next"
    opened.page.keyboard.press("k")
    shown(opened, "q003")
    opened.page.keyboard.press("ArrowRight")
    shown(opened, "q004")
    opened.page.go_back()
    shown(opened, "q003")
    opened.page.goto(f"{page.as_uri()}#q=nothing%22%3Cb%3E")
    says(opened, ".journey article", "asks no question")
    assert '“nothing"<b>”' in opened.text(".journey article")
    opened.page.goto(f"{page.as_uri()}#q=q003&a=none")
    says(opened, ".journey article", "has no cell")


def test_two_cells_differ_in_what_is_marked(opened: Tab, page: Path, data: ReportData) -> None:
    for question in ("q001", "q002", "q005"):
        go(opened, page, question)
        for name, key in (("A", A), ("B", B)):
            side = opened.page.locator(".journey .side").nth("AB".index(name))
            own = data.hits.filter((pl.col("cell") == key) & (pl.col("question_id") == question)).sort("rank")
            other = data.hits.filter((pl.col("cell") != key) & (pl.col("question_id") == question))
            hits = side.locator(".hits li")
            assert hits.count() == own.height
            for at, hit in enumerate(own.iter_rows(named=True)):
                alike = other.filter(
                    (pl.col("doc_id") == hit["doc_id"])
                    & (pl.col("start") < hit["end"])
                    & (pl.col("end") > hit["start"])
                )
                assert (f"only in {name}" in hits.nth(at).inner_text()) == (alike.height == 0)
                assert "rank after each step: bm25" in hits.nth(at).inner_text()
            evidence = data.questions.filter(pl.col("question_id") == question)["evidence"].to_list()[0]
            marks = "".join(side.locator(".hits mark").all_inner_texts())
            if marks:
                assert marks.startswith(evidence[0]["quote"][:20]) or evidence[0]["quote"].endswith(
                    marks[-20:]
                )


def test_scores_are_those_that_are_stored(opened: Tab, page: Path, data: ReportData) -> None:
    go(opened, page, "q001")
    found = opened.page.locator(".journey article table tbody tr", has_text=NDCG.title).locator("td")
    rows = data.scores.filter((pl.col("question_id") == "q001") & (pl.col("metric") == NDCG.name))
    values = {row["cell"]: row["value"] for row in rows.iter_rows(named=True)}
    assert [found.nth(at).inner_text() for at in (0, 1)] == [f"{values[A]:.3f}", f"{values[B]:.3f}"]


def test_filters_choose_and_say_how_many(opened: Tab, page: Path, data: ReportData) -> None:
    go(opened, page, "q001")
    form = opened.page.locator(".journey form")
    form.get_by_label("Type").select_option("definition")
    same = data.questions.filter(pl.col("type") == "definition")["question_id"].to_list()
    says(opened, ".journey .where", "that match")
    shown(opened, same[0])
    assert where(opened) == f"Question 1 of {len(same)} that match, of 20"
    opened.page.get_by_role("button", name="Next").click()
    shown(opened, same[1])
    form.get_by_label("Type").select_option("")
    form.get_by_label("wrong in A and right in B").check()
    ndcg = data.scores.filter(pl.col("metric") == NDCG.name)
    of = {(row["cell"], row["question_id"]): row["value"] for row in ndcg.iter_rows(named=True)}
    ids = data.questions["question_id"].to_list()
    both = [one for one in ids if of[A, one] is not None and of[B, one] is not None]
    wrong = [one for one in both if of[A, one] < 0.5 <= of[B, one]]
    expected = f"of {len(wrong)} that match" if wrong else "No question matches."
    says(opened, ".where", expected)
    form.get_by_label("wrong in A and right in B").uncheck()
    form.get_by_label("Search").fill("no such words at all")
    says(opened, ".where", "No question matches.")


def test_the_matrix_holds_scores_and_answers_and_opens_questions(
    opened: Tab, page: Path, data: ReportData
) -> None:
    opened.page.goto(page.as_uri())
    opened.page.locator("#journey").scroll_into_view_if_needed()
    opened.page.wait_for_selector("table.questions")
    assert not opened.page.locator(".journey article").is_visible()
    rows = opened.page.locator("table.questions tbody tr")
    assert [row.get_attribute("data-question") for row in rows.all()] == data.questions[
        "question_id"
    ].to_list()
    first = opened.page.locator("table.questions thead th[data-pipeline]").first.get_attribute(
        "data-pipeline"
    )
    values = dict(
        data.values.filter(metric=data.primary.name, cell=first).select("question_id", "value").iter_rows()
    )
    for row in rows.all():
        value = values[str(row.get_attribute("data-question"))]
        text = row.locator("td b").first.inner_text()
        assert text.lstrip("✓✗ ") == ("–" if value is None else f"{value:.3f}")
    assert opened.page.locator("table.questions img, table.questions script").count() == 0
    rows.nth(3).locator("td a").first.click()
    shown_id = data.questions["question_id"][3]
    shown(opened, shown_id)
    assert opened.page.locator("tr.open").get_attribute("data-question") == shown_id
    assert axe_violations(opened.page) == []


def test_a_row_of_the_leaderboard_opens_its_pipeline_and_marks_it_everywhere(
    opened: Tab, page: Path, data: ReportData
) -> None:
    opened.page.goto(f"{page.as_uri()}#pipeline={quote(A, safe='')}")
    opened.page.wait_for_selector("tr.details")
    text = opened.text("tr.details")
    assert all(metric.title in text for metric in data.metrics)
    row = opened.page.locator(
        "#leaderboard tr[data-pipeline]", has=opened.page.locator("[aria-expanded=true]")
    )
    assert row.get_attribute("data-pipeline") == A
    row.hover()
    marked = opened.page.locator(".linked")
    assert marked.count() > 1
    assert all(A in str(one.get_attribute("data-pipeline")).split("\n") for one in marked.all())
    opened.page.locator("#leaderboard th button").first.click()  # sorted without it
    assert opened.page.locator("tr.details").count() == 0


def test_a_large_study_reads_its_folder_and_says_where_it_is_gone_or_another(
    opened: Tab, data: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journey, "INSIDE", 1)
    page = write_html(data, tmp_path / "a large study.html")
    (folder,) = folders_of(page)
    go(opened, page, "q003")
    assert opened.page.locator(".journey .hits li").count() > 0
    last = folder / "block-1.html"
    last.write_text(last.read_text().replace('id="pack">', 'id="pack">A'))
    opened.page.goto("about:blank")  # the matrix has read it
    go(opened, page, "q019")
    assert "could not be read there" in opened.text(".journey article .warn")
    shutil.rmtree(folder)
    opened.page.reload()
    go(opened, page, "q003")
    assert f"“{folder.name}”" in opened.text(".journey article .warn")
    opened.errors.clear()  # the browser says that a file is not there
