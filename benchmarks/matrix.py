"""Measures the page Questions with 1,000 questions x 100 pipelines: seconds to read, and to open in Chromium.

    python -m benchmarks.matrix [--questions N] [--pipelines N] [--folder FOLDER]

The study is a made-up sheet of answers with scores, imported and run in a workspace of its own; with
``--folder`` the workspace is kept, and used again. The server has loaded its modules before it is measured.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.imports import COLUMNS, MAPPING, WORDS

STUDY = "bench"
WIDE = 16  # retrievers: every combination of four names


def main() -> None:
    """Make the study where it is not there yet, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--pipelines", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keep the workspace here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        os.environ["ASSAY_HOME"] = str(folder / "home")
        if not (folder / "home").exists():
            _make(folder, arguments.questions, arguments.pipelines)
        keys = _read(folder / "home")
        _open(folder / "home", {"five pipelines": [], "every pipeline": keys})


def _make(folder: Path, questions: int, pipelines: int) -> None:
    import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
    from rag_assay.evals.spreadsheet_import.import_run import import_sheet
    from rag_assay.evals.spreadsheet_import.mapping import read_mapping
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.settings import prepare
    from rag_assay.warehouse.paths import home

    folder.mkdir(parents=True, exist_ok=True)
    sheet, mapping = folder / "sheet.csv", folder / "sheet.yaml"
    with sheet.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *_rows(questions, pipelines)])
    mapping.write_text(MAPPING)
    prepare()
    with _timed("imported"):
        import_sheet(sheet, mapping, read_mapping(mapping), home())
    with _timed("run"):
        Driver(find_known(STUDY, home()), home()).run()


def _rows(questions: int, pipelines: int) -> Iterator[tuple[Any, ...]]:
    draw = random.Random(7)  # noqa: S311 -- no secret
    methods = [[one for n, one in enumerate("abcd") if bits >> n & 1] for bits in range(WIDE)]
    for question in range(questions):
        asked, context = f"Frage {question}: {_text(draw, 9)}?", str([_text(draw, 60)])
        for cell in range(pipelines):
            yield (
                asked,
                context,
                f"Wahrheit {question}.",
                f"Antwort {cell}: {_text(draw, 25)}",
                str(methods[cell % WIDE]),
                draw.choice((0, 3, 5)),
                str((128 * (1 + cell // WIDE), 42)),
            )


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words))


def _read(folder: Path) -> list[str]:
    """Print what the page reads, and return the keys of the pipelines."""
    from rag_assay.evals.reporting.question_matrix import MatrixFilter, QuestionMatrix
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.warehouse.paths import Home

    home = Home(folder)
    study = find_known(STUDY, home)
    with _timed("the study"):
        matrix = QuestionMatrix(study, home)
    keys = list(matrix.labels)
    metric = matrix.data.primary.name
    print(f"    {matrix.questions.height:,} questions, {len(keys)} pipelines")
    for count in (5, len(keys)):
        wanted = MatrixFilter(metric, tuple(keys[:count]))
        with _timed(f"50 rows of {count} pipelines"):
            matrix.rows(wanted, matrix.matching(wanted)[:50])
    with _timed("wrong in A and right in B"):
        matrix.matching(MatrixFilter(metric, tuple(keys[:2]), is_regression=True))
    with _timed("disputes"):
        matrix.matching(MatrixFilter(metric, tuple(keys[:2]), by_dispute=True))
    with _timed("a journey"):
        matrix.journey(matrix.questions["question_id"][matrix.questions.height // 2], keys[:2])
    return keys


def _open(folder: Path, choices: Mapping[str, Sequence[str]]) -> None:
    from playwright.sync_api import sync_playwright

    from rag_assay.orchestration.web.page_context import UiOptions
    from rag_assay.orchestration.web.page_process import Server, Site, free_port

    options = UiOptions(study=STUDY, reference=STUDY)
    environment = {"ASSAY_HOME": str(folder)}
    site = Site(options.to_argument(), "127.0.0.1", free_port("127.0.0.1", None), environment)
    with Server(site) as server, sync_playwright() as playwright:
        server.wait_until_ready()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, keys in choices.items():
            tab = browser.new_page(viewport={"width": 1280, "height": 860})
            query = urlencode({"study": STUDY, "pipelines": list(keys)}, doseq=True)
            with _timed(f"opened with {name}"):
                tab.goto(f"{site.url}questions?{query}")
                tab.wait_for_selector("table.questions")
            frames = tab.evaluate(_SCROLL)
            print(f"    scrolled to both ends: {frames:.0f} ms a frame")
            with _timed("    the next page"):
                first = tab.locator("table.questions tbody tr").first.get_attribute("data-question")
                tab.get_by_role("button", name="Next page").click()
                tab.wait_for_selector(f"tbody tr:first-child:not([data-question='{first}'])")
            tab.close()
        browser.close()


_SCROLL = """async () => {
  const root = document.querySelector("[data-testid=stMain]");
  const hosts = [...root.querySelectorAll("*")].map((one) => one.shadowRoot).filter(Boolean);
  const box = hosts.map((one) => one.querySelector(".scroll.tall")).find(Boolean);
  const steps = 40;
  const begin = performance.now();
  for (let at = 1; at <= steps; at += 1) {
    box.scrollTo(box.scrollWidth * at / steps, box.scrollHeight * at / steps);
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - begin) / steps;
}"""


@contextmanager
def _timed(what: str) -> Iterator[None]:
    begin, computed = time.perf_counter(), time.process_time()
    yield
    seconds, used = time.perf_counter() - begin, time.process_time() - computed
    print(f"{what}: {seconds:.2f} s ({used:.2f} s of this processor)", flush=True)


if __name__ == "__main__":
    main()
