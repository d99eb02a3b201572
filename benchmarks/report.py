"""How long the report of a large study takes: to read, to compute, to render, to write, and to open.

    python -m benchmarks.report [--questions N] [--folder FOLDER] [--no-browser]

The study is made up (`benchmarks.report_data`): 1,000 questions x 100 cells x 10 metrics, with 10 hits for
each question and ranking. Its rows are put into a DuckDB of a home; then all is measured as `assay report`
does it. Of Chromium the times are from the start of the navigation, the page opened from disk.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import polars as pl

from benchmarks.report_data import Made, data_of, made, ranking_of
from benchmarks.report_rows import STUDY, Size
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.reporting import journey as journey_file
from rag_assay.evals.reporting import page as page_file
from rag_assay.evals.reporting import view as view_file
from rag_assay.evals.reporting.contexts import curves_of
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.journey_rows import TAKEN, JourneyRows, cut, merged, ranking_rows
from rag_assay.evals.reporting.page import folders_of, write_report
from rag_assay.evals.reporting.stored_rows import (
    stored_answers,
    stored_judgements,
    stored_losses,
    stored_questions,
    stored_scores,
)
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="keep the report here")
    parser.add_argument("--no-browser", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = Home(arguments.folder or Path(temporary))
        with _timed("the study made up"):
            study = made(Size(arguments.questions, documents=2 * arguments.questions))
            _store(study, home)
        for table, rows in study.rows.items():
            print(f"    {table:12} {len(rows):>9,} rows")
        begin, computed = time.perf_counter(), time.process_time()
        data = _read(study, home)
        paths = _written(data, home)
        took, used = time.perf_counter() - begin, time.process_time() - computed
        print(f"the whole report: {took:.1f} s ({used:.1f} s of a processor)")
        for path in [*paths, *folders_of(paths[0])]:
            print(f"    {path.name}: {_bytes(path) / 1e6:.1f} MB")
        if not arguments.no_browser:
            _open(paths[0])


def _store(study: Made, home: Home) -> None:
    """Put the rows into the database: an artifact a cell or ranking, as a run does."""
    stages = {"hits": "rankings", "ranked": "rankings", "losses": "rankings"}
    with connect(home.database) as connection:
        for table, rows in study.rows.items():
            key: str | None = next((name for name in ("ranking", "cell") if name in rows.columns), None)
            if table == "leaderboard":
                key = "study"
            of = pl.col(key) if key else pl.lit(STUDY)
            suffix = ".by.model" if table == "judgements" else ""
            stored = rows.with_columns(artifact_id=of + suffix)
            dropped = [] if table == "leaderboard" else ["cell", "ranking", "cell_replicate", "judge"]
            dropped += ["replicate"] if table in ("scores", "answers") else []
            connection.register("incoming", stored.drop(dropped, strict=False).to_arrow())
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608 -- our own names
            connection.unregister("incoming")
            keys = [[stages.get(table, table), one, one] for one in stored["artifact_id"].unique()]
            connection.executemany("INSERT OR REPLACE INTO pointers VALUES (?, ?, ?)", keys)


def _read(study: Made, home: Home) -> ReportData:
    cells = [one["cell"] for one in study.cells]
    rows = {"leaderboard": study.rows["leaderboard"]}
    print("read from DuckDB")
    with connect(home.database) as connection:

        def read(name: str, found: Callable[[], pl.DataFrame]) -> None:
            with _timed(f"    {name}"):
                rows[name] = found()

        read("questions", lambda: stored_questions(connection, [STUDY]))
        read("scores", lambda: stored_scores(connection, cells))
        read("answers", lambda: stored_answers(connection, cells))
        read("judgements", lambda: stored_judgements(connection, ["model"], cells, frozenset()))
        read("losses", lambda: stored_losses(connection, study.rankings))
        golds = {row["question_id"]: gold_of(row) for row in rows["questions"].iter_rows(named=True)}
        read("contexts", lambda: curves_of(connection, study.rankings, golds))
        with _timed("    journeys"):
            rankings = {one["cell"]: ranking_of(one) for one in study.cells}
            hits, ended, lost = ranking_rows(connection, [*study.rankings])
            spans = merged(hits)
            journey = JourneyRows(
                rankings,
                hits,
                ended,
                pl.DataFrame(schema=TAKEN),
                lost,
                cut(study.documents, spans),
                study.documents.select("doc_id", pl.lit("made up").alias("source"), "url", "title"),
            )
    leading = rows["leaderboard"].filter(pl.col("rank") == 1)["cell"][0]
    of = next(r for r in study.rankings if leading.startswith(f"{r}."))
    hits = study.rows["hits"].filter((pl.col("ranking") == of) & (pl.col("rank") <= 5))
    text = pl.col("text").str.slice(pl.col("start"), pl.col("end") - pl.col("start"))
    rows["hits"] = hits.join(study.documents, on="doc_id").with_columns(text, cell=pl.lit(leading))
    return replace(data_of(study, rows), journey=journey)


def _written(data: ReportData, home: Home) -> list[Path]:
    """Write the report, and print what each of its sections takes."""
    took: dict[str, float] = {}
    kept = {
        (module, name): one
        for module in (view_file, page_file, journey_file)
        for name, one in vars(module).items()
        if isinstance(one, FunctionType) and one.__module__.startswith("rag_assay.evals.reporting")
    }

    def measured(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*args, **more)
            finally:
                took[name] = took.get(name, 0.0) + time.process_time() - begin

        return called

    for (module, name), function in kept.items():
        setattr(module, name, measured(name, function))
    with _timed("computed, rendered and written"):
        paths = write_report(data, home)
    for (module, name), function in kept.items():
        setattr(module, name, function)
    print("    seconds of a processor; what calls another has its time, too")
    for name, seconds in sorted(took.items(), key=lambda item: -item[1]):
        if seconds >= 0.05:
            print(f"    {seconds:6.2f} s  {name}")
    return paths


def _open(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 860})
        wrong: list[str] = []
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(path.as_uri())
        found = tab.evaluate(_TIMES)
        for name, seconds in found.items():
            print(f"{seconds / 1000:6.2f} s  until {name}")
        begin = time.perf_counter()
        tab.evaluate("location.hash = '#q=q0500'")
        tab.wait_for_function("() => document.querySelector('.journey article')?.dataset.shown === 'q0500'")
        print(f"{time.perf_counter() - begin:6.2f} s  until a journey is shown that is asked for")
        begin = time.perf_counter()
        tab.get_by_role("button", name="Next", exact=True).click()
        tab.wait_for_function("() => document.querySelector('.journey article')?.dataset.shown === 'q0501'")
        print(f"{time.perf_counter() - begin:6.2f} s  until the next one is")
        heap = tab.evaluate("performance.memory.usedJSHeapSize")
        print(f"{heap / 1e6:6.1f} MB of heap for scripts, {tab.evaluate('document.all.length'):,} elements")
        for text in wrong:
            print(f"an error on the page: {text}")
        browser.close()


_TIMES = """() => {
  const navigation = performance.getEntriesByType("navigation")[0];
  const paints = performance.getEntriesByType("paint").map((one) => [one.name, one.startTime]);
  return {
    "the page was read (DOMContentLoaded)": navigation.domContentLoadedEventEnd,
    "it was loaded": navigation.loadEventEnd, ...Object.fromEntries(paints),
  };
}"""


def _bytes(path: Path) -> int:
    return sum(one.stat().st_size for one in path.rglob("*")) if path.is_dir() else path.stat().st_size


@contextmanager
def _timed(what: str) -> Iterator[None]:
    begin, computed = time.perf_counter(), time.process_time()
    yield
    seconds, used = time.perf_counter() - begin, time.process_time() - computed
    print(f"{what}: {seconds:.2f} s ({used:.2f} s of a processor)", flush=True)


if __name__ == "__main__":
    main()
