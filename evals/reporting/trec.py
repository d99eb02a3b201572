"""Writes rankings and gold in TREC's format, rounded so that trec_eval ranks them as we do.

trec_eval orders a question's documents by score and equal scores by name, whatever rank the file says, and
holds scores as 32-bit floats. So scores are written as such floats, each below the one before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import numpy as np

from rag_assay.evals.metrics.contract import Gold

NOTHING = "nothing-found"
"""The document of a question without hits: without a line, trec_eval would leave it out of its means."""

_LARGEST = 1e38  # less than the largest 32-bit float, with room below
_NORMAL = np.finfo(np.float32).tiny  # smaller ones are read as 0 by some
_UNFIT = re.compile(r"[\s%\x00-\x1f\x7f]")


def trec_id(name: str) -> str:
    """Return a name as one word: white space, controls and `%` as in URLs, so that no two become one.

    >>> trec_id("a b%"), trec_id("zwölf")
    ('a%20b%25', 'zwölf')
    """
    return _UNFIT.sub(lambda sign: quote(sign[0], safe=""), name)


def falling(scores: Iterable[float | None]) -> list[float]:
    """Return 32-bit floats that fall strictly: each score as it is, or as little below the last as can be.

    >>> [f"{score:.9g}" for score in falling([0.5, 0.5, None, -1.0])]
    ['0.5', '0.49999997', '0.49999994', '-1']
    """
    found: list[float] = []
    before = np.float32(np.inf)
    for score in scores:
        below = _below(before)
        known = score is not None and not math.isnan(score)
        single = np.float32(min(max(score, -_LARGEST), _LARGEST)) if score is not None and known else below
        before = min(single, below)
        found.append(float(before))
    return found


def _below(number: np.float32) -> np.float32:
    if number == np.inf:
        return np.float32(_LARGEST)
    less = np.nextafter(number, np.float32(-np.inf))
    return less if abs(less) >= _NORMAL else (np.float32(0) if number > 0 else -_NORMAL)


def run_lines(question_id: str, found: Sequence[tuple[str, float | None]], tag: str) -> list[str]:
    """Return the lines of one question (`query Q0 document rank score tag`).

    Args:
        found: hits, best first: document and score. A document counts where it comes first; none at all is
            one line of a document that is nobody's.
    """
    first: dict[str, float | None] = {}
    for doc, score in found:
        first.setdefault(doc, score)
    first = first or {NOTHING: 0.0}
    scores = falling(first.values())
    return [
        f"{trec_id(question_id)} Q0 {trec_id(doc)} {rank} {score:.9g} {trec_id(tag)}\n"
        for rank, (doc, score) in enumerate(zip(first, scores, strict=True), 1)
    ]


def qrels_lines(question_id: str, gold: Gold) -> list[str]:
    """Return what is relevant to a question (`query 0 document grade`), what no ranking can hold included."""
    return [f"{trec_id(question_id)} 0 {trec_id(doc)} {grade}\n" for doc, grade in gold.documents.items()]


def counts_alike(gold: Gold) -> bool:
    """Return whether trec_eval counts a question as we do: it cannot say that any one of several suffices."""
    return gold.needs_all or len(gold.documents) == 1
