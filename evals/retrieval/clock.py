"""Measures a question's latency, and how long it waited for a busy processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BUSY = 0.2  # share of a measurement's seconds; one that waited longer says more of the machine than of itself
_SCHEDULER = Path("/proc/thread-self/schedstat")  # nanoseconds on a processor, waiting for one, and turns


@dataclass(frozen=True)
class Spent:
    """Wall seconds of something, and ``waited``: those in which the thread was ready and had no processor."""

    seconds: float = 0.0
    waited: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether it was measured on a machine that was busy with something else: too long, then."""
        return self.waited > BUSY * self.seconds

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.waited + other.waited)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.seconds - other.seconds, self.waited - other.waited)

    def share(self, parts: int) -> Spent:
        return Spent(self.seconds / parts, self.waited / parts)


def waited_seconds() -> float:
    """Return the seconds that this thread has waited for a processor; 0 if the system does not say."""
    try:
        return int(_SCHEDULER.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


@dataclass
class Clock:
    """Times a question as if nothing had been cached: code that uses a cache adds its cost."""

    saved: Spent = field(default_factory=Spent)
    wall: Callable[[], float] = time.perf_counter
    waited: Callable[[], float] = waited_seconds

    def now(self) -> Spent:
        delayed = self.waited()  # read outside of the wall seconds, here and in `since`
        return self.saved + Spent(self.wall(), delayed)

    def since(self, begin: Spent) -> Spent:
        wall = self.wall()
        return self.saved + Spent(wall, self.waited()) - begin

    def add(self, spent: Spent) -> None:
        self.saved += spent
