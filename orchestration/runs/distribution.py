"""How the runs of a walk are spread that Dagster launches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """How the keys of a stage are spread over runs.

    partitions: how many partitions a run covers at most
    workers: how many runs at once share what may be spent; others are not held back by this
    """

    partitions: int = 5
    workers: int = 2
