"""The Dagster UI in Chromium: the graph, a cell that failed, what is shown of an asset, its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evals.study.study_file import read_study
from orchestration.driver import Driver
from orchestration.settings import prepare
from tests.fakes.browser import Tab, chromium, tab
from tests.fakes.dagster_ui import dagster_ui
from tests.orchestration.conftest import replace_in, write_study
from warehouse.paths import home

pytestmark = pytest.mark.models
HOSTILE = '<img src="https://evil.example/a.png" onerror="alert(1)"> ![b](https://evil.example/c.png) | d | e'


@pytest.fixture(scope="module")
def ui(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The UI of a small study with one cell that failed, in a tab; a document of it is hostile."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("dagster-ui")
    path = write_study(folder)
    (folder / "texts" / "hostile.txt").write_text(f"{HOSTILE} and some words that make it a document.")
    dead = "{model: openai/dead, api_base: 'http://127.0.0.1:9/v1', limits: {retries: 0, timeout: 1}}"
    study = replace_in(path, "generators:\n", f"generators:\n  dead: {{llm: {dead}}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        report = Driver(read_study(path), home()).run()
    failed = [key for stage in report.stages for key in stage.failed]
    assert len(failed) == len(study.retrievers), "each retriever's cell whose generator asks a dead server"
    with (
        dagster_ui(folder / "var", ASSAY_STUDIES=str(folder)) as address,
        chromium() as browser,
        tab(browser, 1400, 900) as found,
    ):
        found.page.set_default_timeout(60_000)
        found.page.goto(f"{address}/asset-groups/")
        yield found
    assert found.errors == []


def go(ui: Tab, path: str) -> None:
    address = ui.page.url.split("/", 3)[:3]
    ui.page.goto("/".join([*address, path.lstrip("/")]))


def test_the_graph_shows_its_groups_and_their_assets(ui: Tab) -> None:
    for group in ("studies", "corpus", "questions", "grid"):
        ui.page.get_by_text(group, exact=True).first.wait_for()
    ui.page.get_by_text("corpus", exact=True).last.click()
    for name in ("pages", "documents", "chunks", "embeddings", "indexes"):
        ui.page.get_by_text(name, exact=True).first.wait_for()


def test_a_failed_cell_is_visible_beside_those_that_are_there(ui: Tab) -> None:
    go(ui, "/assets/answers?view=partitions")
    ui.page.get_by_text("Failed (2)").wait_for()
    ui.page.get_by_text("Materialized (2)").wait_for()


def test_an_asset_shows_its_columns_rows_plot_and_hostile_text_as_text(ui: Tab) -> None:
    go(ui, "/assets/documents?view=overview")
    ui.page.get_by_text("digest of all that a reader of the document can see").wait_for()
    go(ui, "/assets/documents?view=partitions&partition=texts")
    ui.page.get_by_text("dagster/row_count").wait_for()
    ui.page.get_by_text("4 of 4 rows").first.wait_for()
    assert ui.page.get_by_text('<img src="https').count() >= 1, "the text of a page is shown, not obeyed"
    picture = ui.page.locator('img[src^="data:image/svg+xml"]').first
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth") == 240
    assert ui.page.locator('img[src*="evil"], a[href*="evil"]').count() == 0


def test_checks_say_what_they_found_and_whether_they_block(ui: Tab) -> None:
    go(ui, "/assets/documents/?view=checks&checkDetail=has_documents")
    ui.page.get_by_text("4 documents of 4 pages").first.wait_for()
    assert "blocking" in ui.page.locator("body").inner_text()
    assert "non-blocking" not in ui.page.locator("body").inner_text()
