"""A slice of the drill: one trial of some kinds, on forked runs; `make drill` has all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drill.trial import differences

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
