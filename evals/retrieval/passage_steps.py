"""Steps on ranked passages: cutoffs, order, neighbours, duplicates, a token budget."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.evals.retrieval.contract import Depth, IndexStep
from rag_assay.evals.retrieval.query import Kind, Query
from rag_assay.evals.retrieval.ranking import Ranking, Scores
from rag_assay.warehouse.spans import Span

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.chunk_spans import ChunkSpans
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex


class GroupByDocument(IndexStep):
    """Puts the passages of a document together, in their order.

    by: best (documents by their first passage) | sum (by the sum of their passages' scores, which favours
        long documents; equal sums, to twelve digits: the document whose first passage stood earlier)
    """

    kind: ClassVar[str] = "group_by_document"
    code_version: ClassVar[str] = "3"
    role: ClassVar[Kind] = "rerank"

    by: Literal["best", "sum"] = "best"

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        sums: dict[str, float] = {}
        docs = [span.doc_id for span in delivered_spans(ranking, index)]
        for doc, score in zip(docs, ranking.scores.tolist(), strict=True):
            sums[doc] = sums.get(doc, 0.0) + score
        order = list(sums)
        if self.by == "sum":
            # 0.1 + 0.2 is 0.3, though it is not as floats.
            order.sort(key=lambda doc: -float(f"{sums[doc]:.12g}"))
        place = {doc: at for at, doc in enumerate(order)}
        return ranking.take(_order([place[doc] for doc in docs]))


class RecentFirst(IndexStep):
    """Among passages whose documents have nearly equal titles, the newer document comes first.

    ratio: how alike titles are, in percent (rapidfuzz' ratio: 100 * (1 - edits / length of both)); 90 sees
        the yearly editions of one report as one

    A title belongs to the first one before it that is so like it. The passages of such titles change places
    among each other only; documents without a date come last there, those without a title stay.
    """

    kind: ClassVar[str] = "recent_first"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "rerank"

    ratio: Annotated[float, Field(gt=0, le=100)] = 90.0

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        published = index.published[ranking.rows]
        found = index.stored.at(ranking.rows, "title")
        leaders = self._leaders([(title or "").casefold().strip() for (title,) in found])
        order = np.arange(len(ranking))
        for leader in set(leaders) - {-1}:
            places = np.flatnonzero(np.array(leaders) == leader)
            unknown = np.isnat(published[places])
            ages = np.where(unknown, 0, -published[places].astype("datetime64[us]").astype(np.int64))
            order[places] = places[np.lexsort((places, ages, unknown))]
        return ranking.take(order)

    def _leaders(self, titles: list[str]) -> list[int]:
        from rapidfuzz import process
        from rapidfuzz.fuzz import ratio

        known: list[str] = []
        found: dict[str, int] = {"": -1}
        for title in titles:
            if title not in found:
                like = process.extract(title, known, scorer=ratio, score_cutoff=self.ratio, limit=None)
                found[title] = min((number for _, _, number in like), default=len(known))
                if found[title] == len(known):
                    known.append(title)
        return [found[title] for title in titles]


class DocumentOrder(IndexStep):
    """Puts the passages of a document together in the order of its text; documents by their best passage."""

    kind: ClassVar[str] = "document_order"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "deliver"

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        spans = delivered_spans(ranking, index)
        place = {doc: at for at, doc in enumerate(dict.fromkeys(span.doc_id for span in spans))}
        return ranking.take(_order([(place[s.doc_id], s.start, s.end) for s in spans]))


class LostInTheMiddle(IndexStep):
    """Puts the best passages at both ends, where language models read them best: 1, 3, 5, …, 6, 4, 2.

    Liu et al., Lost in the Middle, TACL 2024. A passage that several chunks share has one place, that of the
    best of them; the other chunks are left out.
    """

    kind: ClassVar[str] = "lost_in_the_middle"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "deliver"

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        places = np.array(distinct(ranking, index), np.int64)
        return ranking.take(np.concatenate([places[::2], places[1::2][::-1]]))


def _order(keys: list[int] | list[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


DECIMALS = 9  # of a drop and of a curvature that are compared
LEAST = 10  # passages: with fewer, evidence was lost on six of six collections (docs/proof.md)
EXACT = 1e-12  # share of a score below which differences are those of floats


class Top(IndexStep):
    """Keeps the first k.

    k: the most passages that are kept
    """

    kind: ClassVar[str] = "top"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "cut"

    k: Depth = 10

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        return ranking.take(slice(self.k))


class Threshold(IndexStep):
    """Keeps what reaches a score.

    at_least: between 0 and 1, both excluded. Default: 0.2. Half of the best BM25 score cuts evidence off
    of: best (that share of the best score; where the best is not above 0, only what equals it is kept)
        | absolute (the score itself: of use for cosines, shares and cross-encoders, not for BM25)

    What lacks less than a millionth of a millionth of the score to reach reaches it: 0.1 of 3.0 is 0.3.
    """

    kind: ClassVar[str] = "threshold"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "cut"

    at_least: Annotated[float, Field(gt=0, lt=1)] = 0.2
    of: Literal["best", "absolute"] = "best"

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        if not len(ranking):
            return ranking
        best = float(ranking.scores.max())
        share = self.at_least * best if best > 0 else best
        bound = share if self.of == "best" else self.at_least
        return ranking.take(ranking.scores >= bound - EXACT * abs(bound))


class Adaptive(IndexStep):
    """Ends a ranking where its scores say so: as many passages as the question has good ones.

    With a smaller `min` than 10 it cuts evidence off: at `steepest` and 1, nDCG@10 fell by 0.10 on average
    over six collections (docs/proof.md).

    method: steepest (before the largest drop from one score to the next) | curvature (before the point where
        the curve of the scores, brought to 0..1 both ways, bends most from falling to flat)
    min, max: at least and at most so many are kept; default: 10 (or `max`, where that is less) and 100. A
        ranking of no more than `min` passages stays whole

    A ranking without a drop, or without a bend, is kept as it is, up to `max`. Equal scores stay together.
    """

    kind: ClassVar[str] = "adaptive"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "cut"

    method: Literal["steepest", "curvature"] = "curvature"
    min: Depth | None = None
    max: Depth = 100

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.min is not None and self.min > self.max:
            raise ValueError(f"min ({self.min}) must not be larger than max ({self.max})")
        return self

    @property
    def least(self) -> int:
        return min(LEAST, self.max) if self.min is None else self.min

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        order = np.lexsort((ranking.rows, -ranking.scores))[: self.max]
        falling = ranking.scores[order]
        if len(falling) > self.least:
            keep = steepest(falling) if self.method == "steepest" else bend(falling)
            last = falling[max(self.least, keep) - 1]
            order = order[falling >= last]
        return ranking.take(np.sort(order))


def steepest(scores: Scores) -> int:
    """Return how many falling scores stand before the largest drop, the first of equal ones.

    >>> steepest(np.array([10, 9.5, 9, 2, 1.8, 1.5])), steepest(np.array([1.0, 1.0]))
    (3, 2)
    >>> steepest(np.array([0.3, 0.2, 0.1]))
    1
    """
    spread = scores[0] - scores[-1] if len(scores) else 0.0
    if spread <= 0:
        return len(scores)
    # As shares of the whole fall, rounded: 0.3 - 0.2 and 0.2 - 0.1 are equal drops.
    drops = np.round((scores[:-1] - scores[1:]) / spread, DECIMALS)
    return int(np.argmax(drops)) + 1


def bend(scores: Scores) -> int:
    """Return how many falling scores stand before the point of the largest curvature y'' / (1 + y'^2)^1.5.

    Derivatives are central differences of the scores over their places, both brought to 0..1.

    >>> bend(np.array([10, 9.5, 9, 2, 1.8, 1.5])), bend(np.array([3.0, 2.0, 1.0])), bend(np.array([2.0, 1.0]))
    (3, 3, 2)
    """
    spread = scores[0] - scores[-1] if len(scores) > 2 else 0.0
    if spread <= 0:
        return len(scores)
    curve = (scores - scores[-1]) / spread
    step = 1 / (len(curve) - 1)
    first = (curve[2:] - curve[:-2]) / (2 * step)
    second = (curve[2:] - 2 * curve[1:-1] + curve[:-2]) / step**2
    curvature = np.round(second / (1 + first**2) ** 1.5, DECIMALS)
    return int(np.argmax(curvature)) + 1 if curvature.max() > 0 else len(scores)


_WORD = re.compile(r"\w+")


def delivered_spans(ranking: Ranking, index: OpenIndex) -> list[Span]:
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
    return [index.passage(*span) for span in delivered_spans(ranking, index)]


class Neighbours(IndexStep):
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

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
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
            found[-1] = (min(first, place), Span(known.doc_id, known.start, max(known.end, span.end)))
        else:
            found.append((place, span))
    return dict(sorted(found))


def _meet(left: Span, right: Span, index: OpenIndex) -> bool:
    if left.doc_id != right.doc_id:
        return False
    return right.start <= left.end or not index.passage(left.doc_id, left.end, right.start).strip()


class Deduplicate(IndexStep):
    """Drops a passage whose text came before, case, punctuation and white space aside.

    jaccard: drop also a passage that shares at least this part of its distinct words with an earlier one
        (words of both / words of either); only equal texts unless it is given
    """

    kind: ClassVar[str] = "deduplicate"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "filter"

    jaccard: Annotated[float, Field(gt=0, le=1)] | None = None

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
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


class TokenBudget(IndexStep):
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

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        count = context.count
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
