"""How much of a conversation a model is given with a question: the newest turns, each whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_assay.evals.generation.contract import Request
from rag_assay.evals.generation.token_sizes import Count, bound_count

HISTORY_TOKENS = 512  # of a conversation, unless a generator says another number


class History(NamedTuple):
    """What a model is given of a conversation.

    turns: question and answer by turns, oldest first; an answer that was left out is empty
    left_out: turns that had text and are not among them
    """

    turns: tuple[str, ...]
    left_out: int


def recent_turns(conversation: Sequence[str], limit: int, count: Count) -> History:
    """Return the newest turns of a conversation that have at most ``limit`` tokens together.

    A question goes with its answer. Of the oldest question that is kept the answer may be missing, where it
    alone is too long: the question tells what was talked of.

    conversation: question and answer by turns, oldest first; the last question may have no answer

    >>> def words(texts):
    ...     return [len(text.split()) for text in texts]
    >>> said = ("Who won?", "Ann Lee won.", "When?", "In May. " * 9, "Where?", "In Rome.")
    >>> recent_turns(said, 5, words)
    History(turns=('When?', '', 'Where?', 'In Rome.'), left_out=3)
    """
    sizes = count(conversation) if conversation else []
    room = limit
    kept: list[str] = []
    for first in reversed(range(0, len(conversation), 2)):
        turns, tokens = list(conversation[first : first + 2]), sum(sizes[first : first + 2])
        if tokens <= room:
            kept = [*turns, *kept]
            room -= tokens
            continue
        if sizes[first] <= room:
            kept = [turns[0], *("" for _ in turns[1:]), *kept]
        break
    texts = [turn for turn in conversation if turn.strip()]
    return History(tuple(kept), len(texts) - len([turn for turn in kept if turn.strip()]))


def with_recent(request: Request, limit: int, count: Count) -> tuple[Request, int]:
    """Return a request whose conversation fits, and how many of its turns were left out."""
    if not request.conversation:
        return request, 0
    history = recent_turns(request.conversation, limit, bound_count(count))
    return replace(request, conversation=history.turns), history.left_out
