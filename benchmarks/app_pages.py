"""Pictures of the app's pages Verdict, Questions and Compare, as docs/report.md shows them.

    python -m benchmarks.app_pages FOLDER [--study NAME]

Prints for each page, at 1,280 and 390 pixels, how long it took to open and what is read first: the texts of
the first screen by size of their letters. The study is one that was run in the workspace (`ASSAY_HOME`).
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Site, free_port, serve_script
from rag_assay.warehouse.paths import home

PAGES = {  # page -> what is there once it is shown
    "verdict": ".as-sections .trust li",
    "questions": "table.questions",
    "compare": "#pair",
}
WIDTHS = (1280, 390)


def main() -> None:
    """Write the pictures, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--study", default="demo")
    arguments = parser.parse_args()
    options = UiOptions(study=arguments.study, reference=arguments.study)
    environment = {"ASSAY_HOME": str(home().root)}
    site = Site(options.to_argument(), "127.0.0.1", free_port("127.0.0.1", None), environment)
    with serve_script(site) as server:
        server.wait_until_ready()
        _pictures(site.url, arguments.study, arguments.folder)


def _pictures(url: str, study: str, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for page, there in PAGES.items():
            for width in WIDTHS:
                tab = browser.new_page(viewport={"width": width, "height": 860})
                begin = time.perf_counter()
                tab.goto(f"{url}{page}?{urlencode({'study': study})}")
                tab.wait_for_selector(there)
                seconds = time.perf_counter() - begin
                if page == "questions" and width == WIDTHS[0]:
                    tab.locator("table.questions td a").first.click()
                    tab.wait_for_selector(".panel h3")
                tab.wait_for_timeout(500)
                tab.screenshot(path=folder / f"app-{page}{'' if width == WIDTHS[0] else '-narrow'}.png")
                print(f"{page} at {width} pixels: {seconds:.2f} s; first: {' | '.join(_first(tab))}")
                tab.close()
        browser.close()


def _first(tab: Any) -> list[str]:
    """Return the texts of the first screen, the largest letters first."""
    return [str(one)[:70] for one in tab.evaluate(_LARGEST)]


_LARGEST = """() => [...document.querySelectorAll("h1, h2, h3, p, li, a, button, label")]
  .filter((one) => one.innerText?.trim() && one.checkVisibility())
  .filter((one) => one.getBoundingClientRect().bottom < innerHeight)
  .map((one) => [parseFloat(getComputedStyle(one).fontSize), one.innerText.trim().replaceAll("\\n", " ")])
  .sort((a, b) => b[0] - a[0]).slice(0, 3).map(([, text]) => text)"""


if __name__ == "__main__":
    main()
