from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.garbage_collection import FORGOTTEN, QUIET, marked, sweep
from rag_assay.warehouse.paths import Home
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.paths import Home
home = Home(Path(sys.argv[1]))
with marked(home), atomic_write(home.stage("chunks") / "aa" / "rows.txt") as temporary:
    temporary.write_text("half")
    print("written", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def temporary_files(home: Home) -> list[Path]:
    return list(home.root.rglob(".*.tmp"))


def test_what_a_killed_process_was_writing_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    command = [sys.executable, "-m", PROGRAM, KILLED, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "written\n"
        with marked(home) as removed:
            assert removed == 0
        assert len(temporary_files(home)) == 1, "it is still being written"
        other.stdin.close()
        assert other.wait() == -signal.SIGKILL
    with atomic_write(tmp_path / "mine") as temporary:
        temporary.write_text("whole")
        with marked(home) as removed:
            assert removed == 1
        assert temporary_files(home) == [temporary]
    with marked(home) as removed:
        assert removed == 0
    assert not list((tmp_path / "working").iterdir())


@pytest.mark.parametrize(
    ("process", "age", "left"),
    [
        ("4194303", 1.0, True),  # of a process that is not known here: it may run on another machine
        ("4194303", QUIET + 60, False),
        ("1", QUIET + 60, True),
        ("1", FORGOTTEN + 60, False),
        ("99999999999999999999999", QUIET + 60, False),
    ],
)
def test_files_of_processes_without_a_mark_go_by_their_age(
    tmp_path: Path, process: str, age: float, left: bool
) -> None:
    (tmp_path / "working").mkdir()
    (tmp_path / "working" / "4194302.00").touch()  # somebody was killed
    then = time.time() - age
    path = tmp_path / "cache" / f".call.json.{process}.0a1b2c3d.tmp"
    path.parent.mkdir()
    path.touch()
    kept = tmp_path / ".notes.tmp"
    kept.touch()
    for one in (path, kept):
        os.utime(one, (then, then))
    with marked(Home(tmp_path)):
        pass
    assert path.exists() == left
    assert kept.exists(), "a file of a person"


@pytest.mark.parametrize(("age", "left"), [(1.0, True), (FORGOTTEN + 60, False)])
def test_a_mark_of_another_machine_says_nothing_of_processes_here(
    tmp_path: Path, age: float, left: bool
) -> None:
    """Nobody seems to lock it, as on a shared disk without locks between machines."""
    (tmp_path / "working").mkdir()
    mark = tmp_path / "working" / "4194302.0a1b2c3d.000000000000"
    written = tmp_path / "cache" / ".call.json.4194302.0a1b2c3d.tmp"
    written.parent.mkdir()
    for path in (mark, written):
        path.touch()
    then = time.time() - age
    os.utime(mark, (then, then))
    with marked(Home(tmp_path)) as removed:
        assert removed == 0
    assert written.exists()
    assert mark.exists() == left


def test_a_quiet_file_of_a_process_that_is_known_to_live_stays(tmp_path: Path) -> None:
    """It may run on another machine, whose numbers say nothing here."""
    path = tmp_path / ".call.json.4194303.0a1b2c3d.tmp"
    path.touch()
    then = time.time() - FORGOTTEN - 60
    os.utime(path, (then, then))
    assert sweep(Home(tmp_path), dead=set(), alive={4194303}) == 0
    assert sweep(Home(tmp_path), dead=set(), alive=set()) == 1


def test_folders_of_abandoned_builds_are_removed(tmp_path: Path) -> None:
    (tmp_path / "working").mkdir()
    (tmp_path / "working" / "4194302.00").touch()
    old, new = (tmp_path / "documents" / name / ".build-0a" for name in ("aa", "bb"))
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    with marked(Home(tmp_path)) as removed:
        assert removed == 1
    assert new.exists()
    assert not old.exists()
