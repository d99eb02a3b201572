"""A few sequences of the state machine, the same each time; `make drill` draws many more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag_assay.warehouse import processes
from tests.drill.machine import Clock, draw


@pytest.mark.models
def test_runs_after_random_steps_end_with_the_rows_of_a_fresh_workspace(
    weights: Callable[[str], Path],
) -> None:
    weights("all-MiniLM-L6-v2")  # whose tokenizer measures the chunks
    draw(examples=2, steps=5)


def test_the_clock_of_our_modules_jumps() -> None:
    before = datetime.now(UTC)
    with Clock(-7200).installed():
        told = processes.datetime.now(UTC)
        assert isinstance(before, processes.datetime)
    assert timedelta(hours=1.9) < before - told < timedelta(hours=2)
    assert processes.datetime is datetime
