"""How an answer came about and where evidence was lost, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting.answers import AnswerSteps, verdict_words
from rag_assay.evals.reporting.display import several, truncate
from rag_assay.evals.retrieval.query import QueryInterpretation
from rag_assay.orchestration.terminal.cli_errors import text
from rag_assay.warehouse.schemas import Status


def fate_words(loss: dict[str, Any]) -> str:
    if loss["lost_at"] is None:
        return (
            f"held by the first {several(loss['found_at'], 'passage')}" if loss["found_at"] else "delivered"
        )
    step = f" ({loss['step']})" if loss["step"] else ""
    return f"lost at {Loss(loss['lost_at']).label}{step}"


BINS = 12  # that are shown
TEXT = 160  # characters of a query, a reason or the answer of a bin


def understood_words(one: QueryInterpretation) -> str:
    """Return what was understood of a question as a line.

    >>> one = QueryInterpretation("time_frame", "window", "before 2005", "../2004-12-31", "relaxed")
    >>> understood_words(one)
    'time_frame window: “before 2005” → ../2004-12-31 (dropped: it left no passage)'
    """
    said = f"“{truncate(one.text, TEXT)}” → " if one.text and one.text != one.value else ""
    use = {
        "used": "",
        "unused": " (limits nothing)",
        "relaxed": " (dropped: it left no passage)",
        "removed": " (taken away)",
    }[one.status]
    return f"{one.step} {one.kind}: {said}{truncate(one.value, TEXT)}{use}"


def step_lines(steps: AnswerSteps) -> Iterator[Text]:
    for attempt in steps.attempts:
        line = f"  looked for “{truncate(attempt.query, TEXT)}”: {truncate(verdict_words(attempt), TEXT)}"
        yield text(line, "dim" if attempt.sufficient else "yellow")
    for number, one in enumerate(steps.bins[:BINS], start=1):
        found = one.answer or one.reason or ""
        style = "dim" if one.status in {Status.OK, Status.REFUSED} else "yellow"
        yield text(
            f"  bin {number} of {len(steps.bins)}, {several(len(one.chunks), 'passage')} [{one.status}]: "
            f"{truncate(' '.join(found.split()), TEXT)}",
            style,
        )
    if len(steps.bins) > BINS:
        yield text(f"  {several(len(steps.bins) - BINS, 'further bin')}", "dim")
    if steps.turns_left_out:
        turns = several(steps.turns_left_out, "turn")
        yield text(f"  {turns} of the conversation left out: too long for history_tokens", "yellow")
