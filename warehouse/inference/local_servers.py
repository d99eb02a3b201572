"""The servers of local models that a gateway keeps: several small ones, or one that has every core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assay.warehouse.fair_slots import FairSlots
from rag_assay.warehouse.inference.local_llm import LocalServer, free_cores

MOST_SERVERS = 4  # each holds a context of its own, and perhaps its weights once more


def servers_at_once() -> int:
    """Return how many servers of one model work side by side: one a core, and no more than four."""
    return min(MOST_SERVERS, free_cores())


class LocalServers:
    """Servers of local models, started when they are needed; each answers one call at a time.

    Two cores answer more calls as two servers than as one: the threads of one wait for each other at every
    layer, and on a busy machine for most of the time. An answer is the same on any number of threads.

    fetch: returns the folder of a model
    threads: None: as many servers as `servers_at_once`, which share the cores; else one server with so many,
        for someone who waits for a single answer
    context: tokens of prompt and answer together

    Safe to use from many threads.
    """

    def __init__(self, fetch: Callable[[str], Path], threads: int | None, context: int) -> None:
        self._fetch = fetch
        self._most = servers_at_once() if threads is None else 1
        self._threads = threads or max(1, free_cores() // self._most)
        self._context = context
        self._free: dict[str, list[LocalServer]] = {}
        self._started: list[LocalServer] = []
        self._slots = FairSlots(self._most)  # of all models together: cores are theirs in common
        self._lock = threading.Lock()

    @contextmanager
    def server(self, name: str) -> Iterator[LocalServer]:
        """Wait for a server of a model, and keep it for one call.

        Raises:
            AssayError: the model cannot be had or loaded.
            UnwantedError: the calling thread's work was cancelled while it waited.
        """
        with self._slots.slot():
            server = self._take(name)
            try:
                yield server
            finally:
                with self._lock:
                    is_kept = server in self._started  # not closed meanwhile
                    if is_kept:
                        self._free.setdefault(name, []).append(server)
                if not is_kept:
                    server.stop()

    def _take(self, name: str) -> LocalServer:
        with self._lock:
            free = self._free.get(name)
            if free:
                return free.pop()
            folder = self._fetch(name)
            server = LocalServer(name, folder, threads=self._threads, context=self._context)
            self._started.append(server)
            return server

    def close(self) -> None:
        """Stop all servers, those that are called as soon as that has ended; a later call starts others."""
        with self._lock:
            free = [server for servers in self._free.values() for server in servers]
            self._free.clear()
            self._started.clear()
        for server in free:
            server.stop()
