"""Ranks newer documents first."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_assay.assets.indexing.index_rows import moment
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, IndexRetriever
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing


class Recency(IndexRetriever):
    """Chunks by the age of their document: `(1 - decay)^hours` before the question was asked.

    decay: share of the score that is lost in an hour; 0: none, so that all are equal

    Without a date of its own, a question is asked on the newest date of the corpus; with a date but no time,
    at the end of that day. Documents that were published later, or on an unknown date, are
    not found. Scores of more than 7,000 hours at the default decay are 0 as a float: they tie, and ties go by
    chunk id; take a smaller decay for older documents (0.001 reaches back 85 years).
    """

    kind: ClassVar[str] = "recency"
    code_version: ClassVar[str] = "1"

    k: Depth = 10
    decay: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        # One power for each date: those that end near 0 are slow to compute.
        dates, places = index.moments
        known = dates[~np.isnat(dates)]
        if not len(known):
            return nothing()
        now = question_moment(query.asked_at) if query.asked_at else known[-1]
        known = known[known <= now]
        scores = (1 - self.decay) ** ((now - known) / np.timedelta64(1, "h"))
        rows = np.flatnonzero((places < len(known)) & query.permitted(np.arange(len(index))))
        return Ranking.best(rows, scores[places[rows]], self.k)


def question_moment(asked_at: str) -> np.datetime64:
    """Return when a question was asked, to the second: a time, or the last second of a day without one.

    Time zones are left out on both sides (`assets.indexing.index_rows.moment`).

    >>> question_moment("2024-05-31"), question_moment("2024-05-31T12:00:00+02:00")
    (np.datetime64('2024-05-31T23:59:59'), np.datetime64('2024-05-31T12:00:00'))
    """
    at = moment(asked_at)
    if at is None:
        raise ValueError(
            f"the question's date {asked_at!r} is not one; write it as in 2024-05-31 or 2024-05-31T12:00"
        )
    if len(asked_at.strip()) <= len("2024-05-31"):
        at += timedelta(days=1, seconds=-1)
    return np.datetime64(at, "s")
