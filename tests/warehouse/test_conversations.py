"""Conversations are kept: appended once, read whatever a file holds, deleted for good, put into DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversation_tables import TABLES, write_conversations
from rag_assay.warehouse.conversations import (
    AnswerFeedback,
    Begun,
    Conversations,
    ShownPassage,
    StoredInterpretation,
    Turn,
)
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.tables import rebuild


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def turn(number: int, **more: Any) -> Turn:
    passage = ShownPassage(number=1, chunk_id="c", doc_id="d", text="It sails at noon.", cited=True)
    understood = StoredInterpretation(kind="time_frame", text="in 2021", value="2021-01-01/2021-12-31")
    values = {
        "record_id": f"t{number}",
        "number": number,
        "cell": "tiny.words.minilm.bm25.extractive",
        "question": f"When does ferry {number} sail?",
        "status": Status.OK,
        "answer": "At noon. [1]",
        "passages": (passage,),
        "understood": (understood,),
    }
    return Turn(**{**values, **more})


def begun(home: Home, *turns: Turn, place: Any = "chat") -> str:
    conversations = Conversations(home)
    name = conversations.begin("tiny", Begun(record_id="b", place=place))
    conversations.append("tiny", name, turns)
    return name


def rows(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with connect(home.database) as connection:
        write_conversations(connection, home)
        return connection.execute(sql).fetchall()


def test_what_was_appended_is_read_again(home: Home) -> None:
    name = begun(home, turn(1), turn(2))
    there = Conversations(home)
    there.append("tiny", name, [turn(2), AnswerFeedback(record_id="f", turn="t1", thumbs=1)])
    there.append("tiny", name, [AnswerFeedback(record_id="g", turn="t1", thumbs=-1, comment="<b>no</b>")])
    found = there.read("tiny", name)
    assert found is not None
    assert [one.record_id for one in found.turns] == ["t1", "t2"]
    assert found.turns[0].passages[0].text == "It sails at noon."
    assert (found.feedback["t1"].thumbs, found.feedback["t1"].comment) == (-1, "<b>no</b>")
    assert found.title == "When does ferry 1 sail?"


def test_torn_and_foreign_lines_are_passed_over(home: Home) -> None:
    name = begun(home, turn(1))
    path = Conversations(home).path("tiny", name)
    with path.open("ab") as file:
        file.write(b'{"kind": "turn", "record_id": 7}\n{"kind": "other"}\n[[[\n{"kind": "feedb')
    Conversations(home).append("tiny", name, [turn(2)])
    found = Conversations(home).read("tiny", name)
    assert found is not None
    assert [one.number for one in found.turns] == [1, 2]


@pytest.mark.parametrize("name", ["../../x", "", "a/b", "short", "x" * 65, "with space"])
def test_names_that_lead_elsewhere_are_refused(home: Home, name: str) -> None:
    with pytest.raises(InputError, match="conversation"):
        Conversations(home).read("tiny", name)
    with pytest.raises(InputError, match="study"):
        Conversations(home).read(f"{name}/..", "x" * 12)


def test_the_tables_hold_what_the_files_hold(home: Home) -> None:
    first, _demo = begun(home, turn(1), turn(2)), begun(home, turn(3), place="demo")
    turns = 'SELECT "number", is_demo, status FROM chat_turns ORDER BY 1'
    assert rows(home, turns) == [(1, False, "ok"), (2, False, "ok"), (3, True, "ok")]
    assert rows(home, "SELECT count(*), max(text), bool_and(cited) FROM chat_passages") == [
        (3, "It sails at noon.", True)
    ]
    assert rows(home, 'SELECT DISTINCT "value", removed FROM chat_understood') == [
        ("2021-01-01/2021-12-31", False)
    ]
    Conversations(home).append("tiny", first, [AnswerFeedback(record_id="f", turn="t1", thumbs=1)])
    assert rows(home, "SELECT turn_id, thumbs FROM chat_feedback") == [("t1", 1)]
    assert Conversations(home).delete("tiny", first)
    assert rows(home, turns) == [(3, True, "ok")]
    assert rows(home, "SELECT count(*) FROM chat_feedback") == [(0,)]


def test_only_changed_files_are_read(home: Home) -> None:
    names = [begun(home, turn(1)) for _ in range(3)]
    with connect(home.database) as connection:
        assert write_conversations(connection, home) == 3
        assert write_conversations(connection, home) == 0
        Conversations(home).append("tiny", names[0], [turn(2)])
        assert write_conversations(connection, home) == 1


def test_a_rebuild_brings_them_back(home: Home) -> None:
    begun(home, turn(1))
    before = {table: rows(home, f"FROM {table}") for table in TABLES}
    home.database.unlink()
    assert rebuild(home)["conversations"] == 1
    assert {table: rows(home, f"FROM {table}") for table in TABLES} == before
