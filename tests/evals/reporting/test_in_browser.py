"""The whole report in a real Chromium: from a file, without a network, wide and narrow, light and dark.

One page and one browser for all tests of this file: each opens a tab of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import pytest

from evals.reporting.files import write_html
from tests.fakes.browser import Tab, axe_violations, chromium, tab
from tests.fakes.report_data import report_data

WIDE, NARROW = 1280, 390


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
    path: Path = write_html(report_data(), tmp_path_factory.mktemp("report") / "energy.html")

    @contextmanager
    def opened(width: int = WIDE, scheme: str = "light", fragment: str = "") -> Iterator[Tab]:
        with tab(browser, width, scheme=scheme) as found:
            found.page.context.set_offline(True)
            found.page.goto(f"{path.as_uri()}{fragment}")
            yield found
            assert found.errors == []

    return opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    report: Opened, width: int, scheme: str
) -> None:
    with report(width, scheme) as found:
        assert axe_violations(found.page) == []
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_table_is_sorted_by_a_key_and_says_so(report: Opened) -> None:
    with report() as found:
        table = found.page.locator("#leaderboard table")
        head = table.locator("th", has_text="Difference").first
        head.get_by_role("button").focus()
        found.page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        found.page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
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
