"""Steps that change the order in which passages are read; their scores stay."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenStep, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import delivered_spans, distinct
from rag_assay.evals.retrieval.query import Kind
from rag_assay.evals.retrieval.ranking import Ranking


class GroupByDocument(Step):
    """Puts the passages of a document together, in their order.

    by: best (documents by their first passage) | sum (by the sum of their passages' scores, which favours
        long documents; equal sums, to twelve digits: the document whose first passage stood earlier)
    """

    kind: ClassVar[str] = "group_by_document"
    code_version: ClassVar[str] = "3"
    role: ClassVar[Kind] = "rerank"

    by: Literal["best", "sum"] = "best"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Put all passages in groups."""
        return OpenStep(lambda ranking, query: self._grouped(ranking, index))

    def _grouped(self, ranking: Ranking, index: OpenIndex) -> Ranking:
        sums: dict[str, float] = {}
        docs = _docs(ranking, index)
        for doc, score in zip(docs, ranking.scores.tolist(), strict=True):
            sums[doc] = sums.get(doc, 0.0) + score
        order = list(sums)
        if self.by == "sum":
            # 0.1 + 0.2 is 0.3, though it is not as floats.
            order.sort(key=lambda doc: -float(f"{sums[doc]:.12g}"))
        place = {doc: at for at, doc in enumerate(order)}
        return ranking.take(_order([place[doc] for doc in docs]))


class RecentFirst(Step):
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

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Let passages of like titles take their places by falling date."""
        return OpenStep(lambda ranking, query: self._newest_first(ranking, index))

    def _newest_first(self, ranking: Ranking, index: OpenIndex) -> Ranking:
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
        """Return for each title the number of the first one that it is like; -1 for none at all."""
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


class DocumentOrder(Step):
    """Puts the passages of a document together in the order of its text; documents by their best passage."""

    kind: ClassVar[str] = "document_order"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "deliver"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Put all passages as one would read them."""
        return OpenStep(lambda ranking, query: self._as_read(ranking, index))

    def _as_read(self, ranking: Ranking, index: OpenIndex) -> Ranking:
        spans = delivered_spans(ranking, index)
        place = {doc: at for at, doc in enumerate(dict.fromkeys(span.doc_id for span in spans))}
        return ranking.take(_order([(place[s.doc_id], s.start, s.end) for s in spans]))


class LostInTheMiddle(Step):
    """Puts the best passages at both ends, where language models read them best: 1, 3, 5, …, 6, 4, 2.

    Liu et al., Lost in the Middle, TACL 2024. A passage that several chunks share has one place, that of the
    best of them; the other chunks are left out.
    """

    kind: ClassVar[str] = "lost_in_the_middle"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "deliver"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Put the last passages in the middle."""
        return OpenStep(lambda ranking, query: self._best_outside(ranking, index))

    def _best_outside(self, ranking: Ranking, index: OpenIndex) -> Ranking:
        places = np.array(distinct(ranking, index), np.int64)
        return ranking.take(np.concatenate([places[::2], places[1::2][::-1]]))


def _docs(ranking: Ranking, index: OpenIndex) -> list[str]:
    return [span.doc_id for span in delivered_spans(ranking, index)]


def _order(keys: list[int] | list[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
