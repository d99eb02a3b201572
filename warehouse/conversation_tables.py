"""Brings conversations into DuckDB: those whose files were written to since, each as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.warehouse.conversation_records import ShownPassage, StoredInterpretation, Turn
from rag_assay.warehouse.conversations import Conversation, Conversations, Stamp
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import UTC_TIME, Schema

if TYPE_CHECKING:
    import duckdb

_WHOSE: Schema = {"study": pl.String, "conversation_id": pl.String}
CONVERSATIONS: Schema = {
    **_WHOSE,
    "person": pl.String,  # who asks, as they called themselves; empty: nobody said
    "place": pl.String,  # chat | terminal | demo
    "title": pl.String,
    "begun_at": UTC_TIME,
    "size": pl.Int64,  # of the file that these rows are of, in bytes
    "changed_ns": pl.Int64,  # when that was written last
}
CHAT_TURNS: Schema = {
    "turn_id": pl.String,
    **_WHOSE,
    "number": pl.Int64,
    "at": UTC_TIME,
    "cell": pl.String,
    "side": pl.String,
    "question": pl.String,
    "language": pl.String,
    "asked_at": pl.String,
    "question_id": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "declined": pl.String,  # no_passages | gate | min_score | model
    "answer": pl.String,
    "model": pl.String,
    "confidence": pl.Float64,
    "turns_left_out": pl.Int64,
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "usd": pl.Float64,
    "cached": pl.Boolean,
    "search_seconds": pl.Float64,
    "answer_seconds": pl.Float64,
    "seconds": pl.Float64,
    "is_demo": pl.Boolean,
}
CHAT_PASSAGES: Schema = {
    "turn_id": pl.String,
    **_WHOSE,
    "number": pl.Int64,
    "chunk_id": pl.String,
    "doc_id": pl.String,
    "title": pl.String,
    "url": pl.String,
    "date": pl.String,
    "page": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "score": pl.Float64,
    "cited": pl.Boolean,
    "text": pl.String,
}
CHAT_UNDERSTOOD: Schema = {
    "turn_id": pl.String,
    **_WHOSE,
    "kind": pl.String,
    "text": pl.String,
    "value": pl.String,
    "removed": pl.Boolean,
}
CHAT_FEEDBACK: Schema = {
    "feedback_id": pl.String,
    **_WHOSE,
    "turn_id": pl.String,
    "at": UTC_TIME,
    "thumbs": pl.Int64,  # 1 up, -1 down, 0 taken back
    "comment": pl.String,
}
CHAT_VOTES: Schema = {
    "vote_id": pl.String,
    **_WHOSE,
    "number": pl.Int64,
    "at": UTC_TIME,
    "a": pl.String,  # the turns, whose cells are …
    "b": pl.String,
    "a_cell": pl.String,
    "b_cell": pl.String,
    "preferred": pl.String,  # a | b | tie
}
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
_OF_TURN = tuple(name for name in CHAT_TURNS if name in Turn.model_fields)
_OF_PASSAGE = tuple(name for name in CHAT_PASSAGES if name in ShownPassage.model_fields)
_OF_UNDERSTOOD = tuple(name for name in CHAT_UNDERSTOOD if name in StoredInterpretation.model_fields)

Rows = dict[str, list[dict[str, Any]]]
Key = tuple[str, str]
"""Study and conversation."""


def write_conversations(connection: duckdb.DuckDBPyConnection, home: Home) -> int:
    """Let the tables hold the conversations of ``home``; return how many were read, those that changed.

    A conversation that was deleted leaves them.
    """
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
    """Add rows, and take away all that the tables hold of some conversations, all or nothing."""
    connection.execute("BEGIN")
    try:
        for table, schema in TABLES.items():
            if leaving:
                names = pl.DataFrame(list(leaving), _WHOSE, orient="row")
                connection.register("leaving", names.to_arrow())
                connection.execute(
                    f"DELETE FROM {table} WHERE (study, conversation_id) IN (FROM leaving)"  # noqa: S608 -- from TABLES
                )
                connection.unregister("leaving")
            if rows[table]:
                connection.register("incoming", frame(rows[table], schema).to_arrow())
                connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608 -- from TABLES
                connection.unregister("incoming")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


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
