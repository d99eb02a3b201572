"""Sentences that several charts share."""

from __future__ import annotations

from rag_assay.evals.reporting.display import several

IN_ROWS = "the rows beside the report (JSON) hold them"


def left_out(why: str, **counts: int) -> str:
    """Say how many of each noun a chart does not show; nothing where it shows all.

    >>> left_out("the table holds them", cell=3, metric=1)
    '3 further cells and 1 further metric left out; the table holds them.'
    >>> left_out("the table holds them", cell=0)
    ''
    """
    found = [several(n, f"further {noun}") for noun, n in counts.items() if n]
    return f"{' and '.join(found)} left out; {why}." if found else ""
