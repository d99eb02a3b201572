"""How an answer came about, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from evals.reporting.answer_steps import AnswerSteps, verdict_words
from evals.reporting.display import several, trimmed
from evals.retrieving.understood import Understood
from orchestration.terminal.speaking import text
from warehouse.schemas import Status

BINS = 12  # that are shown
TEXT = 160  # characters of a query, a reason or the answer of a bin


def understood_words(one: Understood) -> str:
    """Return what was understood of a question as a line.

    >>> understood_words(Understood("time_frame", "window", "before 2005", "../2004-12-31", "relaxed"))
    'time_frame window: “before 2005” → ../2004-12-31 (dropped: nothing was left with it)'
    """
    said = f"“{trimmed(one.text, TEXT)}” → " if one.text and one.text != one.value else ""
    use = {
        "used": "",
        "unused": " (limits nothing)",
        "relaxed": " (dropped: nothing was left with it)",
        "removed": " (taken away)",
    }[one.status]
    return f"{one.step} {one.kind}: {said}{trimmed(one.value, TEXT)}{use}"


def step_lines(steps: AnswerSteps) -> Iterator[Text]:
    """Yield the looks for passages, the bins and what was left out of the conversation."""
    for attempt in steps.attempts:
        line = f"  looked for “{trimmed(attempt.query, TEXT)}”: {trimmed(verdict_words(attempt), TEXT)}"
        yield text(line, "dim" if attempt.sufficient else "yellow")
    for number, one in enumerate(steps.bins[:BINS], start=1):
        found = one.answer or one.reason or ""
        style = "dim" if one.status in {Status.OK, Status.REFUSED} else "yellow"
        yield text(
            f"  bin {number} of {len(steps.bins)}, {several(len(one.chunks), 'passage')} [{one.status}]: "
            f"{trimmed(' '.join(found.split()), TEXT)}",
            style,
        )
    if len(steps.bins) > BINS:
        yield text(f"  {several(len(steps.bins) - BINS, 'further bin')}", "dim")
    if steps.turns_left_out:
        turns = several(steps.turns_left_out, "turn")
        yield text(f"  {turns} of the conversation left out: too long for history_tokens", "yellow")
