"""Conversations with a corpus: `<home>/chats/<study>/<conversation>.jsonl`, which DuckDB is filled from.

A line is never changed; a person may delete a conversation as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, NamedTuple

from rag_assay.warehouse.conversation_records import (
    AnswerFeedback,
    AnswerSlot,
    AnyRecord,
    Begun,
    QuestionAsked,
    Turn,
    Vote,
    line_of,
)
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.journal import append, read_lines
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of

_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


GONE = "this conversation is not there any more: it was deleted"


class ConversationNotFoundError(InputError):
    """There is no such conversation any more."""


class Stamp(NamedTuple):
    """What tells whether a file was written to since: its size and time of change."""

    size: int
    changed_ns: int


class Unanswered(NamedTuple):
    """A question that a cell has not answered yet.

    number: of the question in its conversation, as its turn will have it
    """

    number: int
    asked: QuestionAsked
    place: AnswerSlot


@dataclass(frozen=True)
class Conversation:
    """A conversation as its file has it.

    turns: in the order in which they were answered
    feedback: id of a turn -> the last that was said of it
    unanswered: questions without an answer, being answered now or left by a process that has ended
    votes: number of a question -> the last that was said of its two answers
    """

    study: str
    conversation_id: str
    begun: Begun
    turns: tuple[Turn, ...]
    feedback: dict[str, AnswerFeedback]
    unanswered: tuple[Unanswered, ...] = ()
    votes: dict[int, Vote] = field(default_factory=dict)

    @property
    def last_at(self) -> datetime:
        """When it last grew."""
        asked = (one.asked.at for one in self.unanswered)
        return max([self.begun.at, *(turn.at for turn in self.turns), *asked])

    @property
    def title(self) -> str:
        """What it is called in lists: its title, else its first question."""
        questions = [turn.question for turn in self.turns] + [one.asked.question for one in self.unanswered]
        return self.begun.title or next(iter(questions), "")


class _Questions:
    """The questions of a file, as its lines are read.

    open: id of a turn -> the question that it answers, or will
    last: the highest number
    """

    def __init__(self) -> None:
        self.open: dict[str, Unanswered] = {}
        self.last = 0
        self._noted: dict[str, int] = {}  # by id of the line: put to no cell yet -> its number

    def add(self, asked: QuestionAsked) -> None:
        """Take a line; one that says which cells the question is put to takes the place of what noted it."""
        number = self._noted.pop(asked.again or "", 0) or self.last + 1
        self.last = max(self.last, number)
        if asked.again:
            self.open.pop(asked.turn, None)
        if not asked.places:
            self._noted[asked.record_id] = number
        places = asked.places or (AnswerSlot(turn=asked.turn, cell=""),)
        self.open |= {place.turn: Unanswered(number, asked, place) for place in places}


class Conversations:
    """The conversations of a home; safe for several threads and processes at once."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.root = home.chats

    def path(self, study: str, conversation: str) -> Path:
        """Return the file of a conversation.

        Raises:
            InputError: no study, or no conversation, can be called so.
        """
        if not _STUDY.fullmatch(study):
            raise InputError(f"no study can be called {study[:80]!r}")
        if not _ID.fullmatch(conversation):
            raise InputError(f"no conversation can be called {conversation[:80]!r}")
        return self.root / study / f"{conversation}.jsonl"

    def begin(self, study: str, begun: Begun) -> str:
        """Begin a conversation; return its id, which nobody can guess."""
        conversation = token_urlsafe(12)
        self.append(study, conversation, [begun])
        return conversation

    def append(self, study: str, conversation: str, records: Iterable[AnyRecord]) -> int:
        """Add lines whose ids are not there yet; they are on disk when it returns.

        A conversation that was deleted stays so: only `Begun` makes a file.

        Raises:
            GoneError: there is no such conversation (any more).
            AssayError: the file cannot be written; nothing was added.
        """
        path, kept = self.path(study, conversation), list(records)
        if not any(isinstance(one, Begun) for one in kept) and not path.exists():
            raise ConversationNotFoundError(GONE)
        rows = [record.model_dump(mode="json") for record in kept]
        return append(path, rows, "record_id", lambda one: line_of(one) is not None)

    def read(self, study: str, conversation: str) -> Conversation | None:
        """Return a conversation; None where there is none of that id, or it was deleted."""
        try:
            data = self.path(study, conversation).read_bytes()
        except FileNotFoundError:
            return None
        begun, turns, feedback = None, dict[str, Turn](), dict[str, AnswerFeedback]()
        questions, votes = _Questions(), dict[int, Vote]()
        for line in read_lines(data):
            match line_of(line.record):
                case Begun() as found:
                    kept: dict[str, Any] = {} if begun is None else {"at": begun.at, "place": begun.place}
                    begun = found.model_copy(update=kept)
                case QuestionAsked() as question:
                    questions.add(question)
                case Turn() as turn:
                    turns.setdefault(turn.record_id, turn)
                    questions.last = max(questions.last, turn.number)
                case AnswerFeedback() as said:
                    feedback[said.turn] = said
                case Vote() as vote:
                    votes[vote.number] = vote
        times = [*(turn.at for turn in turns.values()), *(one.asked.at for one in questions.open.values())]
        if begun is None and not times:
            return None
        begun = begun or Begun(record_id=conversation, at=min(times))
        open_ones = tuple(one for name, one in questions.open.items() if name not in turns)
        return Conversation(study, conversation, begun, tuple(turns.values()), feedback, open_ones, votes)

    def delete(self, study: str, conversation: str) -> bool:
        """Remove a conversation for good, feedback and all; return whether it was there.

        Its rows leave DuckDB when that is filled the next time.
        """
        try:
            if mirror := mirror_of(self.home):
                mirror.remove(self.path(study, conversation))
            self.path(study, conversation).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise AssayError(
                f"the conversation {conversation} cannot be deleted ({error.strerror})"
            ) from error
        return True

    def stamp(self, study: str, conversation: str) -> Stamp | None:
        """Return the stamp of a conversation's file; None where there is none."""
        try:
            at = self.path(study, conversation).stat()
        except (FileNotFoundError, InputError):
            return None
        return Stamp(at.st_size, at.st_mtime_ns)

    def stamps(self) -> dict[tuple[str, str], Stamp]:
        """Return (study, conversation) -> stamp of every file."""
        found = {}
        for path in sorted(self.root.glob("*/*.jsonl")):
            if _STUDY.fullmatch(path.parent.name) and _ID.fullmatch(path.stem):
                try:
                    at = path.stat()
                except FileNotFoundError:  # it was deleted meanwhile
                    continue
                found[path.parent.name, path.stem] = Stamp(at.st_size, at.st_mtime_ns)
        return found

    def of(self, study: str, persons: Sequence[str] | None = None) -> Iterator[Conversation]:
        """Yield the conversations of a study, the last one first.

        persons: whose; None: everybody's
        """
        found = [self.read(study, name) for of, name in self.stamps() if of == study]
        kept = [one for one in found if one and (persons is None or one.begun.person in persons)]
        yield from sorted(kept, key=lambda one: one.last_at, reverse=True)
