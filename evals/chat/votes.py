"""Votes between two cells that answered a question side by side, as human ratings.

A vote is a line of the conversation, and a score by the study's pairwise rubric that compares the two cells.
Of a question of the study, answered as it was measured, the score is of the item that an annotator would be
shown, and counts as the annotator's would. Of any other question it counts as soon as the study asks it and
the cells answer it so; until then it is kept, as are votes on two cells that no rubric compares, by the name
`chat`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from secrets import token_urlsafe
from typing import Any, Literal, NamedTuple

from rag_assay.evals.chat.open_questions import earlier
from rag_assay.evals.rubrics.items import item_id
from rag_assay.evals.rubrics.pairwise import LOSS, TIE, WIN, PairwiseRubric
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.conversations import GONE, ConversationNotFoundError, Conversations, Turn, Vote
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import CHAT, HumanScore, HumanScores, annotator_name
from rag_assay.warehouse.schemas import Status

Preferred = Literal["a", "b", "tie"]
Knows = Callable[[str], dict[str, Any] | None]
ANONYMOUS = "chat"
"""Whose votes they are of people who have not said what they are called."""


class _Compared(NamedTuple):
    """A rubric by which one of two cells is compared with the other."""

    name: str
    rubric: Rubric
    own: Turn
    rival: Turn


def vote(
    study: Study,
    chats: Conversations,
    conversation: str,
    number: int,
    preferred: Preferred,
    knows: Knows = lambda _words: None,
) -> Vote:
    """Keep which of the two answers to a question is better; a later vote takes the place of an earlier one.

    knows: words -> the study's question that has them, or None

    Raises:
        ConversationNotFoundError: the conversation was deleted.
    """
    there = chats.read(study.study, conversation)
    if there is None:
        raise ConversationNotFoundError(GONE)
    sides = {turn.side: turn for turn in there.turns if turn.number == number}
    a, b = sides.get("a"), sides.get("b")
    if a is None or b is None or not (_is_answered(a) and _is_answered(b)):
        raise InputError("there are no two answers to choose from")
    said = Vote(record_id=token_urlsafe(12), number=number, a=a.record_id, b=b.record_id, preferred=preferred)
    chats.append(study.study, conversation, [said])
    annotator = _annotator(there.begun.person)
    HumanScores(chats.home).append(
        _scores(study, said, (a, b), annotator, partial(_item, there.turns, knows))
    )
    return said


def _is_answered(turn: Turn) -> bool:
    return turn.status in {Status.OK, Status.REFUSED} and bool(turn.answer)


def _annotator(person: str) -> str:
    try:
        return annotator_name(person)
    except InputError:
        return ANONYMOUS


def _scores(
    study: Study, said: Vote, sides: tuple[Turn, Turn], annotator: str, item: Callable[[Turn, Turn], str]
) -> Iterator[HumanScore]:
    a, b = sides
    if a.answer == b.answer:
        return  # equal answers are a tie without a question
    for one in _compared(study, a, b):
        ties = isinstance(one.rubric, PairwiseRubric) and not one.rubric.ties
        value = TIE if said.preferred == "tie" else WIN if said.preferred == one.own.side else LOSS
        yield HumanScore(
            score_id=f"{said.record_id}-{one.name}-{one.own.side}",
            study=study.whole,
            annotator=annotator,
            item_id=item(one.own, one.rival),
            rubric=one.name,
            rubric_version=one.rubric.version,
            scored_at=datetime.now(UTC),
            value=None if ties and value == TIE else value,
            status="skipped" if ties and value == TIE else "ok",
            place=CHAT,
        )


def _compared(study: Study, a: Turn, b: Turn) -> list[_Compared]:
    """Return the study's rubrics that compare the two cells; one of the chat's own where there is none."""
    short = {turn.record_id: turn.cell.removeprefix(f"{study.study}.") for turn in (a, b)}
    found = [
        _Compared(name, rubric, own, rival)
        for name, rubric in study.rubrics.items()
        for own, rival in ((a, b), (b, a))
        if rubric.compares and rubric.against == short[rival.record_id]
    ]
    if found:
        return found
    own, rival = sorted((a, b), key=lambda turn: turn.cell)
    return [_Compared(CHAT, PairwiseRubric.model_validate({"against": short[rival.record_id]}), own, rival)]


def _item(turns: Sequence[Turn], knows: Knows, own: Turn, rival: Turn) -> str:
    """Return the id of the item as an annotator would be shown it (`evals.pipeline.cell_items`)."""
    known = knows(own.question) if own.question_id else None
    return item_id(
        known["question"] if known else own.question,
        own.answer,
        [one.text for one in own.passages],
        rival.answer,
        setting=(*earlier(turns, own.number, own.cell), own.asked_at),
    )
