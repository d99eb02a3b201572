"""Write the screenshots of app and report for README and docs, of the demo and of demo data of its usage.

    python -m tests.docs.app_screenshots HOME [FOLDER]

HOME: a workspace in which `assay run demo` ended; it is copied
FOLDER: for the pictures. Default: docs

Prints for each page, at 1,280 and 390 pixels, after how many seconds its frame and its content are there, and
what is read first: the texts of the first screen by the size of their letters.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Error

from rag_assay.orchestration.loopback import free_loopback_port
from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server, Site
from rag_assay.warehouse.paths import Home
from tests.conftest import REPOSITORY
from tests.fakes.browser import chromium, tab
from tests.fakes.commands import assay

WIDTHS = {1280: ("", "light"), 390: ("-narrow", "dark")}
NARROW = {"chat", "review"}  # pages that docs show on a telephone, too
COLOURS = 128


@dataclass(frozen=True)
class Picture:
    """A page and its address, what is there once it is shown, and what is done before it is taken."""

    name: str
    address: str
    there: str
    act: Callable[[Any], object] = lambda _: None


def _open_question(page: Any) -> None:
    if page.viewport_size["width"] > 390:
        page.locator("table.questions td a").nth(1).click()
        page.wait_for_selector(".panel h3")


def _ask(page: Any) -> None:
    page.locator(".st-key-examples button").first.click()
    page.wait_for_selector(".as-facts", timeout=240_000)
    page.locator("[data-testid=stMain]").evaluate("one => one.scrollTo(0, 0)")


PICTURES = (
    Picture("verdict", "verdict?", ".as-sections .trust li"),
    Picture("questions", "questions?", "table.questions", _open_question),
    Picture("compare", "compare?", "#pair"),
    Picture("review", "review?name=Ada&", ".as-question"),
    Picture("chat", "chat?", ".st-key-examples button", _ask),
    Picture("monitor", "monitor?", ".st-key-panel_cells"),
    Picture("usage", "monitor?view=usage&demo=true&", ".st-key-panel_unanswered"),
)


def shoot(url: str, folder: Path) -> None:
    """Open each page, print how soon it was there and what is read first, and write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for one in PICTURES:
            for width, (suffix, scheme) in WIDTHS.items():
                if suffix and one.name not in NARROW:
                    continue
                with tab(browser, width, 844, scheme) as shown:
                    page = shown.page
                    page.set_default_timeout(240_000)
                    begin = time.perf_counter()
                    page.goto(f"{url}{one.address}study=demo&lang=en")
                    page.wait_for_selector(".st-key-frame")
                    frame = time.perf_counter() - begin
                    try:
                        page.wait_for_selector(one.there)
                    except Error as error:
                        raise SystemExit(f"{one.address}: {page.inner_text('body')}") from error
                    whole = time.perf_counter() - begin
                    one.act(page)
                    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
                    page.wait_for_timeout(1_500)
                    save(page, folder / f"app-{one.name}{suffix}.png")
                    first = " | ".join(str(text)[:70] for text in page.evaluate(LARGEST))
                    lines = [
                        f"{one.name} at {width}: frame {frame:.1f} s, page {whole:.1f} s; first: {first}"
                    ]
                    sys.stdout.write("\n    ".join([*lines, *shown.errors]) + "\n")
                    sys.stdout.flush()


COMPARED = ("demo.articles.minilm.dense.extractive", "demo.articles.minilm.bilingual.extractive")
QUESTION = "blog-24"


def shoot_report(report: Path, folder: Path) -> None:
    """Write the first screen of the report, and a question in two cells."""
    a, b = COMPARED
    with chromium() as browser, tab(browser, 1280, 860) as shown:
        shown.page.goto(report.as_uri())
        save(shown.page, folder / "report.png")
        shown.page.goto(f"{report.as_uri()}#q={QUESTION}&a={a}&b={b}")
        shown.page.wait_for_selector(f".journey article[data-shown='{QUESTION}']")
        shown.page.set_viewport_size({"width": 1280, "height": 1400})
        shown.page.locator(".journey article").evaluate("one => one.scrollIntoView()")
        save(shown.page, folder / "journey.png")


def save(page: Any, path: Path) -> None:
    """Write a picture with few colours: small, and as sharp."""
    page.screenshot(path=path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


LARGEST = """() => [...document.querySelectorAll("h1, h2, h3, p, li, a, button, label")]
  .filter((one) => one.innerText?.trim() && one.checkVisibility())
  .filter((one) => one.getBoundingClientRect().bottom < innerHeight)
  .map((one) => [parseFloat(getComputedStyle(one).fontSize), one.innerText.trim().replaceAll("\\n", " ")])
  .sort((a, b) => b[0] - a[0]).slice(0, 3).map(([, text]) => text)"""


def main() -> None:
    """Copy the workspace, serve the app, and write the pictures."""
    finished = Path(sys.argv[1]).resolve()
    pictures = Path(sys.argv[2]) if len(sys.argv) > 2 else REPOSITORY / "docs"
    with tempfile.TemporaryDirectory(prefix="assay-screenshots-") as name:
        folder = Path(name)
        shutil.copytree(finished, folder / "var", ignore=shutil.ignore_patterns("models"))
        os.environ.setdefault("ASSAY_MODELS", str(finished / "models"))
        environment = {"ASSAY_HOME": str(folder / "var")}
        os.environ.update(environment)
        prepare(Settings(home=folder / "var"))
        assay("usage", "demo", "--demo", **environment)
        site = Site(UiOptions("demo", "demo").to_argument(), "127.0.0.1", free_loopback_port(), environment)
        with Server(site) as server:
            server.wait_until_ready()
            shoot(site.url, pictures)
        shoot_report(Home(folder / "var").report("demo"), pictures)


if __name__ == "__main__":
    main()
