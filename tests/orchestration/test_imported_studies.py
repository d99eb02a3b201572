"""The commands on a study of sheets: it is found by its name, and each of them knows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assay.orchestration.definitions import defs
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.imported import grid, imported, put_sheet, row


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with such a study, and without any model weights."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "no-weights"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    found = Home(tmp_path / "var")
    imported(found, {"llama": grid()})
    return found


def test_every_command_knows_it_by_its_name(home: Home, tmp_path: Path) -> None:
    checked = assay("check", "ferry")
    assert (checked.returncode, "good. 4 cells, 3 questions, 5 metrics." in checked.stderr) == (0, True), (
        checked
    )
    planned = assay("run", "ferry", "--dry-run")
    assert planned.returncode == 0, planned
    assert "4 cells" in planned.stdout
    assert "no model is called, so nothing costs money" in planned.stdout
    run = assay("run", "ferry")
    assert run.returncode == 0, run
    assert "leads by ROUGE-L 1.000" in " ".join(run.stdout.split())
    assert "ferry" in assay("list").stdout
    shown = assay("show", "ferry", "noon")
    assert shown.returncode == 0, shown
    for words in ("c128 · - · dense", "context 1", "The passage about noon.", "llama answers: At noon."):
        assert words in shown.stdout, shown.stdout
    assert "did not say its seconds" in " ".join(shown.stdout.split())
    opened = assay("report", "ferry", "--open")
    assert opened.stdout.strip() == str(home.report("ferry"))
    page = home.report("ferry").read_text()
    assert "The passage about noon." in page
    assert "Dense Search" in page, "what the sheet itself calls its retriever"
    rows = json.loads(assay("report", "ferry", "--format", "json").stdout)
    text = json.dumps(rows)
    assert '"retriever": "dense"' in text
    again = assay("run", "ferry")
    assert again.returncode == 0, again
    assert "computed" not in again.stderr, again.stderr
    what_it_cannot_do_is_said(home)


def what_it_cannot_do_is_said(home: Home) -> None:
    asked = assay("ask", "ferry", "When does it leave?")
    assert asked.returncode == 2
    assert "come from sheets, and nothing more can be asked of it" in asked.stderr
    trec = assay("report", "ferry", "--format", "trec")
    assert (trec.returncode, "has no rankings: its answers come from sheets" in trec.stderr) == (2, True), (
        trec
    )
    crawled = assay("run", "ferry", "--recrawl", "docs", "--only", "documents")
    assert crawled.returncode == 2
    assert "unknown source 'docs'" in crawled.stderr
    made = assay("questions", "make", "ferry")
    assert (made.returncode, "no documents to make questions from" in made.stderr) == (2, True), made
    exported = assay("questions", "export", "ferry", "--format", "ragas", "-o", str(home.root / "out"))
    assert exported.returncode == 0, exported
    assert "When does the ferry leave?" in next((home.root / "out").rglob("*.jsonl")).read_text()


def test_a_second_sheet_joins_its_leaderboard(home: Home) -> None:
    assert assay("run", "ferry").returncode == 0
    rows = grid("mixtral")
    rows[-1] = {**rows[-1], "contexts": ["What mixtral alone was given."]}
    put_sheet(home.root / "imports" / "ferry", "mixtral", rows)
    stale = assay("show", "ferry", "noon")
    assert (stale.returncode, "is no longer what was run" in stale.stderr) == (2, True), stale
    run = assay("run", "ferry")
    assert run.returncode == 0, run
    assert "mixtral" in run.stdout
    assert "mixtral answers: At noon." in assay("show", "ferry", "noon").stdout
    shown = assay("show", "ferry", rows[-1]["question_id"]).stdout
    assert shown.count("c256 · - · dense") == 2
    assert shown.count("c128 · - · dense") == 1
    assert shown.count("What mixtral alone was given.") == 1


def test_the_dagster_definitions_have_its_partitions(home: Home) -> None:
    graph = defs().resolve_asset_graph()  # type: ignore[operator] -- made lazy by its decorator
    (key,) = [key for key in graph.get_all_asset_keys() if key.to_user_string() == "answers"]
    partitions = graph.get(key).partitions_def
    assert partitions is not None
    assert {"ferry.c128.-.dense.llama", "ferry.c256.-.bm25.llama"} <= {*partitions.get_partition_keys()}


def test_a_sheet_that_is_damaged_or_gone_is_told_with_what_to_do(home: Home) -> None:
    rows = home.root / "imports" / "ferry" / "sheets" / "llama" / "rows.parquet"
    rows.write_bytes(rows.read_bytes()[:100])
    found = assay("run", "ferry")
    assert found.returncode == 2
    assert "study.yaml:3" in found.stderr
    assert "import the sheet again" in found.stderr
    rows.unlink()
    gone = assay("run", "ferry")
    assert gone.returncode == 2
    assert "there is no sheet" in gone.stderr
    assert "there is no study 'fery'" in assay("run", "fery").stderr


def test_short_questions_block_no_run(home: Home) -> None:
    asked = {"noon": "q0", "tickets": "何?", "lamp": "🦆", "whole": "何" * 10_000}
    rows = [{**row(name, "At noon."), "question": text} for name, text in asked.items()]
    imported(home, {"llama": rows})
    checked = assay("check", "ferry")
    assert checked.returncode == 0, checked
    assert (
        "2 questions have fewer than 3 letters or digits, check for lost text: 'q0' (noon)" in checked.stderr
    )
    for _ in range(2):
        run = assay("run", "ferry")
        assert run.returncode == 0, run
    assert "At noon." in assay("show", "ferry", "tickets").stdout
