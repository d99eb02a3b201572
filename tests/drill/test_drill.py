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
    command = [sys.executable, "-m", "tests.drill", "--jobs", "1", "--only", "all: "]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal  ") == 1, done.stdout
    assert "all rows equal" in done.stdout


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"v": ["a", "b"]}, []),
        ({"v": ["a"]}, ["v: 1 of 2 rows lack, 0 too many, first b"]),
        ({"v": ["a", "c"]}, ["v: 1 of 2 rows lack, 1 too many, first b"]),
        ({"v": ["a", "b", "b"]}, ["v: 0 of 2 rows lack, 0 too many, first a row comes twice"]),
        ({"error": ["torn"]}, ["the rows cannot be read: torn"]),
    ],
)
def test_differing_rows_are_said(found: dict[str, list[str]], said: list[str]) -> None:
    assert differences(found, {"v": ["a", "b"]}) == said
