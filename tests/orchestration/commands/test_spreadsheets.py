"""`assay ratings queue`, `import` of what came back, and `export`, as a person runs them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import load_workbook

from rag_assay.evals.human.item_order import next_showing
from rag_assay.evals.human.queue import read_queue, write_queue
from rag_assay.warehouse.human_scores import HumanScores
from tests.fakes.commands import Done, assay
from tests.fakes.queues import queue_of, scores_of
from tests.fakes.sheets import Desk, fill, read_grid, score_all
from tests.fakes.town import PLAIN, Town

RUBRICS = {"rubrics": {"points": {"points": {}}}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, queue_of(12))


def brought(desk: Desk, path: Path, *options: str) -> Done:
    return assay("ratings", "import", str(path), *options, ASSAY_HOME=str(desk.home.root))


def test_a_queue_that_came_back_needs_no_mapping(desk: Desk) -> None:
    path = desk.export("anna.xlsx")
    fill(path, score_all([5, 3, "skip"]))
    done = brought(desk, path)
    assert done.returncode == 0, done.stderr
    assert "Added of anna: 2 scores, 1 skipped; 0 unchanged." in done.stderr
    assert len(desk.values()) == 3
    again = brought(desk, path)
    assert again.returncode == 0
    assert "No change: 3 scores of it were there before." in again.stderr
    assert brought(desk, path, "--mapping", str(path)).returncode == 2


def test_nothing_is_taken_of_a_sheet_with_rejects_unless_in_part(desk: Desk) -> None:
    path = desk.export("anna.csv")
    fill(path, score_all([5, 4, 3]))
    done = brought(desk, path)
    assert done.returncode == 2
    assert "error: anna.csv:8: `score: points`: `4` is not a value of it" in done.stderr
    assert "nothing was imported" in done.stderr
    assert not desk.rows()
    done = brought(desk, path, "--partial")
    assert done.returncode == 0
    assert "not taken: anna.csv:8:" in done.stderr
    assert len(desk.values()) == 2


def test_many_rejects_are_counted(desk: Desk) -> None:
    path = desk.export("anna.csv")
    fill(path, score_all(4))
    rows = len(read_grid(path)) - 3
    desk.queue = queue_of(40)
    done = brought(desk, path)
    assert done.stderr.count("`4` is not a value") == min(rows, 20)
    path = Desk(desk.folder / "more", queue_of(40)).export("bo.csv", "bo")
    fill(path, score_all(4))
    done = assay("ratings", "import", str(path), ASSAY_HOME=str(desk.folder / "more" / "home"))
    assert done.stderr.count("`4` is not a value") == 20
    assert "more like these" in done.stderr


@pytest.mark.models
def test_from_a_run_to_a_sheet_and_back(
    weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("all-MiniLM-L6-v2")
    town = Town(tmp_path, monkeypatch)
    town.run({**PLAIN, **RUBRICS}, "home")
    study, home = str(tmp_path / "tiny.yaml"), town.bench.home
    sheet = tmp_path / "anna.xlsx"
    done = assay("ratings", "queue", study, str(sheet), "--annotator", " Anna ")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sheet)
    queue = read_queue(home, "tiny")
    assert queue is not None
    assert f"{len(queue.items)} items of the study tiny" in done.stderr
    again = "ratings", "queue", study, str(sheet), "--annotator", "Anna"
    assert "the file exists and may contain ratings" in assay(*again).stderr

    fill(sheet, score_all(5, comment="=1+1"))
    assert assay("ratings", "import", str(sheet)).returncode == 0
    store = HumanScores(home)
    assert {row["annotator"] for row in store.rows("tiny")} == {"Anna"}
    assert next_showing(queue, "Anna", store.scores("tiny")) is None, "the page has nothing left for Anna"

    tasks, config = tmp_path / "tasks.json", tmp_path / "config.xml"
    assert assay("ratings", "queue", study, str(tasks), "--config", str(config)).returncode == 0
    assert len(json.loads(tasks.read_text("utf-8"))) == len(queue.items)
    assert config.read_text("utf-8").startswith("<View>")

    table = tmp_path / "scores.csv"
    assert assay("ratings", "export", study, str(table)).returncode == 0
    rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    assert len(rows) == len(list(store.rows("tiny")))
    assert rows[0]["comment"] == "'=1+1"
    assert {row["value"] for row in rows} == {"5"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["x.xlsx"], "the annotator is missing"),
        (["x.ods", "--annotator", "Anna"], "a queue is exported as"),
        (["x.csv", "--annotator", "Anna", "--config", "c.xml"], "--config is for Label Studio tasks"),
        (["x.csv", "--annotator", "Anna", "--among", "Bo"], "--among must list all annotators"),
        (["x.csv", "--annotator", "  "], "an annotator has a name"),
    ],
)
def test_what_cannot_be_exported_is_told_before_anything_is_read(options: list[str], said: str) -> None:
    done = assay("ratings", "queue", "no-such-study", *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("name", ["scores.xlsx", "scores.csv", "scores.json"])
def test_scores_that_stand_become_a_table(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bench = Town(tmp_path, monkeypatch).bench_of({**PLAIN, **RUBRICS}, "home")
    write_queue(bench.home, desk.queue)
    path = desk.export("anna.csv")
    fill(path, score_all([5, 3], comment="=cmd|' /C calc'!A0" + "x" * 40_000))
    desk.bring(path)
    fill(path, score_all([0, None]))
    desk.bring(path)
    (showing, *_) = (next_showing(desk.queue, "bo", []),)
    assert showing is not None
    desk.scores.append(scores_of(desk.queue, "bo", showing, cell="tiny.a.b.c.d", question_id="q1"))
    done = assay("ratings", "export", str(tmp_path / "tiny.yaml"), str(tmp_path / name))
    assert done.returncode == 0, done.stderr
    assert "2 scores of the study tiny" in done.stderr
    written = tmp_path / name
    if name.endswith(".json"):
        rows = json.loads(written.read_text("utf-8"))
        assert len(rows[0]["comment"]) > 40_000
    elif name.endswith(".csv"):
        rows = list(csv.DictReader(io.StringIO(written.read_text("utf-8-sig"), newline="")))
    else:
        names, *lines = load_workbook(written)["scores"].iter_rows(values_only=True)
        rows = [dict(zip(names, line, strict=True)) for line in lines]
    first, second = rows
    assert (first["annotator"], float(first["value"]), second["cell"]) == ("anna", 0.0, "tiny.a.b.c.d")
    assert first["question"].startswith("When does ferry")
    if not name.endswith(".json"):
        assert first["comment"].startswith("'=cmd")
        assert first["comment"].endswith("(cut)")
