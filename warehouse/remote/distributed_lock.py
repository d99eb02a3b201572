"""Turns that machines take at what is paid for: of two that want the same, one does it and the other waits.

Who has a turn holds an object of its name and changes it every few seconds. Who waits takes over an object
that has not changed for longer, by its own clock: clocks of machines need not agree. So a machine that was
lost gives its turns away.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.remote.store import RemoteStore, Version

FOLDER = "turns"
BEAT = 10.0  # seconds between two signs of life
LOST = 45.0  # seconds without one after which a turn is given away
GLANCE = 0.2  # seconds between two looks of who waits


class Turns:
    """The turns of one process; safe for several threads."""

    def __init__(self, store: RemoteStore, beat: float = BEAT, lost: float = LOST) -> None:
        self.store = store
        self._beat, self._lost = beat, lost
        self._held: dict[str, bytes] = {}  # path -> what its object holds
        self._lock = threading.Lock()
        self._beating: threading.Thread | None = None

    @contextmanager
    def turn(self, name: str, is_done: Callable[[], bool]) -> Iterator[None]:
        """Wait until no other machine is at it; one that finds it done has no turn and needs none."""
        path = f"{FOLDER}/{name}"
        mine = uuid.uuid4().hex.encode()
        holds = self._taken(path, mine, is_done)
        if holds:
            with self._lock:
                self._held[path] = mine
                if self._beating is None:
                    self._beating = threading.Thread(target=self._show_life, name="turns", daemon=True)
                    self._beating.start()
        try:
            yield
        finally:
            if holds:
                with self._lock:
                    is_mine = self._held.pop(path, None) is not None
                if is_mine:
                    with suppress(AssayError):  # it is void soon
                        self.store.delete([path])

    def _taken(self, path: str, mine: bytes, is_done: Callable[[], bool]) -> bool:
        """Take a turn, or wait; False where it was done meanwhile."""
        seen: tuple[Version | None, float] = (None, monotonic())
        while not self.store.create(path, mine):
            found = self.store.read_with_version(path)
            if is_done():
                return False
            if found is None:
                continue  # it was released just now
            if found[1] != seen[0]:
                seen = (found[1], monotonic())
            elif monotonic() - seen[1] > self._lost and self.store.replace(path, mine, found[1]):
                return True
            cancellable_sleep(GLANCE)
        return True

    def _show_life(self) -> None:
        idle = threading.Event()
        while True:
            idle.wait(self._beat)
            with self._lock:
                held = list(self._held)
                if not held:
                    self._beating = None
                    return
            for path in held:
                self._show(path)

    def _show(self, path: str) -> None:
        """Change one object, unless it was taken over: then the turn is the other's."""
        with suppress(AssayError):
            found = self.store.read_with_version(path)
            with self._lock:
                data = self._held.get(path)
                if data is None:
                    return
                if found is None or found[0] != data:
                    del self._held[path]
                    return
                self._held[path] = new = data[:32] + uuid.uuid4().hex.encode()
            if not self.store.replace(path, new, found[1]):
                with self._lock:
                    self._held.pop(path, None)
