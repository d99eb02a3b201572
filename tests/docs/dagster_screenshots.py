"""Write the screenshots of docs/dagster.md: the demo with a model server that is down, and then up again.

    python -m tests.docs.dagster_screenshots HOME [FOLDER]

HOME: a workspace in which `assay run demo` ended; it is copied, so that little is computed again
FOLDER: for the pictures. Default: docs
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.orchestration.loopback import free_loopback_port
from rag_assay.orchestration.settings import Settings, prepare
from tests.conftest import REPOSITORY
from tests.fakes.browser import Tab, chromium, tab
from tests.fakes.dagster_project import write_project
from tests.fakes.dagster_ui import AT_ONCE, dagster_ui
from tests.fakes.openai_server import FakeOpenAI, answer
from tests.fakes.processes import PYTHONPATH

RUN = 900_000  # milliseconds that a run may take
CELLS = "  remote: {chunkings: [tokens-128-42], retrievers: [dense, hybrid], sample: 6}\n"


def demo_with_a_server(folder: Path, port: int) -> None:
    """Write the demo with one more generator, whose server listens on a port."""
    shutil.copytree(BUNDLED / "demo", folder / "demo")
    model = f"{{model: openai/remote, api_base: 'http://127.0.0.1:{port}/v1', limits: {{retries: 0}}}}"
    text = (BUNDLED / "demo.yaml").read_text()
    for section, added in (("generators", f"  remote: {{llm: {model}}}\n"), ("restrict", CELLS)):
        text, count = re.subn(rf"(?m)^{section}:.*\n", rf"\g<0>{added}", text)
        assert count == 1
    (folder / "demo.yaml").write_text(text)


COMPONENT = """\
type: rag_assay.StudyComponent
attributes:
  studies: [demo.yaml]
  key_prefix: rag
  group: rag
"""


def expanded(*groups: str) -> str:
    """Return the address of the asset graph with these groups open."""
    return f"/asset-groups?expanded={quote(','.join(f'global@global:{group}' for group in groups), safe='')}"


class Photographer:
    """Goes to pages of the UI and writes what they look like."""

    def __init__(self, address: str, shown: Tab, folder: Path) -> None:
        self.address, self.page, self.folder = address, shown.page, folder
        self.page.set_default_timeout(120_000)

    def go(self, path: str, text: str) -> None:
        """Open a page, and wait until it shows a text."""
        self.page.goto(f"{self.address}{path}")
        self.page.get_by_text(text).first.wait_for()

    def shoot(self, name: str) -> None:
        """Write a picture once the page is at rest."""
        self.page.wait_for_timeout(2_500)
        self.page.screenshot(path=self.folder / f"dagster-{name}.png")

    def shoot_graph(self, name: str, *groups: str) -> None:
        """Write a picture of the asset graph, with these groups open."""
        self.page.set_viewport_size({"width": 1800, "height": 900})
        self.go(expanded(*groups), "leaderboard")
        self.page.wait_for_timeout(10_000)  # until each box has its colour
        self.shoot(name)

    def launch(self, ending: str, job: str = "study_demo") -> None:
        """Launch a study's job, and wait for its end."""
        query = "{repositoriesOrError{... on RepositoryConnection{nodes{location{name}}}}}"
        found = self.page.request.post(f"{self.address}/graphql", data={"query": query}).json()
        place = found["data"]["repositoriesOrError"]["nodes"][0]["location"]["name"]
        self.page.goto(f"{self.address}/locations/{quote(place, safe='')}/jobs/{job}/playground")
        self.page.get_by_role("button", name="Launch Run").click()
        self.page.wait_for_url("**/runs/*")
        self.page.get_by_text(ending, exact=True).first.wait_for(timeout=RUN)

    def retry(self, ending: str) -> None:
        """Click "Re-execute from failure" on the page of a run, and wait for the end of the new one."""
        failed = self.page.url
        self.page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]").click()
        self.page.get_by_text("From failure").click()
        self.page.wait_for_url(lambda url: url != failed)
        self.page.get_by_text(ending, exact=True).first.wait_for(timeout=RUN)


def shoot_all(photographer: Photographer, serve: Callable[[], FakeOpenAI]) -> None:
    """Run the demo, let it fail, retry it, and write a picture of each page."""
    photographer.launch("Failure")
    failed = photographer.page.url
    photographer.shoot("run")
    photographer.go("/assets/answers?view=partitions", "Materialized (9)")
    photographer.go("/assets/answers?view=checks&checkDetail=built", "nothing listens at")
    photographer.shoot("failed")
    photographer.page.goto(failed)
    photographer.page.get_by_text("Errored (").wait_for()
    with serve():
        photographer.retry("Success")
    photographer.shoot("retry")
    photographer.shoot_graph("graph", "corpus", "questions", "grid")
    photographer.page.set_viewport_size({"width": 1280, "height": 900})
    photographer.go("/assets/leaderboard?view=partitions&partition=demo", "dagster/row_count")
    photographer.shoot("asset")
    photographer.go("/automation", "study_demo_schedule")
    photographer.shoot("automation")


def shoot_project(photographer: Photographer) -> None:
    """Run the demo, and an asset of the project's own, in somebody else's project."""
    photographer.launch("Success", "study_rag_demo")
    photographer.go("/assets/documents?view=overview", "Materialize")
    photographer.page.get_by_role("button", name="Materialize").first.click()
    photographer.page.wait_for_timeout(30_000)
    photographer.shoot_graph("project", "shop", "rag")


def main() -> None:
    """Copy the workspace, serve the UI, and write the pictures."""
    finished = Path(sys.argv[1])
    pictures = Path(sys.argv[2]) if len(sys.argv) > 2 else REPOSITORY / "docs"
    os.environ.setdefault("ASSAY_MODELS", str((finished / "models").resolve()))
    with tempfile.TemporaryDirectory(prefix="assay-screenshots-") as name:
        folder, port = Path(name), free_loopback_port()
        (folder / "studies").mkdir()
        demo_with_a_server(folder / "studies", port)
        environment = {"ASSAY_STUDIES": str(folder / "studies"), "OPENAI_API_KEY": "sk-scripted"}
        with chromium() as browser:
            text = "The text does not say so. [1]"
            with (
                dagster_ui(copied(finished, folder / "var"), **environment) as address,
                tab(browser, 1280, 1200) as shown,
            ):
                shoot_all(
                    Photographer(address, shown, pictures),
                    lambda: FakeOpenAI(respond=lambda _request: answer(text), port=port),
                )
            home = copied(finished, folder / "theirs", without=("dagster",))
            component = write_project(folder / "shop", COMPONENT)
            shutil.copy(BUNDLED / "demo.yaml", component)
            shutil.copytree(BUNDLED / "demo", component / "demo")
            path = os.pathsep.join([str(folder / "shop" / "src"), PYTHONPATH])
            with (
                dagster_ui(
                    home, module="shop.definitions", folder=folder / "shop", PYTHONPATH=path
                ) as address,
                tab(browser, 1800, 900) as shown,
            ):
                shoot_project(Photographer(address, shown, pictures))


def copied(finished: Path, home: Path, without: tuple[str, ...] = ()) -> Path:
    """Copy a workspace whose runs are launched at once; return the copy."""
    shutil.copytree(finished, home, ignore=shutil.ignore_patterns("models", "studies", *without))
    prepare(Settings(home=home))
    configuration = home / "dagster" / "dagster.yaml"
    configuration.write_text(configuration.read_text() + AT_ONCE)
    return home


if __name__ == "__main__":
    main()
