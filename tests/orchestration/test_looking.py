"""`list`, `report --open`, `show`: what is there is shown, and nothing is changed."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rag_assay.evals.study.run_studies import note
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.cli import app
from rag_assay.warehouse.paths import Home
from tests.fakes import commands
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def assay(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "140"})


def test_version_and_help() -> None:
    assert assay("--version").stdout.startswith("rag-assay ")
    for command in (["-h"], ["run", "-h"], ["models", "list", "-h"]):
        found = assay(*command)
        assert found.exit_code == 0
        assert "Usage" in found.stdout
    assert "--install-completion" in assay("-h").stdout


def test_shell_is_told_the_names_of_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_assay.orchestration.terminal.cli_errors import complete_study

    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path))
    (tmp_path / "one.yaml").write_text("# a comment\nstudy: energy-law\n")
    (tmp_path / "two.yaml").write_text("nothing: here\n")
    (tmp_path / "two.questions.yaml").write_text("question_set: x\n")
    assert complete_study("") == ["energy-law", "two"]
    assert complete_study("en") == ["energy-law"]


def test_before_a_run(
    assay_home: Home, study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path))
    (tmp_path / "broken.yaml").write_text("study: [\n")
    listed = assay("list").stdout
    assert next(line.split()[:4] for line in listed.splitlines() if "town" in line) == [
        "town",
        "2",
        "not",
        "run",
    ]
    assert "not valid YAML" in " ".join(listed.split())
    opened = assay("report", "town", "--open")
    assert opened.exit_code == 2
    assert f"assay run {study_path}" in opened.stderr
    shown = assay("show", "town", "q1")
    assert shown.exit_code == 2
    assert "no results yet" in shown.stderr


def test_after_a_run(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    study_path, home = finished.path, finished.home
    study = read_study(study_path)
    note(study, home)
    (line,) = [line for line in assay("list").stdout.splitlines() if line.startswith("town ")]
    assert "not run yet" not in line
    assert str(study_path) in line

    shown = assay("show", "town", "q1").stdout
    assert "true answer: Twelve pounds a night." in shown
    assert "evidence 1, grade 1: harbour.txt: “A mooring costs twelve pounds a night”" in shown
    for ranking in ("t16 · minilm · words", "t16 · minilm · meaning"):
        block = shown.split(ranking)[1]
        assert "1 ✓" in block
        assert "evidence 1: held by the first" in block
        assert "quote answers: " in block
        assert "ndcg@10 1.000" in block
    assert "without evidence" in assay("show", "town", "q3").stdout
    unknown = assay("show", "town", "q9")
    assert unknown.exit_code == 2
    assert "asks no question 'q9'" in unknown.stderr

    answers_a_question_as_the_grid_did(study)

    opened: list[str] = []
    report = home.report("town")
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    found = assay("report", "town", "--open")
    assert (found.exit_code, found.stdout, opened) == (0, f"{report}\n", [report.as_uri()])
    monkeypatch.setattr(webbrowser, "open", lambda _uri: False)
    without = assay("report", str(study_path), "--open")
    assert (without.exit_code, without.stdout) == (0, f"{report}\n")
    assert "no browser" in without.stderr

    finished.edit("{size: 16, overlap: 4}", "{size: 24, overlap: 4}")
    changed = assay("show", "town", "q1")
    assert (changed.exit_code, changed.stdout) == (0, shown)
    assert "the study file changed since this run" in " ".join(changed.stderr.split())
    asked = assay("ask", "town", "q1")
    assert asked.exit_code == 2
    assert "chunks of town.t16 were built by another recipe" in asked.stderr
    study_path.unlink()
    assert "its file was deleted" in assay("list").stdout


def answers_a_question_as_the_grid_did(study: Study) -> None:
    answered = assay("ask", "town", "q1", "--all-retrievers", "--cell", "t16.minilm.words.quote")
    assert answered.exit_code == 0
    meaning, words = answered.stdout.split("t16 · minilm · words")
    assert "t16 · minilm · meaning" in meaning
    for block in (words, meaning):
        assert "1 ✓" in block
        assert "evidence 1: held by the first" in block
    assert "quote answers" not in meaning
    assert "twelve pounds" in words.split("quote answers")[1]
    assert "harbour.txt" in words.split("[1]")[1]

    typed = assay("ask", "town", "what does a MOORING cost?", "--format", "json")
    (record,) = json.loads(typed.stdout)
    assert record["cell"] in {cell.key for cell in study.cells()}
    assert record["answer"]["status"] == "ok"
    unknown = assay("ask", "town", "q1", "--cell", "t16.minilm.meanin.quote")
    assert unknown.exit_code == 2
    assert "did you mean" in unknown.stderr
    assert assay("ask", "town", " ").exit_code == 2
    assert "is not a date" in assay("ask", "town", "q1", "--asked-at", "soon").stderr
    said = ("--after", "What does a mooring cost?", "--after", "Twelve pounds.")
    assert assay("ask", "town", "And for how long?", *said).exit_code == 0
    assert "not by both" in assay("ask", "town", "q1", *said, "--conversation", "said.yaml").stderr


def test_a_run_with_nothing_to_do_looks_for_staleness_once(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = commands.assay("run", str(finished.path))
    monkeypatch.setattr(
        "rag_assay.evals.reporting.stale_results.refuse_changed", lambda *_: pytest.fail("looked again")
    )
    again = commands.assay("run", str(finished.path))
    assert again.returncode == 0, again.stderr
    assert again.stdout == shown.stdout
