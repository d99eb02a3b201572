"""`assay ratings import`: from a stranger's sheet to a report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.commands import assay
from tests.fakes.scored_sheets import rows, write_mapping, write_xlsx


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_guess_is_filled_in_and_imported_and_again_is_no_change(home: Path, tmp_path: Path) -> None:
    sheet = write_xlsx(tmp_path / "llama.xlsx", rows())
    done = assay("ratings", "import", str(sheet))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"assay ratings import --guess {sheet}" in done.stderr
    done = assay("ratings", "import", "--guess", str(sheet))
    mapping = tmp_path / "llama.xlsx.mapping.yaml"
    assert (done.returncode, done.stdout) == (0, f"{mapping}\n")
    assert "question: the column 'question', by its name" in done.stderr
    assert "generator: not told; fill it in" in done.stderr
    assert not home.exists()
    assert "exists already" in assay("ratings", "import", "--guess", str(sheet)).stderr
    done = assay("ratings", "import", str(sheet))
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {mapping}:14: `cell.generator` is empty; give it a value or delete the line\n",
    )
    mapping.write_text(mapping.read_text().replace("generator:", "generator: llama"))
    done = assay("ratings", "import", str(sheet), "--no-run")
    study = home / "imports" / "llama" / "study.yaml"
    assert (done.returncode, done.stdout) == (0, f"{study}\n")
    assert "Sheet llama of the study llama: 24 rows, 3 questions, 8 cells, 24 answers." in done.stderr
    assert "people.points: 24 scores (5: 8, 3: 8, 0: 8)." in done.stderr
    assert f"Now: assay run {study}" in done.stderr
    assert (
        "No change: all of it was imported before."
        in assay("ratings", "import", str(sheet), "--no-run").stderr
    )


def test_an_import_brings_the_study_up_to_date(home: Path, tmp_path: Path) -> None:
    sheet = write_xlsx(tmp_path / "llama.xlsx", rows())
    done = assay("ratings", "import", str(sheet), "--mapping", str(write_mapping(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert (home / "reports" / "sport.html").is_file()
    assert "Points by people" in done.stdout


def test_rejects_are_told_and_kept_only_if_wanted(home: Path, tmp_path: Path) -> None:
    found = rows()
    found[3] = {**found[3], "Score": 4}
    sheet = write_xlsx(tmp_path / "a.xlsx", found)
    mapping = str(write_mapping(tmp_path))
    done = assay("ratings", "import", str(sheet), "--mapping", mapping, "--no-run")
    assert done.returncode == 2
    assert f"error: {sheet}:5: points: 4 is not a value of the rubric; it has 5, 3 or 0" in done.stderr
    assert not (home / "imports" / "sport").exists()
    done = assay("ratings", "import", str(sheet), "--mapping", mapping, "--no-run", "--partial")
    assert done.returncode == 0
    assert "not taken: a.xlsx:5: points: 4 is not a value" in done.stderr
    assert "23 rows" in done.stderr


def test_a_pipe_is_refused_before_anybody_waits_for_it(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    done = assay("ratings", "import", str(tmp_path / "a.csv"))
    assert (done.returncode, "not a regular file" in done.stderr) == (2, True)
    assert not home.exists()
