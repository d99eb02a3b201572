"""The list of a person's conversations; files are read again only where they were written to."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime

from rag_assay.warehouse.conversations import Conversations, Stamp


@dataclass(frozen=True)
class ConversationItem:
    """A conversation in the list."""

    conversation: str
    title: str
    person: str
    last_at: datetime


class Listing:
    """What the conversations of a study are called, whose they are, and when they last grew."""

    def __init__(self, chats: Conversations, study: str) -> None:
        self._chats = chats
        self._study = study
        self._known: dict[str, tuple[Stamp, ConversationItem]] = {}
        self._lock = threading.Lock()

    def of(self, person: str) -> list[ConversationItem]:
        """Return the conversations of a person, the last one first; of nobody, those of nobody."""
        with self._lock:
            now = {
                name: stamp for (study, name), stamp in self._chats.stamps().items() if study == self._study
            }
            self._known = {name: one for name, one in self._known.items() if now.get(name) == one[0]}
            for name in now.keys() - self._known.keys():
                found = self._chats.read(self._study, name)
                if found is not None:
                    entry = ConversationItem(name, found.title, found.begun.person, found.last_at)
                    self._known[name] = (now[name], entry)
            mine = [entry for _, entry in self._known.values() if entry.person == person]
        return sorted(mine, key=lambda one: one.last_at, reverse=True)
