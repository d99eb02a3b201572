"""What was said before a question, as a cell is given it."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.generation.citations import without_markers
from rag_assay.warehouse.conversation_records import Turn


def earlier(turns: Sequence[Turn], before: int, cell: str) -> tuple[str, ...]:
    """Return question and answer by turns, oldest first; an answer that failed is empty.

    Where two cells answered a question side by side, a cell goes on from what it said itself, another
    one from the first of the two. The markers of an answer are left out: they number other passages.

    before: number of the question that is asked now

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
