"""Builds the passages that generators and judges read from hits and an index."""

from __future__ import annotations

from evals.generating.contract import Passage
from evals.retrieving.index import OpenIndex


def passage_of(index: OpenIndex, chunk_id: str, start: int, end: int, score: float) -> Passage:
    """Return what was delivered for a chunk: `document.text[start:end]`, with its document's facts."""
    row = index.positions[chunk_id]
    facts = {name: index.chunks[name][row] for name in ("doc_id", "title", "url", "published_at")}
    return Passage(
        text=index.passage(facts["doc_id"], start, end),
        chunk=chunk_id,
        document=facts["doc_id"],
        title=facts["title"] or None,
        url=facts["url"],
        date=facts["published_at"],
        start=start,
        end=end,
        score=score,
    )
