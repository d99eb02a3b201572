"""The whole report in a real Chromium: from a file, without a network, wide and narrow, light and dark.

One page and one browser for all tests of this file: each opens a tab of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from scipy import stats

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import number, with_sign
from rag_assay.evals.reporting.page import write_html
from tests.fakes.browser import Tab, axe_violations, chromium, tab
from tests.fakes.judged_data import judged
from tests.fakes.report_data import NDCG, report_data

WIDE, NARROW = 1280, 390
UNFOLD = "document.querySelectorAll('details.fold').forEach(one => { one.open = true; })"


class Opened(Protocol):
    """Opens the report in a tab of its own; nothing may have gone wrong in it when it is closed."""

    def __call__(
        self, width: int = WIDE, scheme: str = "light", fragment: str = ""
    ) -> AbstractContextManager[Tab]:
        """Open it at a width, in a colour scheme, at a fragment of its address."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    data = replace(report_data(), **judged())
    path: Path = write_html(data, tmp_path_factory.mktemp("report") / "energy.html")

    @contextmanager
    def opened(width: int = WIDE, scheme: str = "light", fragment: str = "") -> Iterator[Tab]:
        with tab(browser, width, scheme=scheme) as found:
            found.page.context.set_offline(True)
            found.page.goto(f"{path.as_uri()}{fragment}")
            yield found
            assert found.errors == []

    return opened


# The hardest questions are alike, and most of the page: axe would take five times as long.
LEAVE_TWO = """
() => {
  const rest = document.querySelectorAll('#hardest .question:nth-of-type(n + 3)');
  if (rest.length > 0 && rest.length < 5) throw new Error('there are few questions');
  rest.forEach(one => one.remove());
}
"""


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "dark"), (NARROW, "light")])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    report: Opened, width: int, scheme: str
) -> None:
    with report(width, scheme) as found:
        for _ in range(2):  # as it opens, and with all that can be opened
            assert found.page.evaluate("document.documentElement.scrollWidth") <= width
            found.page.evaluate(LEAVE_TWO)
            assert axe_violations(found.page) == []
            found.page.evaluate(UNFOLD)


def test_a_table_is_sorted_by_a_key_and_says_so(report: Opened) -> None:
    with report() as found:
        table = found.page.locator("#leaderboard table")
        head = table.locator("th", has_text="Difference").first
        head.get_by_role("button").focus()
        found.page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending", "the best first"
        found.page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        found.page.keyboard.press("Enter")
        place = head.evaluate("head => head.cellIndex")
        shown = table.evaluate(
            "(table, place) => [...table.tBodies[0].rows].map(row => row.cells[place].dataset.sort)", place
        )
        numbers = [float(one) for one in shown if one]
        assert numbers == sorted(numbers, reverse=True)
        assert len(numbers) > 5


def test_headings_come_in_order_and_every_section_has_one(report: Opened) -> None:
    with report() as found:
        levels = found.page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4, h5')].map(one => Number(one.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


DRAWN = """
() => [...document.querySelectorAll('svg.plane, svg.mark')].map(chart => {
  const box = one => { const {left, right, top, bottom, width} = one.getBoundingClientRect();
                       return {left, right, top, bottom, width}; };
  return {
    of: chart.closest('.figure, section').id,
    plane: chart.classList.contains('plane'),
    box: box(chart),
    marks: [...chart.querySelectorAll('use, rect.of, polyline')].length,
    texts: [...chart.querySelectorAll('text')].map(text => ({...box(text), axis: text.getAttribute('class'),
      words: text.textContent, size: parseFloat(getComputedStyle(text).fontSize)})),
  };
})
"""


@pytest.mark.parametrize(("width", "media"), [(WIDE, "screen"), (NARROW, "screen"), (WIDE, "print")])
def test_charts_are_drawn_at_any_width_and_no_letters_meet(report: Opened, width: int, media: str) -> None:
    with report(width) as found:
        found.page.evaluate(UNFOLD)
        found.page.emulate_media(media=media)
        charts = found.page.evaluate(DRAWN)
        assert {one["of"] for one in charts if one["plane"]} == {
            "chart-front-1",
            "chart-front-2",
            "chart-roc",
        }
        assert all(one["marks"] for one in charts)
        assert min(one["box"]["width"] for one in charts) > 60
        for chart in charts:
            for text in chart["texts"]:
                assert text["size"] >= 11, text
                assert text["left"] >= 0, (chart["of"], text)
                assert text["right"] <= width, (chart["of"], text)
            ticks = [text for text in chart["texts"] if text["axis"] == "x"]
            assert all(one["right"] < other["left"] for one, other in pairwise(ticks)), chart["of"]


def test_the_values_of_a_chart_open_by_a_key(report: Opened) -> None:
    with report() as found:
        found.page.locator("#judges > details > summary").press("Enter")
        values = found.page.locator("#chart-roc details")
        values.locator("summary").focus()
        found.page.keyboard.press("Enter")
        assert values.locator("tbody tr").count() > 10
        assert values.locator("table").is_visible()
        name = found.page.get_by_role("img", name="Judges against human labels: ROC")
        assert name.count() == 1


