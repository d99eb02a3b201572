"""The Dagster UI in Chromium: the graph, a cell that failed, what is shown of an asset, its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.loopback import free_loopback_port
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.paths import home
from tests.fakes.browser import Tab, chromium, tab
from tests.fakes.dagster_ui import AT_ONCE, dagster_ui
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.orchestration.conftest import replace_in, write_study

pytestmark = pytest.mark.models
HOSTILE = '<img src="https://evil.example/a.png" onerror="alert(1)"> ![b](https://evil.example/c.png) | d | e'


RUN = 180_000  # milliseconds that a run may take, which is a process that imports all of it


@pytest.fixture(scope="module")
def server() -> str:
    """The address of a model server that is down, until a test starts it."""
    return f"http://127.0.0.1:{free_loopback_port()}/v1"


@pytest.fixture(scope="module")
def ui(
    server: str, weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tab]:
    """The UI of a small study with one cell that failed, in a tab; a document of it is hostile."""
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("dagster-ui")
    path = write_study(folder)
    (folder / "texts" / "hostile.txt").write_text(f"{HOSTILE} and some words that make it a document.")
    dead = f"{{model: openai/dead, api_base: '{server}', limits: {{retries: 0, timeout: 1}}}}"
    study = replace_in(path, "generators:\n", f"generators:\n  dead: {{llm: {dead}}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        configuration = home().dagster / "dagster.yaml"
        configuration.write_text(configuration.read_text() + AT_ONCE)
        report = Driver(read_study(path), home()).run()
    failed = [key for stage in report.stages for key in stage.failed]
    assert len(failed) == len(study.retrievers), "each retriever's cell whose generator asks a dead server"
    with (
        dagster_ui(folder / "var", ASSAY_STUDIES=str(folder), OPENAI_API_KEY="sk-scripted") as address,
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
    for group in ("recipes", "corpus", "questions", "grid"):
        ui.page.get_by_text(group, exact=True).first.wait_for()
    ui.page.get_by_text("corpus", exact=True).last.click()
    for name in ("pages", "documents", "chunks", "embeddings", "indexes"):
        ui.page.get_by_text(name, exact=True).first.wait_for()


def test_a_failed_cell_is_visible_by_name_beside_those_that_are_there(ui: Tab, server: str) -> None:
    go(ui, "/assets/answers?view=partitions")
    ui.page.get_by_text("Missing (2)").wait_for()
    ui.page.get_by_text("Materialized (2)").wait_for()
    go(ui, "/assets/answers?view=checks&checkDetail=built")
    ui.page.get_by_text(f"nothing listens at {server}").first.wait_for()
    ui.page.get_by_text(".dead").first.wait_for()


def test_the_verdict_is_an_asset_with_its_sentence(ui: Tab) -> None:
    go(ui, "/assets/verdict?view=partitions&partition=town")
    ui.page.get_by_text("2 pipelines have no rank: coverage below 98 %").first.wait_for()


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


def launch_study(ui: Tab, study: str) -> None:
    """Click what launches the job of a study; show the page of its run."""
    query = "{repositoriesOrError{... on RepositoryConnection{nodes{location{name}}}}}"
    address = "/".join(ui.page.url.split("/", 3)[:3])
    found = ui.page.request.post(f"{address}/graphql", data={"query": query}).json()
    place = found["data"]["repositoriesOrError"]["nodes"][0]["location"]["name"]
    go(ui, f"/locations/{quote(place, safe='')}/jobs/study_{study}/playground")
    ui.page.get_by_role("button", name="Launch Run").click()
    ui.page.wait_for_url("**/runs/*")


def test_a_launched_run_says_which_cell_failed_and_is_retried_by_clicks(ui: Tab, server: str) -> None:
    launch_study(ui, "town")
    ui.page.get_by_text("RUN_FAILURE").first.wait_for(timeout=RUN)
    said = ui.page.inner_text("body")
    assert "2 of 4 answers failed" in said
    assert "town.t16.minilm.words.dead" in said
    failed = ui.page.url
    go(ui, "/assets/answers?view=partitions")
    ui.page.get_by_text("Missing (2)").wait_for()
    ui.page.get_by_text("Materialized (2)").wait_for()
    ui.page.goto(failed)
    ui.page.get_by_text("Errored (4)").wait_for()
    with FakeOpenAI(respond=lambda _request: answer("Twelve."), port=urlsplit(server).port or 0) as model:
        ui.page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]").click()
        ui.page.get_by_text("From failure").click()
        ui.page.wait_for_url(lambda url: url != failed)
        ui.page.get_by_text("RUN_SUCCESS").first.wait_for(timeout=RUN)
    ui.page.get_by_text("Succeeded (4)").wait_for()
    ui.page.get_by_text("['answers', 'leaderboard', 'report', 'scores']").wait_for()
    assert len(model.requests) == 3 + 2, (
        "the questions of the two cells that had failed, of which one has no passage"
    )
    go(ui, "/assets/answers?view=partitions")
    ui.page.get_by_text("Materialized (4)").wait_for()
    go(ui, "/assets/leaderboard?view=partitions")
    ui.page.get_by_text("Failed (0)").wait_for()
    ui.page.get_by_text("Materialized (1)").wait_for()
    go(ui, "/assets/answers?view=checks&checkDetail=built")
    ui.page.get_by_text("It is there.").first.wait_for()
