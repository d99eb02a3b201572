"""A page of the chat that was drawn while something changed is drawn again."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.chat.question_requests import QuestionRequest, record_question
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.web.chat.page_session import ChatLocation, ChatState
from rag_assay.orchestration.web.languages import app_texts, words_in
from rag_assay.orchestration.web.page_context import PageContext, UiOptions
from rag_assay.orchestration.web.pages import chat as page
from rag_assay.warehouse.conversations import Conversation, Turn
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.status import Status


class AnsweringService(QuestionService):
    """A service whose answer arrives just after a page has read its conversation."""

    answer: Turn | None = None

    def conversation(self, study: str, conversation: str) -> Conversation | None:
        found = super().conversation(study, conversation)
        if self.answer is not None:
            self.chats.append(study, conversation, [self.answer])
            self.answer = None
        return found


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatState:
    room = ChatState("town", Home(tmp_path), None)
    room.service = AnsweringService(Home(tmp_path), fills_tables=False)
    catalogue: Future[Any] = Future()
    catalogue.set_result(None)
    monkeypatch.setattr(room, "catalogue", lambda: catalogue)
    monkeypatch.setattr(page, "_room", lambda *_: room)
    return room


def test_an_answer_that_arrives_while_the_page_is_drawn_makes_it_outdated(
    room: ChatState, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = room.service
    assert isinstance(service, AnsweringService)
    context = PageContext(room.home, "town", ("town",), "en", "", UiOptions("town", "town"), "chat", {})
    name = service.begin_conversation("town")
    monkeypatch.setattr(page, "place_here", lambda: ChatLocation(name, "", None, None))
    line = record_question(service.chats, "town", name, QuestionRequest("Who?"))
    drawn = page._session(context, words_in(app_texts("chat"), "en"))
    assert not drawn.is_outdated, "the question is being answered"
    turn = Turn(record_id=line.turn, number=1, cell="c", question="Who?", status=Status.OK, answer="Ada.")
    service.answer = turn
    drawn = page._session(context, words_in(app_texts("chat"), "en"))
    assert drawn.conversation is not None
    assert drawn.conversation.turns == ()
    assert drawn.is_outdated
    drawn = page._session(context, words_in(app_texts("chat"), "en"))
    assert drawn.conversation is not None
    assert len(drawn.conversation.turns) == 1
    assert not drawn.is_outdated
