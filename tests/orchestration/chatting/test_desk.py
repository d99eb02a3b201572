"""Conversations are answered as their cell was measured, many at once: none mixed up, none lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assets.engine.stage import Work
from evals.chatting.asking import Asking
from evals.chatting.opening import open_talk
from evals.chatting.talk import Talk
from evals.exporting.expected import Expected, measured
from orchestration.chatting.desk import ChatDesk
from tests.fakes.shipped import Shipped
from warehouse.conversation_records import Begun, Turn

pytestmark = pytest.mark.models
CELLS = [("chain", "extractive"), ("hybrid", "model")]


@pytest.fixture
def work(shipped: Shipped) -> Iterator[Work]:
    held = Work(shipped.bench.home)
    yield held
    held.close()


@pytest.fixture
def desk() -> Iterator[ChatDesk]:
    found = ChatDesk()
    yield found
    found.close()


def opened(shipped: Shipped, work: Work, retriever: str, generator: str) -> Talk:
    return open_talk(shipped.bench.study, shipped.cell(retriever, generator), work, 0.0)


def begun(talk: Talk) -> str:
    return talk.chats.begin(talk.study, Begun(record_id="begun"))


def turn_of(desk: ChatDesk, talk: Talk, conversation: str, question: str) -> Turn:
    (found,) = desk.ask(talk, conversation, Asking(question)).turns()
    return found


def differences(turn: Turn, expected: Expected) -> list[str]:
    """What of a turn is another thing than what was measured."""
    said = expected.answer
    assert said is not None
    pairs = {
        "status": (turn.status, said["status"]),
        "answer": (turn.answer, said["text"]),
        "read": ([one.chunk_id for one in turn.passages], said["chunk_ids"]),
        "spans": (
            [(one.chunk_id, one.start, one.end, one.score) for one in turn.passages],
            [
                (one["chunk_id"], one["start"], one["end"], one["score"])
                for one in expected.passages[: len(turn.passages)]
            ],
        ),
        "cited": (
            {one.chunk_id for one in turn.passages if one.cited},
            {one["chunk_id"] for one in said["citations"]},
        ),
    }
    return [f"{name}: {got!r} != {wanted!r}" for name, (got, wanted) in pairs.items() if got != wanted]


@pytest.mark.parametrize(("retriever", "generator"), CELLS)
def test_twenty_questions_are_answered_as_they_were_measured(
    shipped: Shipped, work: Work, desk: ChatDesk, retriever: str, generator: str
) -> None:
    talk = opened(shipped, work, retriever, generator)
    every = measured(shipped.bench.study, talk.cell, work)
    first = [one for one in every if not one.question["conversation"]][:20]
    assert len(first) == 20
    before = len(shipped.server.requests)
    for one in first:
        turn = turn_of(desk, talk, begun(talk), one.question["question"])
        assert differences(turn, one) == []
        assert turn.question_id == one.question["question_id"]
        assert turn.passages[0].text
        assert all(passage.evidence for passage in turn.passages if passage.cited) or generator == "model"
    assert len(shipped.server.requests) == before, "equal calls are in the cache, and cost nothing"
