"""Questions that are put before any cell is open: on disk at once, in their order, never without a word."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.chat.open_questions import ENDED, close_open_questions
from rag_assay.evals.chat.question_requests import QuestionError, QuestionRequest, record_question
from rag_assay.orchestration.question_service.question_service import STOPPED_BEFORE, QuestionService
from rag_assay.warehouse.conversations import (
    AnswerSlot,
    Begun,
    Conversation,
    Conversations,
    QuestionAsked,
    Turn,
)
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.processes import machine_mark
from rag_assay.warehouse.status import Status
from tests.fakes.processes import wait_until

STUDY = "town"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def chats(home: Home) -> Conversations:
    return Conversations(home)


@pytest.fixture
def name(chats: Conversations) -> str:
    return chats.begin(STUDY, Begun(record_id="begun"))


def read(chats: Conversations, name: str) -> Conversation:
    found = chats.read(STUDY, name)
    assert found is not None
    return found


def test_questions_are_on_disk_before_a_cell_is_open_and_their_turns_say_what_became_of_them(
    home: Home, chats: Conversations, name: str
) -> None:
    may_read = threading.Event()

    def cannot() -> Any:
        may_read.wait()
        raise InputError("there is no such study")

    service = QuestionService(home, fills_tables=False)
    service.ask(STUDY, name, QuestionRequest(" Who?\x00 "), cannot)
    second = service.ask(STUDY, name, QuestionRequest("And <b>when</b>?"), cannot)
    there = read(chats, name)
    assert [(one.number, one.asked.question) for one in there.unanswered] == [
        (1, "Who?"),
        (2, "And <b>when</b>?"),
    ]
    assert service.conversation(STUDY, name) == there, "they are under way"
    second.stop()
    may_read.set()
    (refused,) = second.turns()
    assert refused.number == 2
    assert wait_until(lambda: len(read(chats, name).turns) == 2, 60)
    there = read(chats, name)
    assert {(one.number, one.question, one.cell, one.status, one.answer) for one in there.turns} == {
        (1, "Who?", "", Status.ERROR, None),
        (2, "And <b>when</b>?", "", Status.ERROR, None),
    }
    assert all("no such study" in (one.reason or "") for one in there.turns)
    assert there.unanswered == ()
    assert wait_until(lambda: not service.pending(STUDY, name), 60)


def test_what_is_stopped_before_a_cell_is_open_says_so(home: Home, chats: Conversations, name: str) -> None:
    may_read = threading.Event()

    def nothing() -> Any:
        may_read.wait()
        return []

    pending = QuestionService(home, fills_tables=False).ask(STUDY, name, QuestionRequest("Who?"), nothing)
    pending.stop()
    may_read.set()
    (turn,) = pending.turns()
    assert read(chats, name).turns == (turn,)
    assert (turn.status, turn.reason, turn.cell) == (Status.NOT_RUN, STOPPED_BEFORE, "")


def test_a_question_of_a_process_that_was_killed_before_a_cell_was_open_is_not_lost(
    chats: Conversations, name: str
) -> None:
    line = record_question(chats, STUDY, name, QuestionRequest("Who?"))
    other = line.model_copy(
        update={"record_id": "other-asked", "question": "When?", "process": f"1-dead-{machine_mark()}"}
    )
    chats.append(STUDY, name, [other])
    settled = close_open_questions(chats, STUDY, name)
    assert settled is not None
    assert [(one.question, one.number, one.status, one.reason) for one in settled.turns] == [
        ("When?", 2, Status.NOT_RUN, ENDED)
    ]
    assert [one.asked.question for one in settled.unanswered] == ["Who?"], "this process still runs"
    with pytest.raises(QuestionError):
        record_question(chats, STUDY, name, QuestionRequest(" "))


@pytest.mark.parametrize("sides", [(None,), ("a", "b")])
def test_what_is_put_to_cells_takes_the_place_of_what_was_noted(
    chats: Conversations, name: str, sides: tuple[Any, ...]
) -> None:
    first, second = (record_question(chats, STUDY, name, QuestionRequest(text)) for text in ("One?", "Two?"))
    for line in (second, first):  # in whatever order their cells were open
        places = tuple(AnswerSlot(turn=f"{line.turn}{side or ''}", cell="c", side=side) for side in sides)
        put = {"record_id": f"{line.turn}-put", "again": line.record_id, "places": places}
        chats.append(STUDY, name, [line.model_copy(update=put)])
    there = read(chats, name)
    assert sorted((one.number, one.asked.question, one.place.side or "") for one in there.unanswered) == [
        (number, text, side or "") for number, text in ((1, "One?"), (2, "Two?")) for side in sides
    ]
    answered = Turn(
        record_id=there.unanswered[0].place.turn, number=2, cell="c", question="Two?", status="ok"
    )
    chats.append(STUDY, name, [answered, QuestionAsked(record_id="third-asked", question="Three?")])
    assert max(one.number for one in read(chats, name).unanswered) == 3
