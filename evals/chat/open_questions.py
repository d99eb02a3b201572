"""Questions of conversations that have no answer yet, and what was said before them."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.generation.citations import without_markers
from rag_assay.warehouse.conversations import (
    GONE,
    AnswerSlot,
    Conversation,
    ConversationNotFoundError,
    Conversations,
    QuestionAsked,
    Side,
    Turn,
)
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.processes import is_running
from rag_assay.warehouse.status import Status

LONGEST_PARTIAL = 20_000  # characters of an answer that broke off
DECLINED = frozenset({Status.REFUSED, Status.NO_CONTEXT})
"""The documents do not say: an answer, too."""
STOPPED = "the answer was stopped before it was there"
ENDED = "the program ended before the answer was there; ask again"


def place_question(
    chats: Conversations, study: str, conversation: str, asked: QuestionAsked, cells: Sequence[str]
) -> dict[str, Turn]:
    """Put a question that is kept to a cell, or to two side by side; return key -> turn without an answer.

    Which of two cells is side a is drawn at random, so that the side does not reveal the cell. Side a is the
    first turn.

    Raises:
        ConversationNotFoundError: the conversation is not there (any more).
    """
    close_open_questions(chats, study, conversation)
    sides: list[Side | None] = [None] if len(cells) == 1 else ["a", "b"]
    ordered = reversed(cells) if len(cells) > 1 and is_swapped(asked.turn) else cells
    places = tuple(
        AnswerSlot(turn=f"{asked.turn}{f'-{side}' if side else ''}", cell=cell, side=side)
        for cell, side in zip(ordered, sides, strict=True)
    )
    put = asked.model_copy(
        update={"places": places, "record_id": f"{asked.turn}-put", "again": asked.record_id}
    )
    chats.append(study, conversation, [put])
    there = chats.read(study, conversation)
    numbers = {one.place.turn: one.number for one in there.unanswered} if there else {}
    if not numbers:
        raise ConversationNotFoundError(GONE)
    return {place.cell: unanswered_turn(put, place, numbers[place.turn]) for place in places}


def is_swapped(question: str) -> bool:
    """Return whether the second of two cells is side a, drawn by the id of a question.

    >>> sum(is_swapped(f"question {n}") for n in range(1000))
    478
    """
    return int(digest(["sides", question])[:8], 16) % 2 == 1


def close_open_questions(chats: Conversations, study: str, conversation: str) -> Conversation | None:
    """Return a conversation in which each abandoned question has a turn that says so.

    The process that was to answer them has ended: it was killed, or its machine was.
    """
    there = chats.read(study, conversation)
    left = [
        failed_turn(unanswered_turn(one.asked, one.place, one.number), Status.NOT_RUN, ENDED)
        for one in (there.unanswered if there else ())
        if not is_running(chats.home, one.asked.process, one.asked.at)
    ]
    if not left:
        return there
    chats.append(study, conversation, left)
    return chats.read(study, conversation)


def unanswered_turn(asked: QuestionAsked, place: AnswerSlot, number: int) -> Turn:
    return Turn(
        record_id=place.turn,
        at=asked.at,
        number=number,
        cell=place.cell,
        side=place.side,
        question=asked.question,
        language=asked.language,
        asked_at=asked.asked_at,
        status=Status.NOT_RUN,
        reason="it is being answered",
    )


def failed_turn(turn: Turn, status: Status, reason: str) -> Turn:
    return turn.model_copy(update={"status": status, "reason": reason})


def earlier(turns: Sequence[Turn], before: int, cell: str) -> tuple[str, ...]:
    """Return question and answer by turns, oldest first; an answer that failed is empty.

    Where two cells answered a question side by side, a cell goes on from what it said itself, another
    one from the first of the two. The markers of an answer are left out: they number other passages.

    >>> one = Turn(record_id="x", number=1, cell="p", side="a", question="Who?", status="ok")
    >>> one = one.model_copy(update={"answer": "Ann [1]."})
    >>> said = [one, one.model_copy(update={"cell": "q", "side": "b", "answer": "Bo [2]."})]
    >>> earlier(said, 2, "q"), earlier(said, 2, "r"), earlier(said, 1, "q")
    (('Who?', 'Bo.'), ('Who?', 'Ann.'), ())
    """
    by_number: dict[int, list[Turn]] = {}
    for turn in turns:
        if turn.number < before:
            by_number.setdefault(turn.number, []).append(turn)
    said: list[str] = []
    for number in sorted(by_number):
        sides = sorted(by_number[number], key=lambda one: (one.cell != cell, one.side or ""))
        said += [sides[0].question, without_markers(sides[0].answer or "")]
    return tuple(said)
