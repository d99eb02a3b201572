"""What was no question, counted by its reason."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Drop(NamedTuple):
    """A title, heading, sentence or link that no question was made of, and why."""

    kind: str
    reason: str


class Tally:
    """Counts what was looked at, dropped and kept, by kind.

    >>> tally = Tally()
    >>> tally.drop(Drop("title", "generic"))
    >>> tally.lines()
    ['1 title: generic']
    """

    def __init__(self) -> None:
        self.dropped: Counter[Drop] = Counter()

    def drop(self, drop: Drop, times: int = 1) -> None:
        """Count something that is no question."""
        self.dropped[drop] += times

    def lines(self) -> list[str]:
        """Return a line for each kind and reason, the most frequent of a kind first."""
        ordered = sorted(self.dropped.items(), key=lambda item: (item[0].kind, -item[1], item[0].reason))
        return [f"{count:,} {drop.kind}{'' if count == 1 else 's'}: {drop.reason}" for drop, count in ordered]
