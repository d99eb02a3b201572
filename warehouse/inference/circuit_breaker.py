"""What is known of the models that a gateway asks: which have answered, and which cannot be asked at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import NamedTuple

FIRST_ALONE = 5.0  # seconds that others wait for a model's first call: a refused key is told sooner


class ModelEndpoint(NamedTuple):
    """A model on a server; None: its provider's own."""

    model: str
    server: str | None


class Obstacles:
    """Safe to use from many threads.

    lasting: seconds after which what stood in the way is tried again; in a run, never
    """

    def __init__(self, lasting: float = inf) -> None:
        self._lasting = lasting
        self._met: dict[ModelEndpoint, tuple[str, float]] = {}
        self._answered: set[ModelEndpoint] = set()
        self._first: dict[ModelEndpoint, threading.Lock] = {}
        self._lock = threading.Lock()

    def before(self, asked: ModelEndpoint) -> str | None:
        """Return why a model cannot be asked; None: nothing is known against it."""
        reason, since = self._met.get(asked, (None, 0.0))
        if reason is not None and monotonic() - since >= self._lasting:
            self._met.pop(asked, None)
            return None
        return reason

    def meet(self, asked: ModelEndpoint, reason: str) -> None:
        """Note why a model cannot be asked."""
        self._met[asked] = reason, monotonic()

    def forget(self) -> None:
        """Let every model be tried again."""
        self._met.clear()

    def has_answered(self, asked: ModelEndpoint) -> bool:
        """Return whether a model has answered."""
        return asked in self._answered

    def pass_by(self, asked: ModelEndpoint) -> None:
        """Note that a model has answered."""
        self._answered.add(asked)

    @contextmanager
    def first_alone(self, asked: ModelEndpoint) -> Iterator[None]:
        """Until a model has answered or cannot be asked, let its calls be made one by one, for a while.

        So what fails all of them, as a wrong key, is met once.
        """
        if self._is_known(asked):
            yield
            return
        with self._lock:
            first = self._first.setdefault(asked, threading.Lock())
        is_mine = first.acquire(timeout=FIRST_ALONE)
        try:
            if is_mine and self._is_known(asked):
                first.release()
                is_mine = False
            yield
        finally:
            if is_mine:
                first.release()

    def _is_known(self, asked: ModelEndpoint) -> bool:
        return asked in self._answered or asked in self._met
