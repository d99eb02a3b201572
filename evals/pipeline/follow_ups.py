"""Reads follow-ups by rules in front of a retriever that does not read them."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel

from rag_assay.evals.pipeline.retrieval import OpenRetrieval
from rag_assay.evals.query_transforms.follow_up import FollowUp
from rag_assay.evals.retrieval.contract import OpenTransform, Searcher
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking


class FollowUpSearcher(Searcher):
    """Lets a question stand alone before it is searched; without a conversation it is searched as it is.

    Args:
        transform: `follow_up`, opened.
        searcher: what searches; it belongs to whoever opened it, and is closed with this one.
    """

    def __init__(self, transform: OpenTransform, searcher: Searcher) -> None:
        self._transform = transform
        self._searcher = searcher

    def search(self, query: Query) -> Ranking:
        """Search for the question that stands alone."""
        if query.conversation:
            (query,) = self._transform.read(query)
        return self._searcher.search(query)

    def close(self) -> None:
        """Close what searches."""
        self._searcher.close()


def with_follow_up(retrieval: OpenRetrieval) -> OpenRetrieval:
    """Return a retrieval that reads follow-ups by rules; one that reads them already as it is."""
    if reads_follow_ups(retrieval):
        return retrieval
    transform = FollowUp().open(retrieval.index, retrieval.context)
    return replace(retrieval, searcher=FollowUpSearcher(transform, retrieval.searcher))


def reads_follow_ups(retrieval: OpenRetrieval) -> bool:
    """Return whether follow-ups are rewritten, by the cell's own recipe or in front of it."""
    return isinstance(retrieval.searcher, FollowUpSearcher) or _holds_follow_up(retrieval.retriever)


def _holds_follow_up(part: object) -> bool:
    """Return whether a part of a recipe, or one inside it (an arm of a fusion), is a `follow_up`."""
    if isinstance(part, FollowUp):
        return True
    if isinstance(part, BaseModel):
        return any(map(_holds_follow_up, vars(part).values()))
    if isinstance(part, dict):
        return any(map(_holds_follow_up, part.values()))
    return isinstance(part, tuple | list) and any(map(_holds_follow_up, part))
