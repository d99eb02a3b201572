"""Real commands on a terminal of 100 columns and 30 rows: what a person sees in the end is the result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.standings import entries, main_subset
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.processes import assay_command
from tests.fakes.terminal import Screen, Terminal
from tests.orchestration.conftest import Finished, replace_in
from tests.orchestration.test_making_questions import PILOTS

pytestmark = pytest.mark.models
COLUMNS, ROWS = 100, 30
NOISE = re.compile(
    r"Traceback|Warning|warning:|Exception|nanobind|leaked|deprecat|\bERROR\b|\bWARN|huggingface|%\|", re.I
)


def seen(*arguments: str) -> Screen:
    """Run a command on a terminal, which goes well; return what is seen, in which there is no noise."""
    return seen_of(assay_command(*arguments))


def seen_of(command: list[str], errors: int | None = None) -> Screen:
    """Run a command whose standard error may be another descriptor; see `seen`."""
    with Terminal(command, {}, COLUMNS, ROWS, errors) as terminal:
        code = terminal.ended(280)
        screen = Screen(terminal.written, COLUMNS, ROWS)
    text = "\n".join(screen.lines)
    assert code == 0, text
    assert not NOISE.search(text), text
    assert not too_wide(screen), text
    assert errors is None or "\x1b[2K" in terminal.written, "progress was shown, and erased"
    return screen


def too_wide(screen: Screen) -> list[str]:
    """Return the lines that were longer than the screen is wide; the path of a file cannot be cut."""
    return [line for line in screen.wrapped if "/" not in line]


def ends_with_result(screen: Screen, study: Path, home: Home) -> bool:
    """Return whether the last lines are those of a study's result: its verdict."""
    data = report_data(read_study(study), home, with_hits=False)
    words = " ".join(data.verdict.sentences).split()
    shown = " ".join(screen.last).split()
    return shown[-len(words) :] == words and len(entries(data, main_subset(data))) > 1


def notes_in(folder: Path) -> Path:
    """Write a document that questions can be made from; return its folder."""
    notes = folder / "notes"
    notes.mkdir()
    (notes / "pilots.md").write_text(PILOTS)
    return notes


def test_run_of_a_finished_study(finished: Finished) -> None:
    assert ends_with_result(seen("run", str(finished.path)), finished.path, finished.home)


def test_run_from_nothing(assay_home: Home, study_path: Path) -> None:
    replace_in(study_path, "{model: all-MiniLM-L6-v2, max_tokens: 256}", "{hashing: {size: 64}}")
    screen = seen("run", str(study_path))
    assert ends_with_result(screen, study_path, assay_home)
    assert not [line for line in screen.lines if line.startswith("stage ")], "progress is erased"
    assert len(screen.lines) <= ROWS


def test_what_fails_stays(assay_home: Home, study_path: Path) -> None:
    for path in (study_path.parent / "texts").iterdir():
        path.write_text("Two words.")
    with Terminal(assay_command("run", str(study_path)), {}, columns=COLUMNS, rows=ROWS) as terminal:
        assert terminal.ended(280) == 1
        screen = "\n".join(Screen(terminal.written, COLUMNS, ROWS).last)
    assert "has_documents" in screen
    assert "Left out because of that, all or in part: chunks, embeddings, " in screen
    assert "stage  1 of" not in screen, "what succeeded is erased"


def test_try_of_a_folder_leaves_stderr_empty(assay_home: Home, tmp_path: Path) -> None:
    """Progress is on the terminal, be it that of stdout alone; on stderr is what went wrong."""
    command, errors = assay_command("try", str(notes_in(tmp_path))), tmp_path / "errors"
    command[1:1] = ["-X", "utf8"]  # no fork: nor do imports write there
    with errors.open("wb") as stderr:
        screen = seen_of(command, stderr.fileno())
    assert errors.read_text() == ""
    (made,) = (assay_home.root / "tries").glob("*/study.yaml")
    assert ends_with_result(screen, made, assay_home)
    assert "questions were made from" in " ".join(screen.lines), "above the result"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["ask", "town", "How many cars fit on the ferry?"], "nineteen cars"),
        (["show", "town", "q2"], "Nineteen cars"),
        (["list", "town"], "leads now"),
        (["run", "town", "--dry-run"], "cells"),
        (["check", "town"], "good"),
        (["list"], "town"),
        (["report", "town"], "town"),
        (["export", "town", "OUT"], ""),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_other_commands(
    finished: Finished,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.setenv("ASSAY_STUDIES", str(finished.path.parent))
    places = {"town": finished.path, "OUT": tmp_path / "out"}
    named = [str(places.get(one, one)) for one in arguments]
    shown = " ".join("\n".join(seen(*named).lines).split())
    leader = report_data(read_study(finished.path), finished.home, with_hits=False).verdict.leader
    assert leader is not None
    assert (f"{leader.label} {expected}" if expected == "leads now" else expected) in shown
    done = assay(*named, *(["--force"] if arguments[0] == "export" else []))  # results go elsewhere
    assert done.returncode == 0, done.stderr
    assert not NOISE.search(done.stderr), done.stderr
    if arguments[0] in {"ask", "show", "run"} or arguments == ["list", "town"]:
        assert done.stderr == ""
