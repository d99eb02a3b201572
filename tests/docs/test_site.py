"""The site of the documentation: it builds without a warning, and is read and searched without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rag_assay.evals.study.component_list import described_in
from tests.fakes.browser import chromium

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_the_reference_is_written_from_the_code(site: Path) -> None:
    for page, words in {
        "cli": ["assay try", "--fail-under", "Exit codes"],
        "study": ["chunkings", "map of names to"],
        "questions": ["ground_truth", "leaks_title"],
        "python": ["Result.compare", "Study.run"],
        "http": ["stream_options", "turns_left_out", "Retry-After"],
        "assets": ["few_dropped", "best_cell_unchanged"],
        "views": ["current_verdict", "usage_questions", "the smallest true difference"],
    }.items():
        text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
        assert [word for word in words if word not in text] == []


def test_every_block_of_code_is_one(site: Path) -> None:
    broken = [path.name for path in sorted(site.rglob("*.html")) if "```" in path.read_text(encoding="utf-8")]
    assert broken == []
    quickstart = (site / "quickstart.html").read_text(encoding="utf-8")
    assert '<span class="filename">handbook/ferry.md</span>' in quickstart


def test_views_are_described_by_the_comments_of_their_migrations(reference: ModuleType) -> None:
    comments = reference.comments_of_views()
    page = reference.views()
    assert "`alpha` (Krippendorff's alpha" in page, (
        "values of a column are named in place of the code that has them"
    )
    assert not re.search(r"\bevals\.", page)
    sections = page.split("\n## ")[1:]
    assert {section.split("\n")[0] for section in sections} == set(comments)
    for section in sections:
        view = section.split("\n")[0]
        assert section.split("\n")[2], view
        assert set(described_in(comments[view])) <= set(re.findall(r"^\| `(\w+)` ", section, re.MULTILINE)), (
            view
        )


def test_pages_from_disk_need_no_network_and_can_be_searched(site: Path) -> None:
    with chromium() as browser:
        tab = browser.new_page()
        tab.set_viewport_size({"width": 390, "height": 800})
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        for path in sorted(site.rglob("*.html")):
            tab.goto(path.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390, path.name
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.goto((site / "index.html").as_uri())
        tab.get_by_role("textbox", name="Search").fill("evidence coverage")
        tab.locator(".md-search-result__link", has_text="overage").first.wait_for()
        assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
        tab.close()
