"""Says which passages a model was not given as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.reporting.display import several


def cut_words(kept: Sequence[int]) -> str:
    """Say how many passages were cut to the budget of context or the model's window; empty where none was.

    kept: characters of each cut passage that were given; 0: it was left out

    >>> cut_words([240, 0, 0])
    '1 passage shortened and 2 passages left out to fit the context'
    """
    shortened, left_out = sum(one > 0 for one in kept), sum(one == 0 for one in kept)
    parts = [
        f"{several(shortened, 'passage')} shortened" if shortened else "",
        f"{several(left_out, 'passage')} left out" if left_out else "",
    ]
    told = " and ".join(filter(None, parts))
    return f"{told} to fit the context" if told else ""
