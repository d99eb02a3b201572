"""A slice of the drill: one trial of some kinds, on forked runs; `make drill` has all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.connection import connect
from tests.drill.stages import SEVERAL, STAGES
from tests.drill.town import write
from tests.drill.trial import QUERIES, differences

ROOT = Path(__file__).parents[2]


@pytest.mark.models
def test_a_slice_of_the_drill_ends_with_equal_rows() -> None:
    command = [sys.executable, "-m", "tests.drill", "--jobs", "1", "--small"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal  ") == 1, done.stdout
    assert "all rows equal" in done.stdout


WANTED = ['["q1", 1, 0.5]', '["q2", null, null]', '["q2", null, null]']


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (WANTED, []),
        (['["q1", 1, 0.5000001]', *WANTED[1:]], []),  # what was embedded beside other texts
        (['["q1", 1, 0.501]', *WANTED[1:]], "1 of 3 rows lack or have other numbers, 0 too many"),
        (['["q1", 2, 0.5]', *WANTED[1:]], "1 of 3 rows lack or have other numbers, 1 too many"),
        (WANTED[1:], "1 of 3 rows lack or have other numbers, 0 too many"),
        (WANTED[:2], "1 of 3 rows lack or have other numbers, 0 too many"),  # one of two equal rows
        ([*WANTED, '["q3", 1, 0.5]'], "0 of 3 rows lack or have other numbers, 1 too many"),
    ],
)
def test_differing_rows_are_said(found: list[str], said: str | list[str]) -> None:
    told = differences({"v": found}, {"v": WANTED})
    assert told == [] if said == [] else told[0].startswith(f"v: {said}, first ")


def test_rows_that_are_not_there_at_all_are_said() -> None:
    assert differences({}, {"v": WANTED})[0].startswith("v: 2 of 3 rows lack or have other numbers")


def test_every_view_is_compared_and_every_stage_is_killed(tmp_path: Path) -> None:
    with connect(tmp_path / "assay.duckdb") as connection:
        found = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    # Those of use read conversations, which no run writes, and tables that are compared here.
    assert {name for (name,) in found if not name.startswith("usage_")} <= QUERIES.keys()
    one = write(tmp_path / "town", "http://127.0.0.1:1/v1").one
    stages = stages_of(Grid([read_study(one)]))
    assert tuple(stages) == STAGES
    assert all(stage.keys() for stage in stages.values())
    assert tuple(name for name, stage in stages.items() if len(stage.keys()) > 1) == SEVERAL
