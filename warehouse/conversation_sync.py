"""Brings DuckDB up to date with conversations in the background: nobody who talks waits for a lock."""

from __future__ import annotations

import logging
import threading

from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.errors import LockedError
from rag_assay.warehouse.paths import Home

SOON = 0.5  # seconds in which further changes are waited for, to be written together
AGAIN = 5.0  # seconds after which a database that was held is tried again
PATIENCE = 0.2  # seconds that a lock is waited for
log = logging.getLogger(__name__)


class ConversationSync:
    """A thread that writes what has changed in the files of conversations into the tables, soon after.

    While a run holds the database, it tries again every few seconds: files are what is true, and the run
    itself brings the tables up to date, too.

    Use it as a context manager, or close it.
    """

    def __init__(self, home: Home, soon: float = SOON) -> None:
        self._home = home
        self._soon = soon
        self._told = False
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conversations", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Say that a conversation has changed, or was deleted; returns at once."""
        self._changed.set()

    def close(self) -> None:
        """Write what is not written yet, if nobody holds the database, and end."""
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        wait: float | None = None
        while not self._stopping.is_set():
            self._changed.wait(wait)
            self._stopping.wait(self._soon)
            self._changed.clear()
            wait = None if self._written() else AGAIN
        if wait is not None or self._changed.is_set():
            self._written()

    def _written(self) -> bool:
        """Write what has changed; return whether it is written, or can never be."""
        try:
            with connect(self._home.database, wait=PATIENCE) as connection:
                write_conversations(connection, self._home)
        except LockedError:
            return False
        except Exception as error:  # the files have everything; whoever talks is not to be disturbed
            if not self._told:
                log.warning("conversations cannot be brought into DuckDB, and stay in their files: %s", error)
            self._told = True
            return False
        return True

    def __enter__(self) -> ConversationSync:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
