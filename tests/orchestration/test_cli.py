"""The commands: exit codes, sentences instead of stack traces, results on standard output."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.runs.home_lock import alone
from rag_assay.orchestration.settings import Settings
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home, home
from tests.fakes.commands import assay, assay_process
from tests.fakes.processes import ROOT, assay_command
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def test_run_reports_and_exports(assay_home: Home, study_path: Path) -> None:
    before = assay("run", str(study_path), "--dry-run")
    assert before.returncode == 0
    assert "2 cells" in before.stdout
    assert not assay_home.database.exists(), "a plan changes nothing"

    done = assay_process("run", str(study_path))  # as a shell starts it, with all that it imports
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert "nDCG @ 10" in done.stdout
    report = assay_home.reports / "town.html"
    assert str(report) in done.stdout
    assert "assay dev" in done.stdout
    assert "<script>" not in report.read_text().split("</style>")[1].split("<body")[0]

    written = report.stat().st_mtime_ns
    assert assay("run", str(study_path)).returncode == 0
    assert report.stat().st_mtime_ns == written, "nothing has changed, and nothing is drawn again"
    report.write_text("torn")
    assert assay("run", str(study_path)).returncode == 0
    assert "</html>" in report.read_text()
    report.unlink()
    assert assay("report", str(study_path)).stdout == f"{report}\n"
    assert "</html>" in report.read_text()

    printed = json.loads(assay("report", str(study_path), "--format", "json").stdout)
    others = [row for row in printed if row["metric"] == "verdict"]
    assert [row["cell"] for row in others] == [row["recommended"]["cell"] for row in others] != []
    # The others are of axes and contexts.
    rows = [row for row in printed if ":" not in row["metric"] and row not in others]
    assert {row["cell"] for row in rows} == {"town.t16.minilm.words.quote", "town.t16.minilm.meaning.quote"}
    wanted = {
        "cell",
        "chunking",
        "embedder",
        "retriever",
        "generator",
        "metric",
        "value",
        "n",
        "coverage",
        "low",
        "high",
    }
    assert all(wanted <= set(row) for row in rows)
    assert {row["n"] for row in rows if row["metric"] == "ndcg@10"} == {2}, (
        "the unanswerable question has no gold"
    )
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)

    runs = assay("report", str(study_path), "--format", "trec").stdout.split()
    assert len(runs) == 2
    line = Path(runs[0]).read_text().splitlines()[0].split()
    assert line[0] == "q1"
    assert line[1] == "Q0"
    assert line[3] == "1"

    after = assay("run", str(study_path), "--dry-run")
    assert "to embed" not in after.stdout
    assert "no model is called, so nothing costs money" in after.stdout

    assay_home.database.write_bytes(b"torn")
    torn = assay("report", str(study_path), "--format", "json")
    assert "it was moved to assay.duckdb.damaged-" in torn.stderr
    assert (torn.returncode, json.loads(torn.stdout)) == (0, printed)
    assay_home.database.unlink()
    assert assay("workspace", "rebuild").returncode == 0
    again = json.loads(assay("report", str(study_path), "--format", "json").stdout)
    assert again == printed


def test_wrong_study_is_answered_whole_and_nothing_runs(assay_home: Home, study_path: Path) -> None:
    text = study_path.read_text().replace("overlap: 4", "overlap: 40").replace("dense:", "dens:")
    study_path.write_text(text)
    commands = (("check",), assay_process), (("run",), assay), (("run", "--dry-run"), assay)
    for (command, *options), called in commands:
        done = called(command, str(study_path), *options)
        assert done.returncode == 2, command
        assert "town.yaml:6" in done.stderr
        assert "overlap (40) must be smaller than size (16)" in done.stderr
        assert "town.yaml:11" in done.stderr
        assert "did you mean `dense`?" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (assay_home.root / "pages").exists()


def test_wrong_question_file_stops_a_run_before_the_crawl(assay_home: Home, study_path: Path) -> None:
    questions = study_path.parent / "town.questions.yaml"
    questions.write_text(questions.read_text().replace("id: q2", "id: q1"))
    done = assay("run", str(study_path))
    assert done.returncode == 2
    assert "town.questions.yaml:7" in done.stderr
    assert not (assay_home.root / "pages").exists()


def test_unknown_study_and_unfinished_study(assay_home: Home, study_path: Path) -> None:
    unknown = assay("run", "demmo")
    assert unknown.returncode == 2
    assert "demo" in unknown.stderr
    early = assay("report", str(study_path))
    assert early.returncode == 2
    assert "assay run" in early.stderr


def test_failed_cells_exit_1(finished: Finished) -> None:
    gone = "  gone: {llm: {model: openai/x, api_base: 'http://127.0.0.1:9/v1'}}\n"
    finished.edit("generators:\n", f"generators:\n{gone}")
    finished.edit("  meaning: {dense: {k: 5}}\n", "")
    done = assay("run", str(finished.path))
    assert done.returncode == 1
    assert "(town.t16.minilm.words.gone)" in done.stderr
    assert "connection refused: nothing listens at http://127.0.0.1:9/v1" in done.stderr
    assert "town.t16.minilm.words.quote" not in done.stderr
    assert "100 %" in done.stdout, "the other cell is measured all the same"
    part = assay("run", str(finished.path), "--only", "answers")
    assert part.returncode == 1
    assert "Built as far as" not in part.stderr


def test_database_held_by_another_process(finished: Finished) -> None:
    with connect(finished.home.database):
        done = assay_process("report", str(finished.path), "--format", "json", ASSAY_LOCK_WAIT="1")
    assert done.returncode == 1
    assert f"process {os.getpid()}" in done.stderr


TEMPLATE = ("--questions", "template")


def write_questions(study: Path) -> None:
    """Fill in the questions that `assay init` has written beside a study."""
    path = study.with_name(f"{study.stem}.questions.yaml")
    path.write_text(path.read_text().replace(": Replace this by ", ": What of "))


def test_init_writes_a_study_that_checks(assay_home: Home, tmp_path: Path, study_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    done = assay("init", str(study_path.parent / "texts"), "-o", str(output), *TEMPLATE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(output), str(tmp_path / "mine.questions.yaml")]
    checked = assay("check", str(output))
    assert checked.returncode == 2
    assert "mine.questions.yaml:5: all questions are still those of the template" in checked.stderr
    write_questions(output)
    assert assay("check", str(output)).returncode == 0
    assert assay("init", str(tmp_path), "-o", str(output)).returncode == 2, "nothing is overwritten"
    site = tmp_path / "site.yaml"
    assert assay("init", "https://blog.example.org/", "-o", str(site), *TEMPLATE).returncode == 0
    write_questions(site)
    assert assay("check", str(site)).returncode == 0
    assert "allow_private" not in site.read_text()
    own = tmp_path / "own.yaml"
    assert assay("init", "http://127.0.0.1:8000/", "-o", str(own), *TEMPLATE).returncode == 0
    assert "allow_private: true" in own.read_text(), "else the crawl would refuse the address it was given"
    write_questions(own)
    assert assay("check", str(own)).returncode == 0
    nothing = assay("init", str(tmp_path / "absent"), "-o", str(tmp_path / "x.yaml"))
    assert nothing.returncode == 2
    assert "is not a folder, a file or a URL" in nothing.stderr


def test_init_writes_relative_paths_and_names_that_are_free(assay_home: Home, tmp_path: Path) -> None:
    names = []
    for project in ("one", "two"):
        docs = tmp_path / project / "docs"
        docs.mkdir(parents=True)
        (docs / "harbour.txt").write_text(f"The harbour of {project} opens at seven.")
        study = docs.parent / "study.yaml"
        done = assay("init", "docs", *TEMPLATE, folder=docs.parent)
        assert done.returncode == 0, done.stderr
        write_questions(study)
        assert 'path: "docs"' in study.read_text()
        assert str(tmp_path) not in study.read_text()
        assert assay("run", str(study), "--only", "pages").returncode == 0
        names.append(read_study(study).study)
    assert names == ["docs", "docs-2"]
    forced = assay("init", "docs", "--force", *TEMPLATE, folder=tmp_path / "one")
    assert forced.returncode == 0
    assert read_study(tmp_path / "one" / "study.yaml").study == "docs", "its own name is free"
    moved = tmp_path / "moved"
    (tmp_path / "two").rename(moved)
    assert assay("check", "study.yaml", folder=moved).returncode == 0
    (moved / "demo").mkdir()
    (moved / "demo" / "a.txt").write_text("Words.")
    assert assay("init", "demo", "-o", "sub/demo.yaml", *TEMPLATE, folder=moved).returncode == 0
    study = read_study(moved / "sub" / "demo.yaml")
    assert study.study == "demo-2", "the bundled one is known by that name"
    assert study.sources["demo-2-pages"].path == "../demo"


def test_a_limit_that_cuts_files_off_is_told_by_check_run_and_report(
    assay_home: Home, study_path: Path
) -> None:
    whole = study_path.read_text()
    assert "limit: " not in assay("check", str(study_path)).stderr
    study_path.write_text(whole.replace("path: texts}", "path: texts, limits: {pages: 2}}"))
    checked = assay("check", str(study_path))
    assert checked.returncode == 0
    assert "source texts: limit: 2 pages cuts off the rest of" in checked.stderr
    done = assay("run", str(study_path))
    assert done.returncode == 0, done.stderr
    told = "limit: 2 pages cut the source off"
    assert told in " ".join(done.stdout.split())
    assert told in (assay_home.reports / "town.html").read_text()


def test_crawl_again(assay_home: Home, study_path: Path) -> None:
    assert assay("run", str(study_path), "--recrawl", "texts", "--only", "documents").returncode == 0
    (study_path.parent / "texts" / "new.txt").write_text("The bakery sells rolls from six in the morning.")
    assert assay("run", str(study_path), "--recrawl", "texts", "--only", "documents").returncode == 0
    with connect(assay_home.database) as connection:
        crawls = connection.execute("SELECT new, unchanged FROM crawls ORDER BY started_at").fetchall()
    assert crawls == [(3, 0), (1, 3)]
    unknown = assay("run", str(study_path), "--recrawl", "textts", "--only", "documents")
    assert unknown.returncode == 2
    assert "did you mean `texts`?" in unknown.stderr


def test_models(assay_home: Home) -> None:
    listed = assay("models", "list")
    assert listed.returncode == 0
    assert "all-MiniLM-L6-v2" in listed.stdout
    assert assay("models", "verify", "all-MiniLM-L6-v2").returncode == 0
    unknown = assay("models", "fetch", "all-minilm")
    assert unknown.returncode == 2
    assert "all-MiniLM-L6-v2" in unknown.stderr


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("a-file", "a-file cannot be written to (Not a directory)"),
        ("~no-such-user/x", "cannot be used as a path"),
    ],
)
def test_home_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, study_path: Path, home: str, told: str
) -> None:
    (tmp_path / "a-file").write_text("")
    given = home if home.startswith("~") else str(tmp_path / home)
    done = assay("run", str(study_path), "--dry-run", ASSAY_HOME=given)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_a_sentence(tmp_path: Path, study_path: Path) -> None:
    done = assay("init", str(study_path.parent), "-o", str(study_path / "below-a-file.yaml"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mark", ["study.yaml", ".git", None])
def test_default_workspace_is_in_the_project_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str | None
) -> None:
    monkeypatch.setenv("ASSAY_HOME", "")
    project = tmp_path / "project"
    below = project / "notes" / "2026"
    below.mkdir(parents=True)
    (tmp_path / "study.yaml").touch()  # of a project that this one lies in
    if mark:
        (project / mark).touch()
    for folder in (project, below):
        monkeypatch.chdir(folder)
        expected = (project if mark else tmp_path) / "var"
        assert Settings().place() == home().root == expected
    monkeypatch.setenv("ASSAY_HOME", "elsewhere")
    assert Settings().place() == home().root == below / "elsewhere"


def test_default_workspace_without_a_project_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert Settings().place() == home().root == tmp_path / "var"


def test_terminal_without_utf_8_and_without_stderr(finished: Finished) -> None:
    """The leaderboard has signs that such a terminal lacks; a closed stderr is no reason not to run."""
    finished.edit("study: town", "study: town\ndescription: Häfen – wo?")
    study = finished.edit("  words:", "  more: {bm25: {k: 2}}\n  words:")
    done = subprocess.run(
        ["sh", "-c", '"$0" "$@" 2>&-', *assay_command("run", str(study.path))],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    assert b"nDCG @ 10" in done.stdout
    assert done.stdout.isascii()
    with connect(finished.home.database) as connection:
        cells = connection.execute("SELECT count(DISTINCT cell) FROM current_answers").fetchall()
    assert cells == [(len(study.cells()),)], "it has run"


def test_rebuild_waits_for_a_run_and_keeps_every_row(finished: Finished) -> None:
    database = finished.home.database
    with connect(database) as connection:
        rows = connection.execute("SELECT * FROM current_scores ORDER BY ALL").fetchall()
    database.write_bytes(b"torn")
    torn = assay("report", str(finished.path), "--format", "json")
    assert torn.returncode == 0
    assert "it was moved to assay.duckdb.damaged-" in torn.stderr
    database.unlink()
    with alone(finished.home, lambda *_: None):
        waiting = subprocess.Popen(
            assay_command("workspace", "rebuild"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr is not None
        assert f"process {os.getpid()}" in waiting.stderr.readline()
        assert not database.exists()
    printed, _ = waiting.communicate(timeout=280)
    assert waiting.returncode == 0
    assert re.search(r"^scores: [1-9]", printed, re.MULTILINE)
    with connect(database) as connection:
        assert connection.execute("SELECT * FROM current_scores ORDER BY ALL").fetchall() == rows
