"""Whether a process that is named in a file still runs, here and on another machine."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.processes import ELSEWHERE, is_running, this_process

ROOT = Path(__file__).parents[2]
LONG_AGO = datetime.now(UTC) - timedelta(seconds=ELSEWHERE + 60)
OTHER = "1-0a1b2c3d-000000000000"  # a number that a process has here, too
NAMED = (
    "import sys; from pathlib import Path; from rag_assay.warehouse.paths import Home; "
    "from rag_assay.warehouse.processes import this_process; print(this_process(Home(Path(sys.argv[1]))))"
)


def now() -> datetime:
    return datetime.now(UTC)


def test_a_process_of_this_machine_runs_until_it_ends(tmp_path: Path) -> None:
    home = Home(tmp_path)
    mine = this_process(home)
    assert is_running(home, mine, LONG_AGO)
    command = [sys.executable, "-c", NAMED, str(tmp_path)]
    ended = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert ended.rpartition("-")[2] == mine.rpartition("-")[2], "one machine"
    assert [is_running(home, ended, now()) for _ in range(2)] == [False, False]


def test_a_process_of_another_machine_is_not_judged_by_what_runs_here(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert is_running(home, OTHER, now())
    assert not is_running(home, OTHER, LONG_AGO)
    path = home.chats / ".processes" / OTHER
    path.parent.mkdir(parents=True)
    path.touch()  # as it came from object storage, which has no locks
    assert is_running(home, OTHER, now())
    assert not is_running(home, OTHER, LONG_AGO)
    assert path.exists(), "it is the other machine's"
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_running(home, OTHER, LONG_AGO)
    assert not is_running(home, f"../{OTHER}", now())
