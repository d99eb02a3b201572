"""Brings conversations into DuckDB: those whose files were written to since, each as a whole."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from pydantic import AwareDatetime, BaseModel

from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.connection import connect, insert_rows, transaction
from rag_assay.warehouse.conversations import (
    Conversation,
    Conversations,
    ShownPassage,
    Stamp,
    StoredInterpretation,
    Turn,
)
from rag_assay.warehouse.errors import LockedError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHAT_FEEDBACK, CHAT_VOTES, CONVERSATIONS, UTC_TIME, Schema

if TYPE_CHECKING:
    import duckdb

    from rag_assay.warehouse.paths import Home

_WHOSE: Schema = {"study": pl.String, "conversation_id": pl.String}
_TYPES: dict[Any, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, AwareDatetime: UTC_TIME}
_OF_TURN = (
    *("number", "at", "cell", "side", "question", "language", "asked_at", "question_id", "status", "reason"),
    *("declined", "answer", "model", "confidence", "turns_left_out", "prompt_tokens", "completion_tokens"),
    *("usd", "cached", "search_seconds", "answer_seconds", "seconds"),
)
_OF_PASSAGE = (
    *("number", "chunk_id", "doc_id", "title", "url", "date", "page", "start", "end", "score", "cited"),
    "text",
)
_OF_UNDERSTOOD = ("kind", "text", "value", "removed")


def _columns(record: type[BaseModel], names: Iterable[str]) -> Schema:
    kinds: dict[str, Any] = {name: record.model_fields[name].annotation for name in names}
    return {
        name: next((column for kind, column in _TYPES.items() if kind in (of, *get_args(of))), pl.String)
        for name, of in kinds.items()
    }


_OF: Schema = {"turn_id": pl.String, **_WHOSE}
CHAT_TURNS: Schema = {**_OF, **_columns(Turn, _OF_TURN), "is_demo": pl.Boolean}
CHAT_PASSAGES: Schema = {**_OF, **_columns(ShownPassage, _OF_PASSAGE)}
CHAT_UNDERSTOOD: Schema = {**_OF, **_columns(StoredInterpretation, _OF_UNDERSTOOD)}
TABLES: dict[str, Schema] = {
    "conversations": CONVERSATIONS,
    "chat_turns": CHAT_TURNS,
    "chat_passages": CHAT_PASSAGES,
    "chat_understood": CHAT_UNDERSTOOD,
    "chat_feedback": CHAT_FEEDBACK,
    "chat_votes": CHAT_VOTES,
}
BATCH = 500  # conversations written at once, and …
BYTES = 32_000_000  # of their files: bounds the memory

Rows = dict[str, list[dict[str, Any]]]
Key = tuple[str, str]
"""Study and conversation."""


def write_conversations(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    there = Conversations(home)
    now = there.stamps()
    known = {
        (study, name): (size, changed)
        for study, name, size, changed in connection.execute(
            "SELECT study, conversation_id, size, changed_ns FROM conversations"
        ).fetchall()
    }
    changed = [key for key, stamp in now.items() if known.get(key) != tuple(stamp)]
    gone = [key for key in known if key not in now]
    for keys in _batches(changed, now):
        rows: Rows = {table: [] for table in TABLES}
        for key in keys:
            conversation = there.read(*key)
            if conversation is not None:
                _add(rows, conversation, now[key].size, now[key].changed_ns)
        _replace(connection, [key for key in keys if key in known], rows)
    if gone:
        _replace(connection, gone, {table: [] for table in TABLES})
    return len(changed)


def _batches(keys: Sequence[Key], stamps: Mapping[Key, Stamp]) -> Iterator[list[Key]]:
    batch: list[Key] = []
    size = 0
    for key in keys:
        if batch and (len(batch) == BATCH or size + stamps[key].size > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += stamps[key].size
    if batch:
        yield batch


def _replace(connection: duckdb.DuckDBPyConnection, leaving: Sequence[Key], rows: Rows) -> None:
    with transaction(connection):
        for table, schema in TABLES.items():
            if leaving:
                names = pl.DataFrame(list(leaving), _WHOSE, orient="row")
                connection.register("leaving", names.to_arrow())
                connection.execute(
                    f"DELETE FROM {table} WHERE (study, conversation_id) IN (FROM leaving)"  # noqa: S608 -- from TABLES
                )
                connection.unregister("leaving")
            if rows[table]:
                insert_rows(connection, table, frame(rows[table], schema))


def _add(rows: Rows, one: Conversation, size: int, changed_ns: int) -> None:
    whose = {"study": one.study, "conversation_id": one.conversation_id}
    begun = {"person": one.begun.person, "place": one.begun.place, "begun_at": one.begun.at}
    stamp = {"size": size, "changed_ns": changed_ns}
    rows["conversations"].append({**whose, **begun, "title": one.title, **stamp})
    for turn in one.turns:
        of_turn = {**whose, "turn_id": turn.record_id}
        own = {name: getattr(turn, name) for name in _OF_TURN}
        own["cell"] = turn.cell or None  # of a question that was put to none
        rows["chat_turns"].append({**of_turn, **own, "is_demo": one.begun.place == "demo"})
        for passage in turn.passages:
            shown = {name: getattr(passage, name) for name in _OF_PASSAGE}
            rows["chat_passages"].append({**of_turn, **shown})
        rows["chat_understood"] += [
            {**of_turn, **{name: getattr(understood, name) for name in _OF_UNDERSTOOD}}
            for understood in turn.understood
        ]
    rows["chat_feedback"] += [
        {**whose, "feedback_id": said.record_id, "turn_id": said.turn, "at": said.at}
        | {"thumbs": said.thumbs, "comment": said.comment}
        for said in one.feedback.values()
    ]
    cells = {turn.record_id: turn.cell for turn in one.turns}
    rows["chat_votes"] += [
        {**whose, "vote_id": vote.record_id, "number": number, "at": vote.at, "a": vote.a, "b": vote.b}
        | {"a_cell": cells.get(vote.a), "b_cell": cells.get(vote.b), "preferred": vote.preferred}
        for number, vote in one.votes.items()
    ]


SOON = 0.5  # seconds in which further changes are waited for, to be written together
AGAIN = 5.0  # seconds after which a database that was held is tried again
PATIENCE = 0.2  # seconds that a lock is waited for
log = logging.getLogger(__name__)


class ConversationSync(Closeable):
    """A thread that writes what has changed in the files of conversations into the tables, soon after."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._told = False
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conversations", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        self._changed.set()

    def close(self) -> None:
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        wait: float | None = None
        while not self._stopping.is_set():
            self._changed.wait(wait)
            self._stopping.wait(SOON)
            self._changed.clear()
            wait = None if self._written() else AGAIN
        if wait is not None or self._changed.is_set():
            self._written()

    def _written(self) -> bool:
        try:
            with connect(self._home.database, wait=PATIENCE) as connection:
                write_conversations(connection, self._home)
        except LockedError:
            return False
        except Exception as error:  # the files have everything; the chat goes on
            if not self._told:
                log.warning("conversations cannot be loaded into DuckDB and stay in their files: %s", error)
            self._told = True
            return False
        return True
