"""What a question takes is counted as if nothing had been at hand; busy machines are told from slow steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.retrieval import clock
from rag_assay.evals.retrieval.clock import Clock, Spent


def test_what_came_from_a_cache_counts_as_if_it_were_computed_now() -> None:
    wall = iter([100.0, 103.0])
    delay = iter([7.0, 7.5])
    own = Clock(wall=lambda: next(wall), waited=lambda: next(delay))
    begin = own.now()
    own.add(Spent(2.0, 0.25))
    assert own.since(begin) == Spent(3.0 + 2.0, 0.5 + 0.25)


@pytest.mark.parametrize(
    ("spent", "busy"),
    [
        (Spent(1.0, 0.0), False),  # it may have waited for a server all the time
        (Spent(1.0, 0.2), False),
        (Spent(1.0, 0.21), True),
        (Spent(0.0, 0.0), False),
    ],
)
def test_a_fifth_of_the_time_without_a_processor_is_busy(spent: Spent, busy: bool) -> None:
    assert spent.busy is busy
    assert spent.share(4).busy is busy


def test_waiting_is_read_where_the_system_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= clock.waited_seconds() <= clock.waited_seconds()
    counted = tmp_path / "schedstat"
    monkeypatch.setattr(clock, "_SCHEDULER", counted)
    assert clock.waited_seconds() == 0, "not Linux"
    counted.write_text("939038 7627315 2\n")
    assert clock.waited_seconds() == 0.007627315
    counted.write_text("?\n")
    assert clock.waited_seconds() == 0
