"""Brings conversations into DuckDB: those whose files were written to since, each as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from warehouse.conversations import Conversation, Conversations
from warehouse.parquet import frame
from warehouse.paths import Home
from warehouse.schemas import UTC_TIME, Schema

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
BATCH = 500  # conversations written at once: bounds the memory

Rows = dict[str, list[dict[str, Any]]]


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
    for at in range(0, len(changed), BATCH):
        keys = changed[at : at + BATCH]
        rows: Rows = {table: [] for table in TABLES}
        for key in keys:
            conversation = there.read(*key)
            if conversation is not None:
                _add(rows, conversation, now[key].size, now[key].changed_ns)
        _replace(connection, keys, rows)
    if gone:
        _replace(connection, gone, {table: [] for table in TABLES})
    return len(changed)


def _replace(connection: duckdb.DuckDBPyConnection, keys: list[tuple[str, str]], rows: Rows) -> None:
    """Put rows in place of all that the tables hold of these conversations, all or nothing."""
    names = [f"{study}/{name}" for study, name in keys]
    connection.execute("BEGIN")
    try:
        for table, schema in TABLES.items():
            connection.execute(
                f"DELETE FROM {table} WHERE list_contains(?, study || '/' || conversation_id)",  # noqa: S608 -- from TABLES
                [names],
            )
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
        own = {name: getattr(turn, name) for name in CHAT_TURNS if name in type(turn).model_fields}
        rows["chat_turns"].append({**of_turn, **own, "is_demo": one.begun.place == "demo"})
        for passage in turn.passages:
            shown = {name: getattr(passage, name) for name in CHAT_PASSAGES if hasattr(passage, name)}
            rows["chat_passages"].append({**of_turn, **shown})
        rows["chat_understood"] += [
            {**of_turn, **understood.model_dump(include=set(CHAT_UNDERSTOOD))}
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