def test_the_leaderboard_fits_its_page_and_further_columns_are_chosen(report: Opened) -> None:
    with report() as found:
        board = found.page.locator("#leaderboard")
        fits = "box => box.scrollWidth <= box.clientWidth"
        assert board.locator(".scroll").evaluate(fits)
        further = board.locator("th", has_text="Tie group")
        assert not further.is_visible()
        board.locator(".choose summary").click()
        board.get_by_label("Tie group").check()
        assert further.is_visible()


def test_a_link_opens_the_folded_section_that_it_leads_to(report: Opened) -> None:
    with report() as found:
        table = found.page.locator("#costs table")
        assert not table.is_visible()
        found.page.locator("nav").get_by_role("link", name="Costs", exact=True).click()
        assert table.is_visible()
        assert found.page.locator("nav").bounding_box()["y"] == pytest.approx(0, abs=1), "it stays in sight"


def test_rows_are_chosen_by_axis_and_by_words_together(report: Opened) -> None:
    with report(NARROW) as found:
        board = found.page.locator("#leaderboard")
        rows = board.locator("table.board tbody tr:visible")
        whole = rows.count()
        board.get_by_label("Retriever").select_option("bm25")
        of_bm25 = rows.count()
        assert 0 < of_bm25 < whole
        board.get_by_label("Show rows with").fill("articles")
        assert rows.count() == 1
        assert board.locator(".filter [aria-live]").inner_text() == f"1 of {whole} rows"
        board.get_by_label("Retriever").select_option("")
        assert rows.count() == whole // 3  # of three chunkings
        name = rows.first.locator("th.merged")
        before = name.bounding_box()
        board.locator(".scroll").first.evaluate("box => { box.scrollLeft = 400; }")
        after = name.bounding_box()
        assert before is not None
        assert after is not None
        assert after["x"] <= before["x"]
        assert after["x"] >= 0  # it stays in sight


def said(found: Tab, *changes: tuple[str, str]) -> str:
    """Choose cells or a metric, and return what is said of the two cells then."""
    box = found.page.locator("#pairs")
    for selector, value in changes:
        box.locator(selector).select_option(value)
    box.scroll_into_view_if_needed()
    found.page.wait_for_function(
        "() => document.querySelector('#pairs .pair-said').textContent.includes('difference')"
    )
    found.page.wait_for_timeout(150)
    return str(box.locator(".pair-said").inner_text())


FIRST, SECOND = "select[data-cell='0']", "select[data-cell='1']"


def test_two_cells_are_compared_question_by_question(report: Opened) -> None:
    data = report_data()
    board = data.leaderboard.filter((pl.col("subset") == "all") & (pl.col("metric") == NDCG.name))
    leader, second, third = board.sort("rank", nulls_last=True)["cell"].head(3)
    of_second = board.row(by_predicate=pl.col("cell") == second, named=True)
    with report(NARROW) as found:
        text = said(found, (FIRST, second), (SECOND, leader))
        ends = f"{number(of_second['difference_low'])} to {number(of_second['difference_high'])}"
        assert f"{with_sign(of_second['difference'])} (95 % interval {ends}; p = {of_second['p']:.3f}" in text
        found.page.locator("#pairs [data-swap]").click()
        text = said(found)
        ends = f"{number(-of_second['difference_high'])} to {number(-of_second['difference_low'])}"
        assert f"{with_sign(-of_second['difference'])} (95 % interval {ends}" in text

        differences = _differences(data, second, third)
        text = said(found, (FIRST, second), (SECOND, third))
        half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
        mean = differences.mean()
        assert (
            f"{with_sign(mean)} (95 % interval {number(mean - half)} to {number(mean + half)}, Student's"
            in text
        )
        better, worse = int((differences > 0).sum()), int((differences < 0).sum())
        equal = len(differences) - better - worse
        assert f"better on {better}, as good on {equal}, worse on {worse} of {len(differences)}" in text
        rows = found.page.locator("#pairs tbody tr")
        assert rows.count() == 10, "the others are a click away"
        found.page.locator("#pairs [data-more]").click()
        shown = [one.replace("−", "-") for one in rows.locator("td:last-child").all_inner_texts()]
        assert [float(one) for one in shown] == pytest.approx(sorted(differences), abs=0.0006)
        found.page.locator("#pairs [data-order]").click()
        found.page.wait_for_timeout(200)
        assert float(rows.first.locator("td:last-child").inner_text().replace("−", "-")) == pytest.approx(
            differences.max(), abs=0.0006
        )
        link = str(rows.first.locator("a").get_attribute("href"))
        assert link.startswith("#q=q0")
        assert link.endswith(f"&a={quote(second, safe='')}&b={quote(third, safe='')}")


def _differences(data: ReportData, first: str, second: str) -> npt.NDArray[np.float64]:
    values = data.values.filter(pl.col("metric") == NDCG.name).drop_nulls("value")
    sides = [values.filter(pl.col("cell") == cell).select("question_id", "value") for cell in (first, second)]
    both = sides[0].join(sides[1], on="question_id")
    return (both["value"] - both["value_right"]).to_numpy()


def test_printed_no_control_is_left_and_the_leaderboard_fits_a_page(report: Opened) -> None:
    with report(1062) as found:  # pixels of A4 on its side, without its margins
        found.page.emulate_media(media="print")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 1062
        controls = found.page.locator("main :is(select, input, nav, [data-swap], .skip):visible")
        assert controls.count() == 0
        colour = found.page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
