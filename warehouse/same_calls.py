"""Threads that make the same call take turns: the first one pays, and the others find it in the cache."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rag_assay.warehouse.fair_slots import FairSlots


@dataclass
class _Turn:
    """One thread at a time makes a call; `wanted` threads wait for it or make it."""

    slot: FairSlots = field(default_factory=FairSlots)
    wanted: int = 0


class SameCalls:
    """Turns of the threads of this process."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        """Wait until no other thread makes the same call.

        Raises:
            UnwantedError: nobody wants the call any more.
        """
        with self._lock:
            turn = self._turns.setdefault(call_id, _Turn())
            turn.wanted += 1
        try:
            with turn.slot.slot():
                yield
        finally:
            with self._lock:
                turn.wanted -= 1
                if not turn.wanted:
                    del self._turns[call_id]
