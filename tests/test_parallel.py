"""Tests that run in several processes: reports, output, crashes, and ends as in one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.fakes.forking import ROOT
from tests.parallel import groups_of

FILES = {
    "conftest.py": """
import os, pathlib, pytest
@pytest.fixture(scope="session", autouse=True)
def ended(tmp_path_factory):
    yield
    with open(pathlib.Path(__file__).with_name("ended"), "a") as file:
        file.write(f"{os.getpid()}\\n")
@pytest.fixture(scope="module", autouse=True)
def once(tmp_path_factory):
    yield tmp_path_factory.mktemp("once")
    assert os.environ["BROKEN"] != "module", "the file's end is broken"
""",
    "test_a.py": """
import os, sys, warnings, pytest
def test_good(tmp_path): print("not shown")
def test_bad():
    print("printed by a bad one")
    assert [1, 2] == [1, 3]
@pytest.mark.skip(reason="no server")
def test_skipped(): ...
def test_dies(): os._exit(7)
def test_after_that(): warnings.warn("mind the gap")
""",
    "test_b.py": """
import pytest
@pytest.mark.parametrize('n', range(50))
def test_many(n, once): assert once.is_dir()
""",
    "test_c.py": "def test_alone(once): assert once.is_dir()",
}


class Item(NamedTuple):
    """A test, as far as it decides which worker runs it."""

    path: str
    fixturenames: tuple[str, ...] = ()


def test_files_that_share_a_fixture_are_run_by_one_worker() -> None:
    items = [Item("a"), Item("a", ("shipped_once",)), Item("b"), Item("c", ("shipped_once",)), Item("b")]
    assert groups_of(items) == [[*items[:2], items[3]], [items[2], items[4]]]  # type: ignore[arg-type]


def run(folder: Path, *arguments: str, broken: str = "") -> tuple[Counter[str], str, int]:
    """Run the files; return the numbers of the last line, what was printed and the exit code."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    options = ("-p", "no:cacheprovider", "--rootdir", str(folder), "-c", str(folder / "pytest.ini"))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:langsmith_plugin\n")
    command = [sys.executable, "-X", "utf8", "-m", "pytest", "-p", "tests.parallel"]  # no fork
    done = subprocess.run(
        [*command, *options, *arguments, str(folder)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "BROKEN": broken, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    last = done.stdout.strip().splitlines()[-1]
    numbers = Counter({name: int(number) for number, name in re.findall(r"(\d+) ([a-z]+)", last)})
    return numbers, done.stdout + done.stderr, done.returncode


def test_every_test_is_reported_once_and_the_others_go_on_after_a_crash(tmp_path: Path) -> None:
    numbers, printed, code = run(tmp_path, "--jobs", "3")
    assert (numbers["passed"], numbers["failed"], numbers["skipped"], code) == (53, 2, 1, 1), printed
    assert numbers["warning"] + numbers["warnings"] >= 1
    assert "mind the gap" in printed
    assert "printed by a bad one" in printed
    assert "assert [1, 2] == [1, 3]" in printed
    assert "The process ended with exit code 7 in this test." in printed
    assert "not shown" not in printed
    # The worker that died did not end its fixtures, the one after it and the two others did.
    assert len(set((tmp_path / "ended").read_text().split())) == 3


def test_the_first_failure_ends_all_workers(tmp_path: Path) -> None:
    numbers, printed, code = run(tmp_path, "--jobs", "2", "-x")
    assert (numbers["failed"], code) == (1, 1), printed
    assert "stopping after 1 failures" in printed


def test_what_fails_at_the_end_of_a_file_is_an_error(tmp_path: Path) -> None:
    numbers, printed, code = run(tmp_path, "--jobs", "2", "-k", "alone or many", broken="module")
    assert (numbers["passed"], numbers["error"] + numbers["errors"], code) == (51, 2, 1), printed
    assert "the file's end is broken" in printed
