"""Steps on delivered text: neighbours of a passage, duplicates, a token budget."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_assay.evals.retrieval.chunk_spans import ChunkSpans
from rag_assay.evals.retrieval.context import CountTokens, RetrievalContext
from rag_assay.evals.retrieval.contract import OpenStep, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Kind
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.spans import Span

_WORD = re.compile(r"\w+")


def delivered_spans(ranking: Ranking, index: OpenIndex) -> list[Span]:
    """Return what is delivered for each row: its span, or the chunk's own context."""
    if ranking.spans is None:
        return index.spans.at(ranking.rows)
    return index.spans.within(ranking.rows, ranking.spans)


def distinct(ranking: Ranking, index: OpenIndex) -> list[int]:
    """Return the place of each passage in a ranking, once where several chunks share it: its first one."""
    first: dict[Span, int] = {}
    for place, span in enumerate(delivered_spans(ranking, index)):
        first.setdefault(span, place)
    return list(first.values())


def passages(ranking: Ranking, index: OpenIndex) -> list[str]:
    """Return the text that is delivered for each row."""
    return [index.passage(*span) for span in delivered_spans(ranking, index)]


class Neighbours(Step):
    """Delivers each chunk with those around it, and characters that several passages would hold once.

    n: chunks before and after it, of the same document

    Passages of a document that overlap or touch (but for white space) become one, at the place and with the
    score of the best of them.
    """

    kind: ClassVar[str] = "neighbours"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "deliver"
    widens: ClassVar[bool] = True

    n: Annotated[int, Field(ge=1, le=100)] = 1

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Deliver fewer and longer passages, in the order of the ranking."""
        return OpenStep(lambda ranking, query: self._with_neighbours(ranking, index))

    def _with_neighbours(self, ranking: Ranking, index: OpenIndex) -> Ranking:
        chunks = index.spans
        wide = [
            self._widened(row, span, chunks)
            for row, span in zip(ranking.rows.tolist(), delivered_spans(ranking, index), strict=True)
        ]
        kept = merged(wide, index)
        spans = np.array([[start, end] for _, start, end in kept.values()], np.int64).reshape(-1, 2)
        places = np.array(list(kept), np.int64)
        return Ranking(ranking.rows[places], ranking.scores[places], spans)

    def _widened(self, row: int, span: Span, chunks: ChunkSpans) -> Span:
        siblings = chunks.rows[span.doc_id]
        at = int(np.flatnonzero(siblings == row)[0])
        around = siblings[max(0, at - self.n) : at + self.n + 1]
        start, end = int(chunks.contexts[around, 0].min()), int(chunks.contexts[around, 1].max())
        return Span(span.doc_id, min(span.start, start), max(span.end, end))


def merged(spans: list[Span], index: OpenIndex) -> dict[int, Span]:
    """Join spans that overlap or touch; return the first place of each -> what it became, by place."""
    found: list[tuple[int, Span]] = []
    for place, span in sorted(enumerate(spans), key=lambda item: item[1]):
        if found and _meet(found[-1][1], span, index):
            first, known = found[-1]
            found[-1] = (
                min(first, place),
                Span(known.doc_id, known.start, max(known.end, span.end)),
            )
        else:
            found.append((place, span))
    return dict(sorted(found))


def _meet(left: Span, right: Span, index: OpenIndex) -> bool:
    if left.doc_id != right.doc_id:
        return False
    return right.start <= left.end or not index.passage(left.doc_id, left.end, right.start).strip()


class Deduplicate(Step):
    """Drops a passage whose text came before, case, punctuation and white space aside.

    jaccard: drop also a passage that shares at least this part of its distinct words with an earlier one
        (words of both / words of either); only equal texts unless it is given
    """

    kind: ClassVar[str] = "deduplicate"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "filter"

    jaccard: Annotated[float, Field(gt=0, le=1)] | None = None

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep the passages that say something new, in the order of the ranking."""
        return OpenStep(lambda ranking, query: self._without_copies(ranking, index))

    def _without_copies(self, ranking: Ranking, index: OpenIndex) -> Ranking:
        seen: set[str] = set()
        holders: dict[str, list[int]] = {}  # word -> kept passages that hold it
        sizes: list[int] = []
        keep = []
        for place, text in enumerate(passages(ranking, index)):
            words = _WORD.findall(text.casefold())
            plain = " ".join(words) or text
            if plain in seen or (self.jaccard is not None and self._is_near(set(words), holders, sizes)):
                continue
            seen.add(plain)
            for word in set(words):
                holders.setdefault(word, []).append(len(sizes))
            sizes.append(len(set(words)))
            keep.append(place)
        return ranking.take(np.array(keep, np.int64))

    def _is_near(self, words: set[str], holders: dict[str, list[int]], sizes: list[int]) -> bool:
        common = Counter(other for word in words for other in holders.get(word, ()))
        return any(
            shared / (len(words) + sizes[other] - shared) >= (self.jaccard or 1)
            for other, shared in common.items()
        )


class TokenBudget(Step):
    """Keeps passages from the first on while their tokens fit into a budget; a passage is never cut.

    tokens: those of all passages together at most, as the chunking's tokenizer counts the text that is
        delivered: without the heading that a chunk is embedded after, and without special tokens
    skip: a passage that does not fit is left out and the next one tried; otherwise it ends the ranking

    A passage that several chunks share is delivered once, and counted once.
    """

    kind: ClassVar[str] = "token_budget"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "budget"

    tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    skip: bool = False

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep what fits, in the order of the ranking."""
        return OpenStep(lambda ranking, query: self._fitting(ranking, index, context.count))

    def _fitting(self, ranking: Ranking, index: OpenIndex, count: CountTokens | None) -> Ranking:
        if count is None:
            raise ValueError("a token budget needs the tokenizer of the chunking")
        left = self.tokens
        keep: list[int] = []
        paid: set[Span] = set()
        for place, span in enumerate(delivered_spans(ranking, index)):
            needed = 0 if span in paid else count([index.passage(*span)])[0]
            if needed <= left:
                left -= needed
                keep.append(place)
                paid.add(span)
            elif not self.skip:
                break
        return ranking.take(np.array(keep, np.int64))
